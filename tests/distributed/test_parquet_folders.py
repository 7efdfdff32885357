"""A folder of Parquet files explained into another."""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import gpec
from gpec.distributed import explain_parquet
from gpec.errors import CheckpointError, CorruptFileError, InputError, MissingExtraError, ParameterTypeError
from gpec.explainers import ShapleySampling
from small_models import curved, slopes

pytest.importorskip("dask", reason="folders need Dask")
pq = pytest.importorskip("pyarrow.parquet")
PARTS = [f"part.{i}.parquet" for i in range(4)]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".parquet"}


def joined(folder):
    return pd.concat([pd.read_parquet(folder / name) for name in PARTS], ignore_index=True)


@pytest.fixture
def target(tmp_path):
    return tmp_path / "explained"


@pytest.mark.parametrize("scheduler", [None, "threads", "processes"])
@pytest.mark.parametrize("attribution", ["explainer", "posterior"])
def test_bits_of_the_local_call(fitted, rows, parquet, target, scheduler, attribution):
    run = explain_parquet(fitted, parquet, target, attribution=attribution, scheduler=scheduler)
    local = fitted.explain(rows, attribution=attribution)
    pd.testing.assert_frame_equal(joined(target), local.to_frame(), check_exact=True)
    assert (run.n_partitions, run.n_rows, run.n_failed, run.n_resumed) == (4, 101, 0, 0)
    said, expected = (text.split(" Similar means")[0] for text in (run.statement, local.statement()))
    assert said == expected  # which features come first depends on the rows
    for name in PARTS:
        part = fitted.explain(pd.read_parquet(parquet / name), attribution=attribution)
        pd.testing.assert_frame_equal(pd.read_parquet(target / name), part.to_frame(), check_exact=True)


def test_a_large_file_is_taken_in_pieces(fitted, rows, parquet, target, monkeypatch):
    monkeypatch.setattr("gpec.distributed._file._ROWS", 8)
    asked = []
    explain = gpec.GPEC.explain
    monkeypatch.setattr(gpec.GPEC, "explain", lambda g, X, **how: asked.append(len(X)) or explain(g, X, **how))
    explain_parquet(fitted, parquet, target, attribution="posterior")
    assert max(asked) == 8
    local = fitted.explain(rows, attribution="posterior")
    pd.testing.assert_frame_equal(joined(target), local.to_frame(), check_exact=True)


def test_other_columns_are_left_out_and_one_may_be_the_index(fitted, rows, tmp_path, target):
    source = tmp_path / "more"
    (source / "2024").mkdir(parents=True)
    table = rows.assign(id=[f"c{i}" for i in range(101)], label=1)[["label", "c", "id", "b", "a"]]
    table.to_parquet(source / "2024" / "rows.parquet", index=False)
    (source / "_SUCCESS").touch()
    explain_parquet(fitted, source, target, index="id")
    found = pd.read_parquet(target / "2024" / "rows.parquet")
    expected = fitted.explain(rows.set_index(table["id"].to_numpy())).to_frame()
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    with pytest.raises(InputError, match=r"Partition 0 \(2024/rows.parquet\) has no column 'name' for the index"):
        explain_parquet(fitted, source, tmp_path / "other", index="name")


def test_labels_that_pandas_stored(fitted, rows, tmp_path, target):
    source = tmp_path / "dated"
    source.mkdir()
    dated = rows.set_index(pd.date_range("2024-01-01", periods=101, name="day"))
    dated.to_parquet(source / "a.parquet")
    explain_parquet(fitted, source, target, attribution="posterior")
    found = pd.read_parquet(target / "a.parquet")
    assert found["row"].tolist() == dated.index.repeat(3).tolist()


def test_rows_without_names(make_auto, rows, tmp_path, target):
    g = make_auto().fit(rows.to_numpy())
    source = tmp_path / "plain"
    source.mkdir()
    rows.reset_index(drop=True).to_parquet(source / "a.parquet")
    explain_parquet(g, source, target)
    pd.testing.assert_frame_equal(pd.read_parquet(target / "a.parquet"), g.explain(rows.to_numpy()).to_frame())


