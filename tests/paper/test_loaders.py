"""Every loader on made-up files: codes, splits, missing values, bad files; on the real ones: what is published."""

import csv
import gzip
import hashlib
import re
import shutil
import sys
from contextlib import nullcontext
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
import shap
from paper.data import __main__ as command
from paper.data import _registry, nhanes
from paper.data._files import data_folder
from paper.data.errors import DownloadError, IncompleteDataWarning
from paper.data.images import _read_idx
from paper.data.tables import _GERMAN
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import gpec
import made_up
from gpec.data import Schema
from gpec.errors import CorruptFileError, InputError
from package_sources import ROOT
from paper import data as datasets

LOADERS = [name for name in datasets.__all__ if name[0].islower() and name != "available"]


@cache
def read(source, name):
    with pytest.warns(IncompleteDataWarning) if (source, name) == ("real", "cifar10") else nullcontext():
        return getattr(datasets, name)()


@pytest.fixture
def published():
    """``published(name)``: the data set of the real files, for tests with the mark ``data``."""
    return partial(read, "real")


@pytest.fixture(params=["made up", pytest.param("real", marks=pytest.mark.data)])
def load(request, made_up_files):
    """``load(name)``: the data set of the made-up files, then of the real ones."""
    with made_up.in_use(*made_up_files) if request.param == "made up" else nullcontext():
        yield partial(read, request.param)


def digest(rows):
    return hashlib.sha256(np.asarray(rows, dtype="<i8").tobytes()).hexdigest()[:16]


# rows, positive rows (or None), feature count, digest of the test rows: the split must never change
PUBLISHED = {
    "census": (32_561, 7_841, 12),
    "online_shoppers": (12_330, 1_908, 17),
    "german_credit": (1_000, 300, 24),
    "nhanes_diabetes": (3_183, 438, 27),
    "pima": (768, 268, 8),
    "titanic": (891, 342, 13),
}
AS_IN_THE_FILE = ("titanic", "california_housing")  # text and missing values

SPLITS = {
    "census": "b5ee27621f87116d",
    "online_shoppers": "63b56a3b3c422979",
    "german_credit": "d3a4f24df3a2f353",
    "nhanes_diabetes": "63ed72cd17b1e929",
    "pima": "235232205496bddb",
    "titanic": "336f8c078f7f51c7",
    "california_housing": "25367416ab3dac12",
}


@pytest.mark.data
@pytest.mark.parametrize("name", PUBLISHED)
def test_tables_have_the_published_counts(name, published):
    data = published(name)
    rows, positive, features = PUBLISHED[name]
    assert data.X.shape == (rows, features)
    assert data.y.shape == (rows,)
    assert data.y.dtype == np.int64
    assert data.y.sum() == positive
    assert len(data.class_names) == 2
    assert tuple(data.X.columns) == data.feature_names
    if name not in AS_IN_THE_FILE:
        assert all(dtype in (np.float64, np.int64) for dtype in data.X.dtypes)
    if name not in ("nhanes_diabetes", *AS_IN_THE_FILE):
        assert not data.X.isna().any(axis=None)


