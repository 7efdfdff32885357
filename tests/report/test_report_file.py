"""The report as a file: what stands in it, and what must not."""

import base64
import hashlib
import json
import os
import re
import sys

import numpy as np
import pandas as pd
import pytest
from report_helpers import NASTY, Page, nasty

import gpec
from explanation_helpers import explanation
from gpec.errors import InputError, MissingExtraError, ParameterTypeError
from gpec.intervals.trust import shown_words

pytest.importorskip("jinja2", reason="the report needs jinja2")
pytest.importorskip("plotly", reason="the report needs plotly")

VOID = {"meta", "link", "br", "input", "img"}


@pytest.fixture
def written(tmp_path):
    """``written(e, **options)``: the parsed page of an explanation."""

    def write(e, **options):
        e.to_html(tmp_path / "report.html", **options)
        return Page(tmp_path / "report.html")

    return write


@pytest.fixture(scope="module")
def fitted():
    """A fit with text, categories, truth values and numbers, one of them missing, and an explanation of 12 rows."""
    rng = np.random.default_rng(3)
    n = 150
    frame = pd.DataFrame(
        {
            "colour": rng.choice(["blue", "green", "red"], n),
            "size": pd.Categorical(rng.choice(["S", "M", "L"], n), categories=["S", "M", "L"], ordered=True),
            "new": rng.random(n) < 0.5,
            "price": rng.normal(10.0, 3.0, n),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        }
    )
    frame.loc[::7, "price"] = np.nan

    def model(X):
        price = X["price"].fillna(8.0).to_numpy(dtype=float) - 10
        score = price + 2.0 * (X["colour"] == "red").to_numpy() + 1.5 * (X["size"] == "L").to_numpy()
        return 1 / (1 + np.exp(-score))

    g = gpec.GPEC(model, n_boundary=60, n_explained=25, background=10, random_state=0, progress=False).fit(frame)
    return g, frame, g.explain(frame[:12])


# What is in it


def test_numbers_are_those_of_the_explanation(written):
    e = explanation(7, 3, classes=4)
    data = written(e).data
    assert data["features"] == e.feature_names
    assert data["outputs"] == e.output_names
    for k, part in enumerate(data["parts"]):
        for name in ("values", "lower", "upper", "std"):
            found = np.reshape(part[name], (7, 3))
            np.testing.assert_allclose(found, getattr(e, name)[:, :, k], rtol=6e-3 if name == "std" else 6e-4)
        share = e.model_variance[:, :, k] / (e.model_variance + e.noise_variance)[:, :, k]
        np.testing.assert_allclose(np.reshape(part["model"], (7, 3)), 100 * share, atol=0.51)
        words = [["firm", "likely", "unclear"][int(code)] for code in part["words"]]
        assert words == e.firmness[:, :, k].ravel().tolist()
        np.testing.assert_allclose(part["firm"], e.firm_share[:, k], rtol=6e-4)
        np.testing.assert_allclose(data["base"][k], e.base_values[:, k], rtol=1e-5)


def test_rounding_leaves_the_value_inside_its_interval(written):
    e = explanation(200, 3, model_variance=np.full((200, 3), 1e-12), noise_variance=np.zeros((200, 3)))
    part = written(e).data["parts"][0]
    assert np.all(np.less_equal(part["lower"], part["values"]))
    assert np.all(np.less_equal(part["values"], part["upper"]))


def test_global_picture_by_hand(written):
    values = np.array([[1.0, 0.0], [-3.0, 0.1]])
    variance = np.array([[0.01, 1.0], [4.0, 1.0]])
    e = explanation(2, 2, values=values, model_variance=variance, noise_variance=np.zeros((2, 2)))
    (overall,) = written(e).data["overall"]
    t = 12.7062  # Student's 97.5% quantile with one degree of freedom
    assert overall["size"] == pytest.approx([2.0, 0.05])
    assert overall["least"] == [0.0, 0.0]
    # between the rows 2 and 0.005, their own 2.005 and 1
    half = [t * np.sqrt((2 + 2.005) / 2), t * np.sqrt((0.005 + 1) / 2)]
    assert overall["most"] == pytest.approx([2.0 + half[0], 0.05 + half[1]], rel=1e-3)
    assert overall["firm"] == pytest.approx([0.5, 0.0])  # the interval of -3 with a deviation of 2 reaches 0.92


def test_says_what_is_promised_and_what_was_fitted(written, fitted):
    g, _, e = fitted
    page = written(e, gpec=g, title="Prices")
    for text in (e.statement(), "Prices", "kernelshap", "probability", "12 rows, 5 features", gpec.__version__):
        assert text in page.text
    assert "Left-out rows predicted" in page.text