def test_text_becomes_text(make_auto, mixed, tmp_path, target):
    g = make_auto(mixed.model, "shapley_sampling", n_explained=6, n_boundary=40).fit(mixed.frame)
    source = tmp_path / "mixed"
    source.mkdir()
    mixed.frame[:20].to_parquet(source / "a.parquet")
    explain_parquet(g, source, target, attribution="posterior")
    found, expected = pd.read_parquet(target / "a.parquet"), g.explain(mixed.frame[:20], attribution="posterior")
    expected = expected.to_frame()
    assert found["data"].tolist() == [str(value) for value in expected["data"]]
    pd.testing.assert_frame_equal(found.drop(columns="data"), expected.drop(columns="data"), check_exact=True)


def test_text_in_place_of_numbers_is_one_reason_for_all_rows(fitted, rows, tmp_path, target):
    source = tmp_path / "typed"
    source.mkdir()
    rows.assign(b=rows["b"].astype("string")).to_parquet(source / "a.parquet")
    run = explain_parquet(fitted, source, target, errors="keep")
    assert run.n_failed == 101
    (reason,) = pd.read_parquet(target / "a.parquet")["error"].unique()
    assert "is not numeric" in reason
    assert "convert it to numbers" in reason


# Interrupted work


def test_a_target_that_is_not_empty(fitted, parquet, target):
    explain_parquet(fitted, parquet, target)
    before = contents(target)
    with pytest.raises(CheckpointError, match="is not empty; pass resume=True"):
        explain_parquet(fitted, parquet, target)
    with pytest.raises(InputError, match="exclude each other"):
        explain_parquet(fitted, parquet, target, resume=True, overwrite=True)
    assert explain_parquet(fitted, parquet, target, resume=True).n_resumed == 4
    run = explain_parquet(fitted, parquet, target, overwrite=True)
    assert (run.n_resumed, run.n_rows) == (0, 101)
    assert contents(target) == before


@pytest.mark.parametrize("how", ["resume", "overwrite"])
def test_files_of_others_are_not_touched(fitted, parquet, target, how):
    target.mkdir()
    (target / "part.0.parquet").write_text("mine")
    with pytest.raises(CheckpointError, match="holds files that gpec did not write"):
        explain_parquet(fitted, parquet, target, **{how: True})
    assert (target / "part.0.parquet").read_text() == "mine"


def test_a_folder_of_results_is_no_checkpoint(fitted, rows, parquet, target):
    explain_parquet(fitted, parquet, target)
    with pytest.raises(CheckpointError, match="belongs to explain_parquet, not to explain; give another folder"):
        fitted.explain(rows, checkpoint=target)
    assert explain_parquet(fitted, parquet, target, resume=True).n_resumed == 4


def test_what_is_missing_is_computed_and_nothing_else(fitted, parquet, target, monkeypatch):
    explain_parquet(fitted, parquet, target)
    before = contents(target)
    (target / "part.2.parquet").unlink()
    (target / ".part.2.parquet.0123456789abcdef").write_text("half")  # of a process that was killed
    kept = (target / "part.0.parquet").stat().st_mtime_ns
    run = explain_parquet(fitted, parquet, target, resume=True)
    assert (run.n_resumed, run.n_rows) == (3, 101)
    assert contents(target) == before
    assert (target / "part.0.parquet").stat().st_mtime_ns == kept
    assert sorted(path.name for path in target.iterdir()) == ["_identity.gpec", *PARTS]


def test_a_file_that_has_changed_is_explained_anew(fitted, rows, parquet, target, tmp_path):
    explain_parquet(fitted, parquet, target)
    rows[:40].assign(a=0.0).to_parquet(parquet / "part.0.parquet")
    rows[:5].to_parquet(parquet / "part.9.parquet")
    run = explain_parquet(fitted, parquet, target, resume=True)
    assert (run.n_partitions, run.n_resumed, run.n_rows) == (5, 3, 106)
    explain_parquet(fitted, parquet, tmp_path / "anew")
    assert contents(target) == contents(tmp_path / "anew")