@pytest.mark.data
@pytest.mark.parametrize("name", SPLITS)
def test_the_split_is_always_the_same(name, published):
    assert digest(published(name).test) == SPLITS[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_split_is_stratified(name, load):
    data = load(name)
    assert np.array_equal(np.sort(np.concatenate((data.train, data.test))), np.arange(len(data)))
    assert len(data.test) == pytest.approx(0.2 * len(data), abs=1)
    assert data.y_test.mean() == pytest.approx(data.y.mean(), abs=1 / len(data.test))
    assert data.X_train.equals(data.X.iloc[data.train])
    assert np.array_equal(data.y_train, data.y[data.train])
    assert len(data.X_test) == len(data.y_test) == len(data.test)


def test_descriptions_name_origin_licence_and_citation(load):
    for name in LOADERS:
        for word in ("Origin: ", "Licence: ", "Cite: "):
            assert word in load(name).description, name


@pytest.mark.parametrize("name", ["census", "online_shoppers", "nhanes_diabetes"])
def test_codes_and_names_belong_together(name, load):
    data = load(name)
    named = data.named()
    assert set(data.categories) == set(data.categorical_features)
    for column in data.categorical_features:
        codes = list(data.categories[column])
        assert codes == sorted(codes)
        assert set(data.X[column]) <= set(codes)
        expected = [data.categories[column][code] for code in data.X[column]]
        assert list(named[column]) == expected
        assert isinstance(named[column].dtype, pd.CategoricalDtype)
    assert named.drop(columns=list(data.categories)).equals(data.X.drop(columns=list(data.categories)))


class TestCensus:
    @pytest.mark.data
    def test_it_is_shaps(self, published, monkeypatch):
        monkeypatch.setattr(shap.datasets, "cache", lambda _: data_folder()[0] / "adult" / "adult.data")
        X, y = shap.datasets.adult()
        data = published("census")
        assert list(X.columns) == list(data.feature_names)
        assert np.array_equal(X.to_numpy(dtype=float), data.X.to_numpy(dtype=float))
        assert np.array_equal(y, data.y)

    @pytest.mark.data
    def test_names_of_the_first_row(self, published):
        first = published("census").named().iloc[0]
        assert (first["Age"], first["Workclass"], first["Relationship"]) == (39.0, "State-gov", "Not-in-family")
        assert "?" in published("census").categories["Occupation"].values()

    def test_a_pipeline_of_names_and_gpec_take_it(self, load):
        data = load("census")
        named = data.named().iloc[data.train[:2_000]]
        encoder = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), list(data.categorical_features)), remainder=StandardScaler()
        )
        model = make_pipeline(encoder, LogisticRegression(max_iter=1_000)).fit(named, data.y[data.train[:2_000]])
        assert model.score(data.named().iloc[data.test], data.y_test) > 0.82
        codes = gpec.GPEC(
            lambda X: np.asarray(X, dtype=float)[:, 0] / 100,
            lambda X: np.asarray(X, dtype=float),
            categorical_features=data.categorical_features,
            n_boundary=20,
            n_explained=10,
            random_state=0,
        )
        assert codes.fit(data.X.iloc[:200]).explain(data.X.iloc[:3]).values.shape == (3, 12)


class TestOnlineShoppers:
    def test_months_and_visitors_keep_their_meaning(self, load):
        raw = pd.read_csv(data_folder()[0] / "online_shoppers" / "online_shoppers_intention.csv")
        named = load("online_shoppers").named()
        assert list(named["Month"]) == list(raw["Month"])
        assert list(named["VisitorType"]) == list(raw["VisitorType"])
        assert list(named["Weekend"] == "yes") == list(raw["Weekend"])
        assert list(named["TrafficType"].astype(int)) == list(raw["TrafficType"])
        assert load("online_shoppers").X.loc[raw["Month"] == "Feb", "Month"].eq(2).all()


class TestGermanCredit:
    @pytest.mark.data
    def test_names_agree_with_the_symbolic_version(self, published):
        """Each unnamed column is a function of the attribute it is named after."""
        symbolic = pd.read_csv(data_folder()[0] / "german_credit" / "german.data", sep=" ", header=None)
        X = published("german_credit").X
        attribute = [0, 1, 2, 4, 5, 6, 8, 10, 11, 12, 13, 15, 17, 18, 19, 3, 3, 9, 9, 14, 14, 16, 16, 16]
        for name, number in zip(_GERMAN, attribute, strict=True):
            assert X[name].groupby(symbolic[number]).nunique().eq(1).all(), name
        assert (X["duration_months"] == symbolic[1]).all()
        assert (X["amount_hundreds"] - symbolic[4] / 100).abs().max() <= 0.5
        assert (X["age"] == symbolic[12]).all()
        for name, number, value in [
            ("purpose_new_car", 3, "A40"), ("purpose_used_car", 3, "A41"), ("no_other_debtors", 9, "A101"),
            ("co_applicant", 9, "A102"), ("rents", 14, "A151"), ("owns_home", 14, "A152"),
            ("unskilled_non_resident", 16, "A171"), ("unskilled_resident", 16, "A172"), ("skilled", 16, "A173"),
        ]:  # fmt: skip
            assert ((symbolic[number] == value) == (X[name] == 1)).all(), name
        assert np.array_equal(published("german_credit").y, symbolic[20] - 1)