def test_words_mean_what_the_page_says(written):
    """Values a little above and below half of the 95% and of the 80% interval, and one that is exactly 0."""
    z = np.array([1.959, 1.961, 1.281, 1.282, 0.0])[None]
    e = explanation(1, 5, values=z, model_variance=np.sign(z), noise_variance=np.zeros((1, 5)))
    e = gpec.Explanation(**{**vars(e), "data": z, "feature_names": list("abcde"), "base_values": None})
    page = written(e)
    assert page.data["parts"][0]["words"] == "10213"
    assert shown_words(e)[0].tolist() == ["likely", "firm", "unclear", "likely", "none"]
    assert "firm if the 95% interval lies on one side of zero" in page.text
    assert "likely if the 80% interval does" in page.text


def test_values_of_rows_are_readable(written):
    values = [1.0, 123456789.0, 0.123456789, 1e-9, np.nan, None, pd.NaT, pd.Timestamp("2020-02-03"), True, "x" * 100]
    data = np.array(values, dtype=object)[:, None]
    e = explanation(10, 1, data=data, feature_names=["what"])
    (column,) = written(e).data["columns"]
    expected = ["1", "123456789", "0.12346", "1e-09", None, None, None, "2020-02-03", "True", "x" * 40 + "…" + "x" * 19]
    assert column == {"number": False, "texts": expected}


def test_rows_keep_their_labels(written):
    names = np.array(["Ada", "Bo", "Cy", "Di", "Ed"], dtype=object)
    assert written(explanation(row_names=names)).data["labels"] == names.tolist()
    assert written(explanation()).data["labels"] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("key", [0, slice(0, 1), (0, slice(None), "other"), (slice(None), ["age"])])
def test_parts_of_an_explanation(written, key):
    e = explanation(5, 3, classes=4, row_names=np.array(list("abcde"), dtype=object))[key]
    data = written(e).data
    assert len(data["labels"]) == (5 if key == (slice(None), ["age"]) else 1)
    assert data["labels"][0] == "a"
    np.testing.assert_allclose(data["parts"][0]["values"][0], np.ravel(e.values)[0], rtol=1e-3)


# Many rows


def test_a_sample_holds_the_extremes_and_says_so(written):
    e = explanation(300, 3)
    page = written(e, max_rows=50)
    share = e.firm_share
    shown = np.array([int(label) for label in page.data["labels"]])
    assert len(shown) == len(set(shown)) == 50
    assert np.sort(share[shown])[:5] == pytest.approx(np.sort(share)[:5])
    assert np.sort(share[shown])[-5:] == pytest.approx(np.sort(share)[-5:])
    assert "this page lists 50 of them: the 5 with the smallest and the 5 with the largest firm share" in page.text
    assert page.data["overall"][0]["size"] == pytest.approx(np.abs(e.values).mean(axis=0), rel=1e-3)
    again = written(e, max_rows=50).data["labels"]
    assert again == page.data["labels"]


def test_many_features_and_classes_bound_the_rows(written):
    e, many = explanation(60, 3, classes=4), ("values", "model_variance", "noise_variance")
    changes = {
        **{name: np.tile(getattr(e, name), (3, 300, 1)) for name in many},
        "explainer_variance": None,
        "base_values": None,
        "data": np.tile(e.data, (3, 300)),
        "feature_names": [f"f{i}" for i in range(900)],
    }
    wide = gpec.Explanation(**{**vars(e), **changes})
    page = written(wide)
    assert len(page.data["labels"]) == 400_000 // (900 * 4)
    assert len(page.source) < 10e6


# Safety


@pytest.mark.parametrize("classes", [None, 3])
def test_names_and_values_stay_text(written, classes):
    page = written(nasty(classes=classes), title=NASTY[1])
    assert page.tags.count("script") == 3
    assert not {name for _, name, _ in page.attributes if name.startswith("on")}
    assert not [value for tag, name, value in page.attributes if name == "src" or tag == "img"]
    for text in (NASTY[0], NASTY[1], NASTY[2]):
        assert text in page.text
    assert page.data["features"] == NASTY
    assert "alert" not in "".join(content for _, content in page.scripts)


def test_only_scripts_with_a_known_hash_run(written):
    page = written(explanation())
    (policy,) = [value for _, name, value in page.attributes if name == "content" and "default-src" in value]
    (script,) = [content for attributes, content in page.scripts if not attributes and "use strict" in content]
    hashes = [
        "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (script, page.packed("charts"))
    ]
    assert re.search(r"script-src ([^;]*);", policy).group(1) == " ".join(f"'{each}'" for each in hashes)
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy


def test_asks_for_nothing_outside(written):
    page = written(explanation())
    links = [value for _, name, value in page.attributes if name in ("href", "src", "srcset", "action", "data")]
    assert all(value.startswith(("#", "data:")) for value in links)
    (script,) = [content for attributes, content in page.scripts if not attributes and "use strict" in content]
    assert not re.search(
        r"fetch\(|XMLHttpRequest|innerHTML|outerHTML|insertAdjacentHTML|document\.write|import\(", script
    )


def test_tags_are_closed(written):
    source = written(explanation()).source
    without = re.sub(r"<(script|style)\b[^>]*>.*?</\1>", "", source, flags=re.DOTALL)
    stack = []
    for closing, tag in re.findall(r"<(/?)([a-z][a-z0-9]*)\b", without):
        if closing:
            assert stack.pop() == tag
        elif tag not in VOID:
            stack.append(tag)
    assert stack == []


# Similar rows


def test_similar_rows_are_those_of_the_fit(written, fitted):
    g, frame, e = fitted
    data = written(e, gpec=g).data
    similar, expected = data["similar"], g.similar_rows(frame[:12])
    K = len(expected) // 12
    assert similar["count"] == K
    assert similar["rows"] == list(range(12))
    np.testing.assert_allclose(similar["answers"][0], g.model(expected), rtol=6e-4)
    shown = pd.DataFrame(
        {name: column["texts"] for name, column in zip(data["features"], similar["columns"], strict=True)}
    )
    assert shown["colour"].tolist() == expected["colour"].tolist()
    assert shown["size"].tolist() == expected["size"].astype(str).tolist()
    np.testing.assert_allclose(shown["price"].astype(float), expected["price"], rtol=1e-4)
    # what the intervals foresee for them: the interval of 100% of a mixture is centred there
    mean, _ = gpec.intervals.rules.SimilarRows(e.rule.offset, e.rule.deviation, None, "").others(e.values, e.std)
    np.testing.assert_allclose(
        np.reshape(similar["values"][0], (12, K, 5)), np.moveaxis(mean, 2, 1), rtol=6e-4, atol=1e-12
    )


def test_similar_rows_of_predicted_values(written, fitted):
    g, frame, _ = fitted
    e = g.explain(frame[:3], attribution="posterior")
    similar = written(e, gpec=g).data["similar"]
    expected = g.explain(g.similar_rows(frame[:3]), attribution="posterior")
    np.testing.assert_allclose(np.reshape(similar["values"][0], expected.shape), expected.values, rtol=6e-4)
    np.testing.assert_allclose(similar["answers"][0], expected.predictions, rtol=6e-4)


def test_without_the_fit_the_page_says_what_to_pass(written, fitted):
    _, _, e = fitted
    similar = written(e).data["similar"]
    assert "gpec=g" in similar["note"]
    assert similar["columns"] is None
    assert len(similar["values"][0]) == 12 * 5 * similar["count"]
    assert written(explanation()).data["similar"] == {"note": similar["note"]}


def test_similar_rows_of_many_rows_are_bounded(written, fitted, monkeypatch):
    g, _, e = fitted
    monkeypatch.setattr("gpec.report._similar._CELLS", 5 * 10 * 6)  # room for six rows
    data = written(e, gpec=g).data
    share = e.firm_share
    kept = set(data["similar"]["rows"])
    assert len(kept) == 6
    order = np.argsort(share, kind="stable").tolist()
    assert kept == {*order[:4], *order[-2:]}
    assert "the 4 of the 12 rows with the smallest firm share and the 2 with the largest" in data["similar"]["note"]
    assert len(data["similar"]["values"][0]) == 6 * 10 * 5


def test_groups_leave_similar_rows_out(written, make_auto, X):
    g = make_auto(groups={"both": [0, 1]}).fit(X)
    similar = written(g.explain(X[:4]), gpec=g).data["similar"]
    assert similar["columns"] is None
    assert "groups" in similar["note"]


def test_no_similar_rows_in_the_paper(written, make, X):
    g = make().fit(X)
    assert "similar=None" in written(g.explain(X[:4]), gpec=g).data["similar"]["note"]


def test_arrays_work_too(written, make_auto, X):
    g = make_auto().fit(X)
    similar = written(g.explain(X[:4]), gpec=g).data["similar"]
    found = np.array([column["texts"] for column in similar["columns"]], dtype=float).T
    np.testing.assert_allclose(found, g.similar_rows(X[:4]), rtol=1e-4)


def test_saved_and_loaded_gives_the_same_page(written, fitted, tmp_path):
    g, _, e = fitted
    e.save(tmp_path / "e.gpec")
    again = gpec.Explanation.load(tmp_path / "e.gpec")
    assert written(again, gpec=g).data == written(e, gpec=g).data


# Mode "explain"