def test_a_task_that_outlives_its_run_writes_nothing(fitted, parquet, target, monkeypatch):
    """As one that was at work when another task of its run failed, and ends after another run took the folder."""
    explain, before = gpec.GPEC.explain, []

    def slow(g, X, **how):
        if len(X) == 40 and not before:  # the first file
            before.append(None)
            explain_parquet(fitted, parquet, target, attribution="posterior", overwrite=True)
            before.append(contents(target))
        return explain(g, X, **how)

    monkeypatch.setattr(gpec.GPEC, "explain", slow)
    with pytest.raises(CheckpointError, match=r"now belongs to another run; the result of this run for part\.0"):
        explain_parquet(fitted, parquet, target)
    assert contents(target) == before[1]
    assert not list(target.glob(".*"))


def test_stopped_by_the_user(fitted, parquet, target, monkeypatch):
    explain = gpec.GPEC.explain

    def stopping(g, X, **how):
        if target.exists() and len(contents(target)) == 2:
            raise KeyboardInterrupt
        return explain(g, X, **how)

    monkeypatch.setattr(gpec.GPEC, "explain", stopping)
    with pytest.raises(KeyboardInterrupt) as caught:
        explain_parquet(fitted, parquet, target)
    assert caught.value.__notes__ == [
        f"2 of 4 partitions are done and kept in {target}; pass resume=True, or run the same command, to resume."
    ]


def test_nothing_of_others_is_deleted(fitted, parquet, target):
    explain_parquet(fitted, parquet, target)
    others = [target / "mine.parquet", target / ".part.0.parquet.bak", target / ".mine.parquet.0123456789abcdef"]
    for path in others:
        path.write_text("mine")
    for how in ("resume", "overwrite"):
        assert explain_parquet(fitted, parquet, target, **{how: True}).n_rows == 101
        assert [path.read_text() for path in others] == ["mine"] * 3


def test_linked_folders_are_followed_once(fitted, rows, parquet, tmp_path, target):
    source = tmp_path / "linked"
    source.mkdir()
    (source / "day").symlink_to(parquet)
    (parquet / "up").symlink_to(source)
    assert explain_parquet(fitted, source, target, attribution="posterior").n_rows == 101
    assert (target / "day" / "part.0.parquet").is_file()


@pytest.mark.parametrize("missing", [True, False])
def test_labels_that_are_great_numbers(fitted, rows, tmp_path, target, missing, monkeypatch):
    """Doubles would not tell them apart, and the type must not depend on whether one is missing."""
    monkeypatch.setattr("gpec.distributed._file._ROWS", 8)
    source = tmp_path / "numbered"
    source.mkdir()
    numbers = pd.array([2**53 + 1 + 2 * i for i in range(20)], dtype="Int64")
    if missing:
        numbers[13] = pd.NA
    rows[:20].assign(id=numbers).to_parquet(source / "a.parquet")
    explain_parquet(fitted, source, target, index="id", attribution="posterior")
    found = pq.read_table(target / "a.parquet")["row"]
    assert str(found.type) == "int64"
    assert found.to_pylist() == [None if n is pd.NA else n for n in numbers for _ in range(3)]


def test_another_index_than_the_one_stored(fitted, rows, tmp_path, target):
    source = tmp_path / "named"
    source.mkdir()
    table = rows.set_index(pd.RangeIndex(5, 106, name="n")).assign(cust=[f"c{i}" for i in range(101)])
    table.to_parquet(source / "a.parquet")
    explain_parquet(fitted, source, target, index="cust", attribution="posterior")
    assert pd.read_parquet(target / "a.parquet")["row"].tolist() == table["cust"].repeat(3).tolist()


def test_resume_in_a_new_folder(fitted, parquet, target):
    assert explain_parquet(fitted, parquet, target, resume=True).n_resumed == 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"attribution": "posterior"}, "the kind of attribution"),
        ({"confidence_level": 0.8}, "the confidence level"),
        ({"errors": "keep"}, "errors"),
    ],
)
def test_other_settings_are_other_work(fitted, parquet, target, change, named):
    explain_parquet(fitted, parquet, target)
    with pytest.raises(CheckpointError, match=f"belongs to other work: it differs in {named};"):
        explain_parquet(fitted, parquet, target, resume=True, **change)