class TestNhanes:
    @pytest.mark.data
    def test_who_is_counted_as_diabetic(self, published):
        everyone = datasets.nhanes_diabetes(unknown="negative")
        assert len(everyone) == 3_329
        assert len(published("nhanes_diabetes")) == 3_329 - 146
        assert everyone.y.sum() == published("nhanes_diabetes").y.sum() == 438

    def test_osmolality_can_be_left_out(self, load):
        safe = datasets.nhanes_diabetes(leaky=False)
        assert safe.X.shape[1] == 26
        assert safe.X.equals(load("nhanes_diabetes").X.drop(columns="osmolality"))
        assert "osmolality" in safe.description

    def test_nothing_that_gives_the_target_away_by_name(self):
        codes = {code for _, code, _, _ in nhanes.FEATURES}
        assert len(codes) == 27
        assert not codes & {"LBXGLU", "LBDGLUSI", "LBXGH", "LBXIN", "LBXSGL", "DIQ010", "DIQ050", "DIQ070"}
        for _, code, _, _ in nhanes.FEATURES:
            assert code in datasets.nhanes_diabetes.__doc__

    def test_people_and_codes_are_those_of_the_tables(self, made_up_files):
        with made_up.in_use(*made_up_files):
            everyone, known = (datasets.nhanes_diabetes(unknown=unknown) for unknown in ("negative", "drop"))
        tables = {name: table.set_index("SEQN") for name, table in made_up.survey().items()}
        glucose = tables["GLU_H"]["LBXGLU"]
        told = tables["DIQ_H"]["DIQ010"][glucose.index] == 1
        assert everyone.y.tolist() == (told | (glucose >= 126)).astype(int).tolist()
        assert len(everyone) - len(known) == (glucose.isna() & ~told).sum() > 0
        assert known.y.sum() == everyone.y.sum() > 0
        for name, code, table, missing in nhanes.FEATURES:
            raw = tables[table][code][glucose.index]
            if name in nhanes._YES_NO:
                expected = raw.map({1: 1.0, 2: 0.0})
            elif name == "hospital_stays":
                expected = raw.fillna(0.0)
            else:
                expected = raw.where(~raw.isin(missing))
            assert expected.isna().any() == bool(missing and name != "hospital_stays")
            np.testing.assert_array_equal(everyone.X[name], expected)

    @pytest.mark.data
    def test_codes_of_missing_are_missing_and_no_stay_is_zero(self):
        data = datasets.nhanes_diabetes(unknown="negative")
        X = data.X
        assert X["heaviest_weight"].max() == 600
        assert X["heaviest_weight"].isna().sum() == 492 + 5 + 27
        assert X["self_rated_health"].isna().sum() == 1
        assert X["self_rated_health"].max() == 5
        assert X["hospital_stays"].value_counts().to_dict() == {0: 2980, 1: 257, 2: 59, 3: 20, 5: 5, 4: 4, 6: 4}
        assert X["told_high_blood_pressure"].value_counts().to_dict() == {0: 1949, 1: 1040}
        assert X["relative_with_diabetes"].isna().sum() == 661 + 61
        assert X["diastolic"].isna().sum() == 262 + 24
        assert X["diastolic"].min() > 0
        assert set(data.named()["sex"]) == {"male", "female"}

    @pytest.mark.data
    def test_the_transport_file_and_its_conversion_are_read_alike(self):
        folder = data_folder()[0] / "nhanes_2013_2014"
        original = nhanes._parse(folder / "DEMO_H.XPT", "DEMO_H")
        converted = nhanes._parse(folder / "DEMO_H.csv.xz", "DEMO_H")
        assert list(original.columns) == list(converted.columns)
        assert (original == 0).sum().sum() > 10_000  # zeros, which pandas reads as 5e-79
        np.testing.assert_allclose(original.to_numpy(), converted.to_numpy(), rtol=1e-9, atol=0)
        assert original.index.equals(converted.index)

    @pytest.mark.data
    def test_sizes_of_transport_files_are_right(self):
        demo = next(file for file in _registry.FILES["nhanes_diabetes"] if "DEMO_H" in file.path)
        assert demo.size == (data_folder()[0] / "nhanes_2013_2014" / "DEMO_H.XPT").stat().st_size

    @pytest.mark.parametrize(
        "content", [b"", b"HEADER RECORD", b"<html>not found</html>" * 100], ids=["empty", "cut", "a page"]
    )
    def test_a_file_that_is_no_transport_file(self, tmp_path, content):
        path = tmp_path / "GLU_H.XPT"
        path.write_bytes(content)
        with pytest.raises(CorruptFileError, match=r"GLU_H\.XPT cannot be read as the NHANES table GLU_H"):
            nhanes._parse(path, "GLU_H")

    @pytest.mark.data
    def test_a_cut_or_exchanged_table(self, tmp_path):
        source = data_folder()[0] / "nhanes_2013_2014"
        cut = tmp_path / "DEMO_H.XPT"
        cut.write_bytes((source / "DEMO_H.XPT").read_bytes()[:2_000_000])
        with pytest.raises(CorruptFileError, match="DEMO_H"):
            nhanes._parse(cut, "DEMO_H")
        other = tmp_path / "GLU_H.csv.xz"
        shutil.copy(source / "HDL_H.csv.xz", other)
        with pytest.raises(CorruptFileError, match=r"has shape \(8291, 3\); the NHANES table GLU_H has 3,329 rows"):
            nhanes._parse(other, "GLU_H")
        other.write_bytes((source / "GLU_H.csv.xz").read_bytes()[:20_000])
        with pytest.raises(CorruptFileError, match="cannot be read as the NHANES table GLU_H"):
            nhanes._parse(other, "GLU_H")

    def test_bad_options(self):
        with pytest.raises(InputError, match="unknown='keep' is not one of 'drop', 'negative'"):
            datasets.nhanes_diabetes(unknown="keep")
        with pytest.raises(InputError, match="leaky='no' is not one of True, False"):
            datasets.nhanes_diabetes(leaky="no")