OF_PREDICTION = ("learn from", "Points on the decision boundary", "Left-out rows predicted")


def test_facts_are_those_of_the_mode(written, make_exact, fitted, X):
    g = make_exact().fit(X)
    e = g.explain(X[:6])
    for page in (written(e), written(e, gpec=g), written(g.explain(X[:6], keep_similar=False)), written(e[0])):
        assert "Similar rows explained, 10 for each row" in page.text
        assert "so this is exact for each row" in page.text
        assert not [words for words in OF_PREDICTION if words in page.text]
    g, _, e = fitted
    page = written(e, gpec=g)
    assert "Similar rows predicted" in page.text
    assert [words for words in OF_PREDICTION if words in page.text] == list(OF_PREDICTION)
    assert "predicted from other rows" in written(g.explain(fitted[1][:3], attribution="posterior")).text


def test_no_points_are_named_where_none_were_sampled(written, make_auto, X):
    g = make_auto(kernel="rbf").fit(X)
    assert "Points on" not in written(g.explain(X[:3]), gpec=g).text


@pytest.mark.parametrize("several", [False, True])
def test_explained_similar_rows_are_shown(written, make_exact, models, X, several):
    g = make_exact(*((models.three_classes, models.slopes_of_three) if several else ())).fit(X)
    e = g.explain(X[:6])
    truth = e.similar_values if several else e.similar_values[..., None]
    bare = g.explain(X[:6], keep_similar=False)
    for shown, fit in ((e, None), (e, g), (bare, g)):
        similar = written(shown, gpec=fit).data["similar"]
        assert similar["explained"]
        for k, values in enumerate(similar["values"]):
            np.testing.assert_allclose(np.reshape(values, (6, 10, 3)), truth[..., k], rtol=6e-4)
    assert "gpec=g" in written(bare).data["similar"]["note"]
    (alone,) = written(e[2] if not several else e[2, :, 1], gpec=g).data["similar"]["values"][:1]
    np.testing.assert_allclose(np.reshape(alone, (10, 3)), truth[2, ..., int(several)], rtol=6e-4)


def test_predicted_similar_rows_are_called_so(written, fitted):
    assert not written(fitted[2]).data["similar"]["explained"]


# Errors


def test_a_fit_of_other_features_is_refused(written, fitted, make_auto, X):
    other = make_auto().fit(X)
    with pytest.raises(InputError, match="other features"):
        written(fitted[2], gpec=other)


def test_a_thing_that_is_no_fit_is_refused(written):
    with pytest.raises(ParameterTypeError, match="gpec='g' must be the fitted GPEC"):
        written(explanation(), gpec="g")


@pytest.mark.parametrize("key", [[], (slice(None), "age"), (0, 0), (slice(None), [])])
def test_nothing_to_report(written, key):
    with pytest.raises(InputError, match="A report needs at least one row with its features"):
        written(explanation()[key])


@pytest.mark.parametrize(("max_rows", "kind"), [(0, InputError), (2.5, ParameterTypeError)])
def test_max_rows_is_checked(written, max_rows, kind):
    with pytest.raises(kind, match="max_rows"):
        written(explanation(), max_rows=max_rows)


def test_a_missing_folder_gets_a_sentence(tmp_path):
    with pytest.raises(InputError, match=r"Cannot write .*: the folder .*nowhere does not exist\."):
        explanation().to_html(tmp_path / "nowhere" / "report.html")


def test_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("before")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        explanation().to_html(path)
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("name", ["jinja2", "plotly"])
def test_a_missing_package_names_the_command(tmp_path, monkeypatch, name):
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf'{name}.*pip install "gpec\[app\]"'):
        explanation().to_html(tmp_path / "report.html")


def test_texts_that_no_encoding_knows(written):
    page = written(explanation(feature_names=["\ud800", "b", "c"]), title="\ud800")
    assert json.dumps(page.data["features"][0]) == '"\\ud800"'


def test_images(written):
    """Pixels are features; similar images are listed, too."""
    images = np.random.default_rng(0).normal(size=(40, 2, 3))
    g = gpec.GPEC(
        lambda X: 1 / (1 + np.exp(-3 * X[:, 0, 0])),
        lambda X: X,
        n_boundary=20,
        n_explained=10,
        random_state=0,
        progress=False,
    ).fit(images)
    e = g.explain(images[:4])
    alone, page = written(e).data, written(e, gpec=g).data
    assert alone["features"] == page["features"] == [f"x{j}" for j in range(6)]
    similar = g.similar_rows(images[:4])
    shown = [[float(text) for text in column["texts"]] for column in page["similar"]["columns"]]
    np.testing.assert_allclose(np.transpose(shown), similar.reshape(len(similar), -1), rtol=0.01, atol=0.01)
