"""``fit(..., checkpoint=folder)`` refuses other work, and says in one sentence what is wrong with a folder."""

import numpy as np
import pandas as pd
import pytest

from archive_helpers import bits
from extras import torch
from gpec.boundary import BisectionSampler
from gpec.errors import CheckpointError, CorruptFileError, InputError, ModelCallError, ParameterTypeError
from gpec.kernels import RBF
from gpec.similar import NearestRows
from small_models import curved, slopes, three_classes


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """What is done is kept at once."""
    monkeypatch.setattr("gpec.runtime.checkpoint._SECONDS", 0.0)


@pytest.fixture
def kept(make, X, tmp_path):
    make().fit(X, checkpoint=tmp_path / "kept")
    return tmp_path / "kept"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"n_boundary": 61}, "n_boundary"),
        ({"random_state": 1}, "random_state"),
        ({"random_state": None}, "random_state"),
        ({"explainer": "kernelshap"}, "explainer"),
        ({"explainer": curved}, "explainer"),
        ({"kernel": RBF(2.0)}, "kernel"),
        ({"similar": NearestRows()}, "similar"),
        ({"noise": 0.1}, "noise"),
        ({"groups": {"two": [0, 1]}}, "groups"),
        ({"boundary": BisectionSampler(tolerance=1e-5)}, "boundary"),
        ({"threshold": 0.4}, "threshold"),
    ],
)
def test_other_settings(make, counting, X, kept, changes, named):
    model = counting(curved)
    with pytest.raises(CheckpointError, match=f"belongs to other work: it differs in {named}; give another folder"):
        make(model, **changes).fit(X, checkpoint=kept)
    assert model.n_calls == 0


def test_other_rows(make, counting, X, kept):
    model = counting(curved)
    with pytest.raises(CheckpointError, match="differs in the rows; give"):
        make(model).fit(X[::-1], checkpoint=kept)
    with pytest.raises(CheckpointError, match="differs in the rows; give"):
        make(model, background=X[:10]).fit(X[:119], checkpoint=given_background(make, X, kept))
    with pytest.raises(CheckpointError, match="differs in the rows to explain; give"):
        make(model).fit(X, X_explained=X[:30], checkpoint=kept)
    with pytest.raises(CheckpointError, match="differs in the rows to explain and in the attributions given; give"):
        make(model).fit(X, attributions=slopes(X), checkpoint=kept)
    assert model.n_calls == 0


def given_background(make, X, kept):
    folder = kept.parent / "given background"
    make(background=X[:10]).fit(X, checkpoint=folder)
    return folder


def test_named_columns(make, X, kept):
    with pytest.raises(CheckpointError, match="differs in explainer and in the rows"):
        make(lambda rows: curved(rows.to_numpy()), lambda rows: slopes(rows.to_numpy())).fit(
            pd.DataFrame(X, columns=["a", "b", "c"]), checkpoint=kept
        )


@pytest.mark.parametrize(
    "model",
    [lambda rows: curved(rows) * 0.999, lambda rows: three_classes(rows)],
    ids=["other answers", "other classes"],
)
def test_other_model(make, X, kept, model):
    with pytest.raises(CheckpointError, match="differs in the model; give another folder"):
        make(model).fit(X, checkpoint=kept)


def test_model_that_differs_elsewhere_only(make, X, kept):
    """Its answers to the first rows are the same, but its boundary lies elsewhere."""
    first = {row.tobytes() for row in X[:20]}

    def model(rows):
        known = np.array([row.tobytes() in first for row in np.asarray(rows)])
        return np.where(known, curved(rows), curved(rows * 2.0))

    with pytest.raises(CheckpointError, match="differs in the model"):
        make(model).fit(X, checkpoint=kept)


def test_rounding_makes_no_other_model(make, X, kept):
    assert bits(make(lambda rows: curved(rows) * (1 - 1e-9)).fit(X, checkpoint=kept)) == bits(make().fit(X))