class TestEverydayTables:
    @pytest.mark.parametrize(
        ("name", "target", "left_out"),
        [("titanic", "survived", ["alive"]), ("california_housing", "median_house_value", [])],
    )
    def test_text_and_missing_values_are_as_in_the_file(self, name, target, left_out, load):
        data = load(name)
        with open(data_folder()[0] / _registry.FILES[name][0].path, newline="") as file:
            lines = list(csv.reader(file))
        header, cells = lines[0], np.array(lines[1:], dtype=object)
        assert list(data.feature_names) == [column for column in header if column not in (target, *left_out)]
        assert np.array_equal(cells[:, header.index(target)].astype(float), data.y)
        for column in data.feature_names:
            raw = cells[:, header.index(column)]
            assert np.array_equal(data.X[column].isna(), raw == ""), column
            there = data.X[column][raw != ""]
            if column in data.categorical_features:
                assert there.astype(str).tolist() == raw[raw != ""].tolist(), column
            else:
                assert there.tolist() == raw[raw != ""].astype(float).tolist(), column

    @pytest.mark.data
    def test_titanic(self, published):
        data = published("titanic")
        lacking = data.X.isna().sum()
        assert lacking[lacking > 0].to_dict() == {"age": 177, "embarked": 2, "deck": 688, "embark_town": 2}
        assert data.X["adult_male"].dtype == data.X["alone"].dtype == bool
        assert data.categorical_features == (
            "sex", "embarked", "class", "who", "adult_male", "deck", "embark_town", "alone",
        )  # fmt: skip
        assert data.class_names == ("died", "survived")
        assert data.named().equals(data.X)

    @pytest.mark.data
    def test_california_housing_has_a_numeric_target(self, published):
        data = published("california_housing")
        assert data.X.shape == (20_640, 9)
        assert data.X["total_bedrooms"].isna().sum() == data.X.isna().sum().sum() == 207
        assert data.X["ocean_proximity"].value_counts()["ISLAND"] == 5
        assert data.categorical_features == ("ocean_proximity",)
        assert data.y.dtype == np.float64
        assert (data.y.min(), data.y.max()) == (14_999, 500_001)
        assert data.class_names == ()
        assert repr(data).endswith(": X 20,640 x 9, a numeric target, 16,512 to train>")

    def test_california_housing_is_split_by_rows(self, load):
        data = load("california_housing")
        assert np.array_equal(np.sort(np.concatenate((data.train, data.test))), np.arange(len(data)))
        assert len(data.test) == len(data) / 5

    @pytest.mark.parametrize("name", AS_IN_THE_FILE)
    def test_the_schema_reads_them_and_gives_them_back(self, name, load):
        data = load(name)
        schema, Z = Schema.learn(data.X, categorical_features=data.categorical_features)
        whole = data.X.select_dtypes(np.int64).columns  # reach the model as floats
        assert schema.decode(Z).equals(data.X.astype(dict.fromkeys(whole, np.float64)))
        assert np.array_equal(schema.missing, data.X.isna().any())
        assert np.isfinite(schema.embed(Z)).all()
        assert np.array_equal(Schema.learn(data.X)[1], Z, equal_nan=True)  # without naming the categories


