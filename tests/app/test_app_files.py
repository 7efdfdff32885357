"""Files opened in the page: read, bounded, refused in a sentence, and never run."""

import base64
import pickle

import numpy as np
import pandas as pd
import pytest

from archive_helpers import FIRST_LINE, document, sealed
from explanation_helpers import CLASSES, explanation
from gpec._numbers import number
from gpec.app import _files
from gpec.app._drawing import plain
from gpec.app._files import FileCache, read_file
from gpec.app._rows import MOST_COMPARED, compared_features, draw_comparison, rows_table, selected_rows, table
from gpec.errors import CorruptFileError, GPECError, InputError
from gpec.similar import MeasurementError


@pytest.fixture
def saved(tmp_path):
    """``saved(**changes)``: the path of a saved explanation."""

    def write(**changes):
        path = tmp_path / "some.gpec"
        explanation(**changes).save(path)
        return path

    return write


def uploaded(content):
    return f"data:application/octet-stream;base64,{base64.b64encode(content).decode()}"


def everything(component):
    """All texts of a component of dash."""
    if component is None or isinstance(component, (str, int, float)):
        return [] if component is None else [str(component)]
    if isinstance(component, (list, tuple)):
        return [text for part in component for text in everything(part)]
    return everything(getattr(component, "children", None))


def test_an_explanation_is_opened(saved):
    file = read_file(saved(n=6, row_names=np.array(list("abcdef"))), "mine.gpec")
    assert (file.name, file.has_intervals) == ("mine.gpec", True)
    assert file.labels == list("abcdef")
    assert file.statements == (explanation().statement(),)
    assert dict(file.facts)["Rows"] == "6"


def test_an_upload_is_the_same_as_a_path(saved):
    path, cache = saved(), FileCache()
    key, name = cache.open_upload(uploaded(path.read_bytes()), "sent.gpec")
    other, _ = cache.open_path(path)
    assert name == "sent.gpec"
    np.testing.assert_array_equal(cache.get(key).explanation.values, cache.get(other).explanation.values)


def test_a_fit_is_described_without_its_model(make_auto, X, tmp_path):
    path = tmp_path / "fit.gpec"
    g = make_auto().fit(X[:60]).calibrate(X[60:])
    g.save(path)
    file = read_file(path, "fit.gpec")
    assert not file.has_intervals
    e = file.explanation
    np.testing.assert_array_equal(e.values, g.attributions_.values)
    np.testing.assert_array_equal(e.noise_variance, g.attributions_.variance)
    np.testing.assert_array_equal(e.data, g.X_explained_)
    own = g.explain(X[:1]).statement(), g.explain(X[:1], attribution="posterior").statement()
    for sentence, shown in zip(own, file.statements[1:3], strict=True):
        assert shown.lower().endswith(sentence.split(" Similar means")[0].lower())  # which rows tell
    assert "gpec explain DATA --fitted fit.gpec --model MODEL" in file.statements[-1]
    facts = dict(file.facts)
    assert facts["Points on the decision boundary"] == "60"
    assert facts["kernel"] == "auto"
    assert facts["Explained rows"] == "25"


@pytest.mark.parametrize("similar", ["auto", MeasurementError({0: 0.5})], ids=["fixed", "random"])
def test_a_fit_in_mode_explain(make_exact, X, tmp_path, similar):
    path = tmp_path / "fit.gpec"
    g = make_exact(similar=similar).fit(X)
    g.save(path)
    file = read_file(path, "fit.gpec")
    facts = dict(file.facts)
    assert facts["Mode"] == "explain"
    assert not {"Points on the decision boundary", "Rows explained to learn from", "kernel", "lam"} & set(facts)
    (promise,) = file.statements[1:-1]
    assert "so this is exact for each row" in promise
    own = g.explain(X[:1]).statement()
    for count in (", 10 for each row,", ", which comes from 39 such rows"):
        own = own.replace(count, "")
    own = own.split(" Similar means")[0]  # of the rows that are explained
    assert promise == own  # how many similar rows there are, only the rows tell


def test_a_fit_of_a_regressor_has_no_class(make_auto, models, X, tmp_path):
    path = tmp_path / "fit.gpec"
    make_auto(models.curved, model_output="value").fit(X).save(path)
    assert read_file(path, "fit.gpec").explanation.output_names is None


def test_a_fit_of_several_classes(make_auto, models, X, tmp_path):
    path = tmp_path / "fit.gpec"
    make_auto(models.three_classes, models.slopes_of_three, similar=None, kernel="weg").fit(X).save(path)
    file = read_file(path, "fit.gpec")
    assert file.outputs == ["0", "1", "2"]
    assert file.of_output(2)[0].shape == (25, 3)
    assert "promise no coverage" in file.statements[1]