def test_the_same_model_and_settings_in_other_words(make, counting, X, kept):
    g = make(counting(curved), boundary=BisectionSampler(), n_jobs=2, progress=True)
    assert g.fit(pd.DataFrame(X).to_numpy(), checkpoint=kept).diagnostics_["rows_resumed"]


def test_numbers_of_numpy_are_numbers(make, X, kept):
    g = make(n_boundary=np.int64(make().n_boundary), random_state=np.int64(0))
    assert g.fit(X, checkpoint=kept).diagnostics_["rows_resumed"]


def test_arrays_of_other_libraries_count_by_their_content(make, X, tmp_path):
    def noise(of):
        return torch.full((make().n_explained, 3), of)

    make(noise=noise(0.1)).fit(X, checkpoint=tmp_path / "noisy")
    make(noise=noise(0.1)).fit(X, checkpoint=tmp_path / "noisy")
    with pytest.raises(CheckpointError, match="differs in noise;"):
        make(noise=noise(0.2)).fit(X, checkpoint=tmp_path / "noisy")


def test_of_explain(make, X, kept, tmp_path):
    g = make().fit(X)
    with pytest.raises(CheckpointError, match="belongs to fit, not to explain; give another folder"):
        g.explain(X[:5], checkpoint=kept)
    g.explain(X[:5], checkpoint=tmp_path / "explained")
    with pytest.raises(CheckpointError, match="belongs to explain, not to fit; give another folder"):
        make().fit(X, checkpoint=tmp_path / "explained")


def test_folder_of_something_else(make, X, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(CheckpointError, match="holds files that gpec did not write"):
        make().fit(X, checkpoint=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("random_state", [0, None])
def test_a_file(make, counting, X, tmp_path, random_state):
    (tmp_path / "file").write_text("")
    model = counting(curved)
    with pytest.raises(InputError, match="is a file; give a folder"):
        make(model, random_state=random_state).fit(X, checkpoint=tmp_path / "file")
    with pytest.raises(InputError, match="nowhere does not exist"):
        make(model, random_state=random_state).fit(X, checkpoint=tmp_path / "nowhere" / "kept")
    with pytest.raises(ParameterTypeError, match="checkpoint=True must be the path of a folder"):
        make(model, random_state=random_state).fit(X, checkpoint=True)
    assert model.n_calls == 0


def test_killed_while_the_first_file_was_written(make, X, tmp_path):
    (tmp_path / "._identity.gpec.0123456789abcdef").write_text("half")
    assert make().fit(X, checkpoint=tmp_path).diagnostics_["rows_resumed"] == {}


def test_damaged(make, X, kept):
    path = next(kept.glob("blocks-*"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match="damaged"):
        make().fit(X, checkpoint=kept)


def test_a_disk_that_is_full(make, X, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    make().fit(X, checkpoint=tmp_path / "kept")
    monkeypatch.setattr("gpec.runtime.archive.replacing", full)
    with pytest.raises(
        CheckpointError,
        match=r"Cannot write the checkpoint .*: No space left on device; give",
    ):
        make().fit(X, checkpoint=tmp_path / "new")
    for path in (tmp_path / "kept").glob("blocks-*"):
        path.unlink()
    with pytest.raises(
        CheckpointError,
        match=r"Cannot write the checkpoint .*: No space left on device; give",
    ):
        make().fit(X, checkpoint=tmp_path / "kept")


def test_an_error_comes_before_that_of_a_full_disk(make, counting, X, tmp_path, monkeypatch):
    def breaks(call, rows):
        if call == 5:
            monkeypatch.setattr("gpec.runtime.archive.replacing", full)
            raise ConnectionError("no answer")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gpec.runtime.checkpoint._SECONDS", 1e9)  # nothing is written before the end
    with pytest.raises(ModelCallError, match="no answer") as error:
        make(counting(curved, before=breaks)).fit(X, checkpoint=tmp_path / "kept")
    assert "No space left on device" in error.value.__notes__[0]