class TestImages:
    @pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10"])
    def test_images_belong_to_their_labels(self, name, made_up_files):
        with made_up.in_use(*made_up_files):
            data = getattr(datasets, name)()
        n = len(data.train)
        assert data.X.dtype == np.uint8
        assert data.X.shape[1:] == ((3, 32, 32) if name == "cifar10" else (28, 28))
        assert (n, len(data.test)) == ((100, 20) if name == "cifar10" else (made_up.IMAGES, made_up.TEST_IMAGES))
        assert np.array_equal(np.concatenate((data.train, data.test)), np.arange(len(data)))
        assert set(data.y) == set(range(10))
        bright = data.X.reshape(len(data), -1, data.X.shape[-1]).max(axis=2) >= 180
        assert np.array_equal(bright.argmax(axis=1), 2 * data.y)  # where made_up draws the band of each class

    def test_batches_that_are_not_there_are_counted(self, made_up_files, tmp_path):
        folder, *entries = made_up_files
        for name in ("data_batch_2.bin", "test_batch.bin"):
            path = tmp_path / "cifar10" / "cifar-10-batches-bin" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / path.relative_to(tmp_path), path)
        with made_up.in_use(tmp_path, *entries):
            with pytest.warns(IncompleteDataWarning, match="2 of 6 batches .* 20 of 50,000 images to train and 20 of"):
                data = datasets.cifar10()
            assert "Incomplete: 20 of 50,000" in data.description
            assert data.feature_names[1024] == "green 0,0"
            assert not datasets.available().loc["cifar10", "cached"]

    @pytest.mark.data
    @pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
    def test_grey_images(self, name, published):
        data = published(name)
        assert data.X.shape == (70_000, 28, 28)
        assert np.array_equal(data.train, np.arange(60_000))
        assert len(data.feature_names) == 784
        assert data.feature_names[29] == "1,1"
        counts = np.bincount(data.y_test)
        expected = {"mnist": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009], "fashion_mnist": [1000] * 10}
        assert counts.tolist() == expected[name]
        assert data.X_train.mean() / 255 == pytest.approx({"mnist": 0.1307, "fashion_mnist": 0.2860}[name], abs=5e-5)

    @pytest.mark.data
    def test_colour_images(self, published):
        data = published("cifar10")
        assert data.X.shape == (30_000, 3, 32, 32)  # three of the six batches
        assert len(data.train) == 20_000
        assert np.bincount(data.y_test).tolist() == [1_000] * 10
        assert data.class_names[data.y[0]] == "frog"  # the well-known first image

    def test_a_folder_without_any_batch(self, tmp_path, monkeypatch):
        monkeypatch.setenv("GPEC_DATA", str(tmp_path))
        with pytest.raises(DownloadError, match=r"has no cifar10/cifar-10-batches-bin/data_batch_1\.bin"):
            datasets.cifar10()

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"no gzip", "is not a whole gzip file"),
            (gzip.compress(bytes(4_000))[:-9], "is not a whole gzip file"),
            (gzip.compress(b""), "is not an IDX file of bytes"),
            (gzip.compress(b"\0\0\x0d\1\0\0\0\2ab"), "is not an IDX file of bytes"),
            (gzip.compress(b"\0\0\x08\1\0\0\0\3ab"), r"should hold \(3,\) values, but has 2"),
            (gzip.compress(b"\0\0\x08\2\0\0\0\3"), "should hold"),
        ],
        ids=["no gzip", "cut", "empty", "another type", "too few values", "cut header"],
    )
    def test_a_file_that_is_no_idx_file(self, tmp_path, content, message):
        path = tmp_path / "images.gz"
        path.write_bytes(content)
        with pytest.raises(CorruptFileError, match=message):
            _read_idx(path)


class TestAvailable:
    def test_lists_every_loader(self):
        assert set(datasets.available().index) == set(LOADERS)

    def test_says_what_is_not_here(self, tmp_path, monkeypatch):
        monkeypatch.setenv("GPEC_DATA", str(tmp_path))
        cached = datasets.available()["cached"]
        assert not cached.any()

    @pytest.mark.data
    def test_says_what_is_here_and_its_size(self, published):
        table = datasets.available()
        cached = table["cached"]
        assert set(cached[~cached].index) == {"cifar10"}  # three of six batches
        for name in (*PUBLISHED, "california_housing"):
            data = published(name)
            assert tuple(table.loc[name, ["rows", "features", "classes"]]) == (*data.X.shape, len(data.class_names))
            if name != "nhanes_diabetes":
                size = sum((data_folder()[0] / file.path).stat().st_size for file in _registry.FILES[name])
                assert table.loc[name, "megabytes"] == pytest.approx(size / 1e6, abs=0.05)