def test_another_fit_or_other_files_are_other_work(fitted, make_auto, rows, parquet, target):
    explain_parquet(fitted, parquet, target)
    with pytest.raises(CheckpointError, match="differs in the fit"):
        explain_parquet(make_auto(random_state=1).fit(rows), parquet, target, resume=True)
    (parquet / "part.0.parquet").unlink()
    with pytest.raises(CheckpointError, match=r"belongs to a run with more files: part.0.parquet is no longer"):
        explain_parquet(fitted, parquet, target, resume=True)


def test_another_explainer_is_other_work(fitted, parquet, target, tmp_path):
    """Objects are in no file, so the fit alone does not tell."""
    fitted.save(tmp_path / "g.gpec")

    def loaded(explainer):
        return gpec.GPEC.load(tmp_path / "g.gpec", model=curved, explainer=explainer)

    explain_parquet(loaded(ShapleySampling(2)), parquet, target)
    with pytest.raises(CheckpointError, match="differs in the explainer;"):
        explain_parquet(loaded(ShapleySampling(3)), parquet, target, resume=True)


def test_another_calibration_is_other_work(make_auto, rows, parquet, target):
    g = make_auto().fit(rows)
    explain_parquet(g, parquet, target)
    g.calibrate(rows.sample(60, random_state=0) + 0.1)
    with pytest.raises(CheckpointError, match="differs in the calibration;"):
        explain_parquet(g, parquet, target, resume=True)


# Rows and files that cannot be explained


def test_the_error_names_file_and_row_and_the_rest_is_kept(fitted, rows, parquet, target, monkeypatch):
    good = explain_parquet(fitted, parquet, target)
    expected = joined(target)
    holes = pd.read_parquet(parquet / "part.2.parquet")
    holes.loc[1_060, "b"] = np.nan
    whole = (parquet / "part.2.parquet").read_bytes()
    holes.to_parquet(parquet / "part.2.parquet")
    monkeypatch.setattr("gpec.distributed._file._ROWS", 8)
    place = r"^Partition 2 \(part.2.parquet\), row 19 \(labelled 1060\): X has a missing value in"
    with pytest.raises(InputError, match=place) as caught:
        explain_parquet(fitted, parquet, target, overwrite=True)
    (note,) = caught.value.__notes__
    n = len(contents(target))  # Dask decides about their order
    assert note == (
        f"{n} of 4 partitions are done and kept in {target}; pass resume=True, or run the same command, to resume."
    )
    assert not (target / "part.2.parquet").exists()
    assert not list(target.glob(".*"))
    (parquet / "part.2.parquet").write_bytes(whole)
    monkeypatch.undo()
    assert explain_parquet(fitted, parquet, target, resume=True) == replace(good, n_resumed=n)
    pd.testing.assert_frame_equal(joined(target), expected, check_exact=True)


def spoiled(parquet, case):
    """One file of the folder made unfit; how many of its rows fail."""
    path = parquet / "part.2.parquet"
    table = pd.read_parquet(path)
    if case == "missing column":
        table = table.drop(columns="b")
    elif case == "another type":
        table["b"] = table["b"].map("{:.2f}".format)
    elif case == "no rows":
        table = table[:0]
    elif case == "missing values":
        table.iloc[[3, 48], 1] = np.nan
    table.to_parquet(path)
    return {"missing column": 49, "another type": 49, "no rows": 0, "missing values": 2}[case]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            "missing column",
            r"Partition 2 \(part.2.parquet\): X does not have the columns seen in fit \(missing: \['b'\]",
        ),
        ("another type", r"Partition 2 \(part.2.parquet\)[^:]*: X column 'b' is not numeric"),
        ("missing values", r"Partition 2 \(part.2.parquet\), row 3 \(labelled 1044\): X has a missing value in column"),
    ],
)
def test_bad_partitions(fitted, rows, parquet, target, tmp_path, case, message):
    failed = spoiled(parquet, case)
    with pytest.raises(InputError, match=message):
        explain_parquet(fitted, parquet, target)
    run = explain_parquet(fitted, parquet, tmp_path / "kept", errors="keep")
    assert (run.n_rows, run.n_failed) == (101, failed)
    found, expected = joined(tmp_path / "kept"), fitted.explain(rows).to_frame()
    assert found["row"].equals(expected["row"])
    wrong = found["error"].notna()
    assert wrong.sum() == 3 * failed
    pd.testing.assert_frame_equal(
        found[~wrong].drop(columns="error"), expected[~wrong], check_exact=True, check_dtype=True
    )
    assert explain_parquet(fitted, parquet, tmp_path / "kept", errors="keep", resume=True).n_failed == failed