def test_a_small_archive_that_takes_much_memory_is_refused():
    line = ["<f8", [3 * 10**7], "C", 24 * 10**7]
    content = sealed(document({"dict": {"values": {"array": 0}}}, [line], "Explanation"), bytes(24 * 10**7))
    assert len(content) < 2**18
    with pytest.raises(InputError, match=r"zeros\.gpec takes 0\.24 GB of memory, more than the 0\.2 GB allowed"):
        FileCache().open_upload(uploaded(content), "zeros.gpec")


def test_a_large_upload_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr(_files, "LARGEST_UPLOAD", 2**20)
    with pytest.raises(InputError, match=r"big\.gpec is larger than 1 MB"):
        FileCache().open_upload(uploaded(bytes(2**20 + 4)), "big.gpec")


def test_a_pickle_is_not_run(tmp_path):
    mark = tmp_path / "mark"

    class Evil:
        def __reduce__(self):
            return open, (str(mark), "w")

    pickled = pickle.dumps(Evil())
    inside = sealed(
        document({"dict": {"values": {"array": 0}}}, [["|O", [1], "C", len(pickled)]], "Explanation"), pickled
    )
    for content in (pickled, inside[FIRST_LINE:], inside):
        with pytest.raises(GPECError, match=r"evil\.gpec"):
            FileCache().open_upload(uploaded(content), "evil.gpec")
    assert not mark.exists()


def test_damaged_files_give_a_sentence(saved):
    content, rng, cache = saved().read_bytes(), np.random.default_rng(0), FileCache()
    for _ in range(100):
        damaged = bytearray(content)
        if rng.random() < 0.5:
            damaged[rng.integers(len(damaged))] ^= int(rng.integers(1, 256))
        else:
            damaged = damaged[: rng.integers(len(damaged))]
        with pytest.raises(GPECError, match=r"sent\.gpec") as caught:
            cache.open_upload(uploaded(bytes(damaged)), "sent.gpec")
        assert "upload" not in str(caught.value)
        assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"model_variance": np.zeros((5, 2))},
        {"feature_names": ["one"]},
        {"data": np.zeros((4, 3))},
        {"row_names": np.array(["a"])},
        {"predictions": np.zeros((5, 2))},
        {"values": np.full((5, 3), np.nan)},
        {"feature_names": None},
        {"axes": ("row", "feature", "output")},
        {"axes": ("row", "row")},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_parts_that_do_not_fit_are_refused(saved, changes):
    with pytest.raises(CorruptFileError, match=r"^odd\.gpec: Explanation\.\w+ .*; save the file again"):
        read_file(saved(**changes), "odd.gpec")


def test_one_row_alone_is_refused_with_the_remedy(tmp_path):
    path = tmp_path / "one.gpec"
    explanation()[0].save(path)
    with pytest.raises(InputError, match=r"save e\[\[0\]\]"):
        read_file(path, "one.gpec")


def test_what_is_not_there(tmp_path):
    with pytest.raises(InputError, match="no file"):
        FileCache().open_path(tmp_path / "nothing.gpec")
    with pytest.raises(InputError, match="open it again"):
        FileCache().get("some key")
    with pytest.raises(CorruptFileError, match="arrived incomplete"):
        FileCache().open_upload("data:;base64,a", "x")


def test_the_least_recently_used_upload_is_let_go(saved):
    cache, path = FileCache(), saved()
    named = cache.open_path(path)[0]
    content = uploaded(path.read_bytes())
    keys = [cache.open_upload(content, "sent.gpec")[0] for _ in range(8)]
    cache.get(keys[0])
    cache.open_upload(content, "sent.gpec")
    cache.get(keys[0])
    with pytest.raises(InputError, match="no longer open"):
        cache.get(keys[1])
    assert keys[1] not in cache
    assert cache.get(named).name == path.name  # named on the command line: it stays


def test_uploads_that_stay_open_are_limited_by_their_sizes(saved, monkeypatch):
    content = uploaded(saved(n=1000).read_bytes())
    monkeypatch.setattr(_files, "_UPLOADS_MEMORY", 200_000)
    cache = FileCache()
    keys = [cache.open_upload(content, "sent.gpec")[0] for _ in range(3)]
    assert [key in cache for key in keys] == [False, False, True]


def test_an_upload_of_very_many_rows_or_classes(saved, monkeypatch):
    content = uploaded(saved(n=6, classes=4).read_bytes())
    monkeypatch.setattr(_files, "_MOST_ROWS", 5)
    with pytest.raises(InputError, match="6 rows, and the page takes 5 from a browser"):
        FileCache().open_upload(content, "sent.gpec")
    assert len(read_file(saved(n=6), "mine.gpec").labels) == 6  # named on the command line
    monkeypatch.setattr(_files, "_MOST_CLASSES", 3)
    with pytest.raises(InputError, match="4 classes, and the page shows 3"):
        read_file(saved(classes=4), "mine.gpec")


def test_long_texts_of_a_file_are_shortened(saved):
    long = "x" * 10**5
    path = saved(feature_names=[long, "b", "c"], row_names=np.array([long] * 5), diagnostics={"unit": long})
    file = read_file(path, "long.gpec")
    shown = [str(file.labels), str(file.facts), str(file.statements)]
    shown += everything([rows_table(file, 0, np.arange(5), []), table(file.explanation, file.labels, np.arange(3))])
    assert max(map(len, shown)) < 5_000