class TestCommand:
    @pytest.fixture
    def ask(self, made_up_files, monkeypatch, tmp_path):
        """The command with these words, in an empty folder."""

        def ask(*words):
            monkeypatch.setattr(sys, "argv", ["paper.data", *words])
            with made_up.in_use(*made_up_files):
                command.main()

        monkeypatch.chdir(tmp_path)
        return ask

    def test_without_a_name_it_lists_the_sets(self, ask, capsys):
        ask()
        lines = capsys.readouterr().out.splitlines()
        assert {line.split()[0] for line in lines[2:]} == set(LOADERS)

    @pytest.mark.parametrize("name", ["census", "california_housing"])
    def test_a_table_is_written_with_its_target(self, ask, name, made_up_files):
        ask(name)
        found = pd.read_csv(f"{name}.csv")
        with made_up.in_use(*made_up_files):
            data = getattr(datasets, name)()
        assert list(found.columns) == [*data.feature_names, "target"]
        expected = [data.class_names[label] for label in data.y] if data.class_names else data.y.tolist()
        assert found["target"].tolist() == expected
        np.testing.assert_allclose(found.select_dtypes("number").iloc[:, 0], data.X.iloc[:, 0])

    def test_out_names_the_file(self, ask, tmp_path):
        ask("pima", "--out", "x.csv")
        assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]

    @pytest.mark.parametrize(
        ("name", "message"), [("iris", "no data set 'iris'; there are census"), ("mnist", "mnist holds images")]
    )
    def test_what_cannot_be_written_is_one_sentence(self, ask, name, message, capsys):
        with pytest.raises(SystemExit, match="2"):
            ask(name)
        assert message in capsys.readouterr().err


def test_a_wrong_file_in_the_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("GPEC_DATA", str(tmp_path))
    (tmp_path / "pima_diabetes").mkdir()
    (tmp_path / "pima_diabetes" / "pima-indians-diabetes.data.csv").write_text("1,2,3\n")
    with pytest.raises(CorruptFileError, match=r"is damaged or another edition: its sha256 is .*, expected 6bfe5d0f"):
        datasets.pima()


def test_repr_is_short(made_up_files):
    with made_up.in_use(*made_up_files):
        data = datasets.pima()
    assert repr(data) == "<pima: X 300 x 8, 2 classes, 240 to train>"
    assert len(data) == 300


@pytest.mark.parametrize(
    ("name", "target", "left_out"),
    [("census", "Hours per week", "income"), ("online_shoppers", "ProductRelated_Duration", "Revenue")],
)
def test_a_column_can_be_the_target(name, target, left_out, load):
    data, classes = getattr(datasets, name)(target=target), load(name)
    assert data.class_names == ()
    assert {target, left_out}.isdisjoint(data.X.columns)
    np.testing.assert_array_equal(data.y, classes.X[target])
    pd.testing.assert_frame_equal(data.X, classes.X.drop(columns=target))
    assert sorted([*data.train, *data.test]) == list(range(len(data)))
    assert list(data.named().columns) == list(data.X.columns)


@pytest.mark.parametrize("loader", [datasets.census, datasets.online_shoppers])
def test_another_target_is_refused_before_the_file_is_read(loader):
    with pytest.raises(InputError, match="target='age' is not one of"):
        loader(target="age")


def test_the_page_on_regression_runs(load):
    (code,) = re.findall(r"```py\n(.*?)```", (ROOT / "docs" / "regression.md").read_text(), re.DOTALL)
    small = code.replace("n_estimators=100", "n_estimators=10").replace("3000", "200").replace("3100", "230")
    names: dict[str, object] = {}
    small = small.replace("background=20", "background=5, n_explained=20, n_boundary=60, progress=False")
    exec(compile(small.replace("e[0].plot()", ""), "regression.md", "exec"), names)  # noqa: S102  the page is ours
    e = names["e"]
    assert e.shape == (20, 9)
    np.testing.assert_allclose(e.values.sum(axis=1) + e.base_values, e.predictions, rtol=1e-4)