def test_a_file_without_rows(fitted, parquet, target):
    spoiled(parquet, "no rows")
    assert explain_parquet(fitted, parquet, target).n_rows == 52
    empty = pd.read_parquet(target / "part.2.parquet")
    assert len(empty) == 0
    assert empty.dtypes.equals(pd.read_parquet(target / "part.0.parquet").dtypes)


def test_a_file_that_is_no_parquet(fitted, parquet, target):
    (parquet / "part.1.parquet").write_bytes(b"half of a file")
    with pytest.raises(CorruptFileError, match=r"part.1.parquet is not a complete Parquet file"):
        explain_parquet(fitted, parquet, target)
    assert not target.exists()


def test_a_damaged_file(fitted, parquet, target):
    content = bytearray((parquet / "part.3.parquet").read_bytes())
    content[4:60] = bytes(56)
    (parquet / "part.3.parquet").write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"Partition 3 \(part.3.parquet\) cannot be read"):
        explain_parquet(fitted, parquet, target)


# Wrong calls


def test_wrong_folders(fitted, parquet, target, tmp_path):
    with pytest.raises(InputError, match="There is no folder"):
        explain_parquet(fitted, tmp_path / "nowhere", target)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no Parquet files"):
        explain_parquet(fitted, tmp_path / "empty", target)
    for inside in (parquet, parquet / "out", tmp_path):
        with pytest.raises(InputError, match="must be separate folders"):
            explain_parquet(fitted, parquet, inside)
    with pytest.raises(InputError, match="does not exist"):
        explain_parquet(fitted, parquet, tmp_path / "a" / "b")
    target.write_text("")
    with pytest.raises(InputError, match="is a file"):
        explain_parquet(fitted, parquet, target)


def test_wrong_settings(fitted, make_auto, parquet, target):
    with pytest.raises(ParameterTypeError, match="scheduler='cluster' must be a Client"):
        explain_parquet(fitted, parquet, target, scheduler="cluster")
    with pytest.raises(InputError, match="attribution='x' is not one of"):
        explain_parquet(fitted, parquet, target, attribution="x")
    with pytest.raises(gpec.errors.NotFittedError, match=r"^This GPEC is not fitted yet"):
        explain_parquet(make_auto(), parquet, target)
    assert not target.exists()


@pytest.mark.parametrize("package", ["distributed", "pyarrow"])
def test_packages_that_are_not_there(fitted, parquet, target, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r'pip install "gpec\[dask\]"'):
        explain_parquet(fitted, parquet, target)


class Locked:
    """A model that holds what cannot be sent to another process."""

    def __init__(self):
        self.lock = __import__("threading").Lock()

    def __call__(self, X):
        return curved(X)


def test_a_model_that_cannot_be_sent(make_auto, rows, parquet, target):
    g = make_auto(Locked(), slopes).fit(rows)
    begin = r"^The model \(Locked\) cannot be sent to other processes \(TypeError: cannot pickle"
    with pytest.raises(ParameterTypeError, match=begin) as caught:
        explain_parquet(g, parquet, target)
    assert str(caught.value).endswith("gpec.models.load_model('package.module:function').")
    assert not target.exists()


def test_the_way_out(make_auto, rows, parquet, target, tmp_path, monkeypatch):
    """The same model behind a function of a module."""
    (tmp_path / "scoring.py").write_text(
        "import threading\nfrom small_models import curved\nlock = threading.Lock()\n"
        "def rate(X):\n    with lock:\n        return curved(X)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    g = make_auto(gpec.models.load_model("scoring:rate"), slopes).fit(rows)
    explain_parquet(g, parquet, target)
    pd.testing.assert_frame_equal(joined(target), g.explain(rows).to_frame(), check_exact=True)