def has_intervals(tmp_path, firm):
    """Rows of which the given share of the attributions is firm: one firm feature beside an unclear one."""
    firm = np.asarray(firm)
    values = np.column_stack((firm, 1 - firm))
    deviation = np.column_stack((np.full(len(firm), 1e-6), np.full(len(firm), 10.0)))
    path = tmp_path / "judged.gpec"
    explanation(
        n=len(firm), d=2, values=values, model_variance=deviation**2, noise_variance=np.zeros_like(values),
        data=np.column_stack((np.arange(len(firm)) * 1.5, np.array(["Ann", "Bob", "Cy", "Di", "Ed"], dtype=object))),
        feature_names=["age", "name"],
    ).save(path)  # fmt: skip
    return read_file(path, "judged.gpec")


def test_rows_are_sorted_by_firm_share(tmp_path):
    file = has_intervals(tmp_path, [0.6, 1.0, 0.2, 0.98, 0.0])
    np.testing.assert_allclose(file.firm, [0.6, 1.0, 0.2, 0.98, 0.0], atol=1e-9)
    assert selected_rows(file, 0, "", "least").tolist() == [4, 2, 0, 3, 1]
    assert selected_rows(file, 0, "", "most").tolist() == [1, 3, 0, 2, 4]
    assert selected_rows(file, 0, "", "file").tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "found"), [("bob", [1]), ("age=4.5", [3]), ("NAME=cy age=3", [2]), ("nobody", []), ("  ", [0, 1, 2, 3, 4])]
)
def test_rows_are_searched_by_all_words(tmp_path, text, found):
    assert selected_rows(has_intervals(tmp_path, [0.5] * 5), 0, text, "file").tolist() == found


def test_classes_have_their_own_firm_shares(saved):
    file = read_file(saved(classes=4), "x")
    assert file.outputs == CLASSES
    e, firm = file.of_output(2)
    assert e.shape == (5, 3)
    np.testing.assert_array_equal(firm, explanation(classes=4)[:, :, 2].firm_share)


def test_bars_and_table_show_the_numbers():
    e = explanation(n=2)
    features = compared_features(e)
    assert features.tolist() == np.argsort(-np.abs(e.values).max(axis=0)).tolist()
    figure = draw_comparison(e, ["a", "b"], features)
    for i, bar in enumerate(figure.data):
        np.testing.assert_array_equal(bar.x, e.values[i, features])
        np.testing.assert_allclose(np.asarray(bar.x) + bar.error_x.array, e.upper[i, features])
        np.testing.assert_allclose(np.asarray(bar.x) - bar.error_x.arrayminus, e.lower[i, features])
    texts = everything(table(e, ["a", "b"], features))
    assert number(e.values[1, features[0]], e.values, sign=True) in texts
    assert len([text for text in texts if " to " in text]) == 6
    assert not [text for text in everything(table(e, ["a", "b"], features, has_intervals=False)) if " to " in text]


def test_markup_stays_text():
    e = explanation(n=MOST_COMPARED, feature_names=["<script>x</script>", "<b>&", "c"])
    features = np.array([0, 1, 2])
    figure = draw_comparison(e, ["<i>r</i>", "1", "2", "3"], features)
    assert list(figure.layout.yaxis.ticktext)[:2] == ["&lt;script&gt;x&lt;/script&gt;", "&lt;b&gt;&amp;"]
    assert figure.data[0].name == "row &lt;i&gt;r&lt;/i&gt;"
    assert "<script>x</script>" in everything(table(e, list("abcd"), features))  # dash escapes texts itself
    assert plain("x" * 50) == "x" * 22 + "…" + "x" * 11


def test_missing_and_odd_values_are_shown():
    values = [np.nan, None, pd.NaT, pd.NA, "<u>", 1.5, pd.Timestamp("2021-03-01")]
    e = explanation(n=1, d=7, data=np.array([values], dtype=object), feature_names=list("abcdefg"))
    texts = [text.partition(",")[0] for text in everything(table(e, ["a"], np.arange(7))) if text.startswith("value")]
    assert texts == [*["value missing"] * 4, "value <u>", "value 1.5", "value 2021-03-01"]


def test_rows_are_found_by_missing_values_and_names(tmp_path):
    data = np.array([[None, pd.NaT], [np.nan, 1.5], ["x", pd.NA]], dtype=object)
    e = explanation(
        n=3, d=2, data=data, feature_names=["a", "b"], row_names=np.array(["r", None, pd.NaT], dtype=object)
    )
    e.save(tmp_path / "e.gpec")
    file = read_file(tmp_path / "e.gpec", "e.gpec")
    assert file.labels == ["r", "missing", "missing"]
    assert file.texts == ["r a=missing b=missing", "missing a=missing b=1.5", "missing a=x b=missing"]
