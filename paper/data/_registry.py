"""Every file of every data set: origin, size, sum."""

from __future__ import annotations

from paper.data._files import File

__all__ = ["CIFAR_BATCHES", "FILES", "NHANES_TABLES"]

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"  # the origin's own page refuses downloads; same sums
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_CIFAR = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
_NHANES = "https://wwwn.cdc.gov/Nchs/Data/Nhanes/Public/2013/DataFiles"

CIFAR_BATCHES = (
    "data_batch_1.bin",
    "data_batch_2.bin",
    "data_batch_3.bin",
    "data_batch_4.bin",
    "data_batch_5.bin",
    "test_batch.bin",
)
_CIFAR_SUMS = (
    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
)
_CIFAR_ARCHIVE = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"

# Rows and columns of each table as the CDC documents them; the CDC publishes no sums.
NHANES_TABLES = {
    "DEMO_H": (10_175, 47),
    "BIOPRO_H": (6_979, 38),
    "BMX_H": (9_813, 26),
    "BPQ_H": (6_464, 14),
    "BPX_H": (9_813, 23),
    "DIQ_H": (9_770, 54),
    "DR1TOT_H": (9_813, 168),
    "GLU_H": (3_329, 6),
    "HDL_H": (8_291, 3),
    "HUQ_H": (10_175, 10),
    "MCQ_H": (9_770, 95),
    "TCHOL_H": (8_291, 3),
    "TRIGLY_H": (3_329, 6),
    "WHQ_H": (6_464, 34),
}


def _idx(folder: str, url: str, sums: dict[str, tuple[int, str]]) -> tuple[File, ...]:
    return tuple(File(f"{folder}/{name}", f"{url}/{name}", size, sha256) for name, (size, sha256) in sums.items())


def _transport_size(rows: int, columns: int) -> int:
    """Bytes of a SAS transport file of numbers: headers of 80 bytes, 140 for each column, 8 for each value."""
    return 720 + -(-140 * columns // 80) * 80 + -(-8 * rows * columns // 80) * 80


FILES: dict[str, tuple[File, ...]] = {
    "census": (
        File(
            "adult/adult.data",
            f"{_UCI}/adult/adult.data",
            3_974_305,
            "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        ),
    ),
    "online_shoppers": (
        File(
            "online_shoppers/online_shoppers_intention.csv",
            f"{_UCI}/00468/online_shoppers_intention.csv",
            1_072_063,
            "b3055ee355f59134d851d32641183cb4a8b45def7124d2f50442a042f358e0d9",
        ),
    ),
    "german_credit": (
        File(
            "german_credit/german.data-numeric",
            f"{_UCI}/statlog/german/german.data-numeric",
            102_000,
            "2752b044394958ab6dd193a0b56ca0f0b3a2d8bc7cb8c008e35a5e84bbec02f8",
        ),
    ),
    "nhanes_diabetes": tuple(
        File(f"nhanes_2013_2014/{table}.XPT", f"{_NHANES}/{table}.XPT", _transport_size(*shape))
        for table, shape in NHANES_TABLES.items()
    ),
    "pima": (
        File(
            "pima_diabetes/pima-indians-diabetes.data.csv",
            "https://raw.githubusercontent.com/jbrownlee/Datasets/master/pima-indians-diabetes.data.csv",
            23_278,
            "6bfe5d0f379d17a0e0819b996407e3c09bf80febd4287f2ed212190dfff154af",
        ),
    ),
    "titanic": (
        File(
            "titanic/titanic.csv",
            "https://raw.githubusercontent.com/mwaskom/seaborn-data/master/titanic.csv",
            57_018,
            "81787d320d7f7b03df935e91de8bd19e11d45c5bbcab86ef4d4a76dc91b7d4f2",
        ),
    ),
    "california_housing": (
        File(
            "california_housing/housing.csv",
            "https://raw.githubusercontent.com/ageron/handson-ml2/master/datasets/housing/housing.csv",
            1_423_529,
            "2364609dc48bec7df3ba9dbb7041478e704ecddcee70ef1827ec3fc49d22c0cc",
        ),
    ),
    "mnist": _idx(
        "mnist",
        _MNIST,
        {
            "train-images-idx3-ubyte.gz": (
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            "train-labels-idx1-ubyte.gz": (28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            "t10k-images-idx3-ubyte.gz": (
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            "t10k-labels-idx1-ubyte.gz": (4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        },
    ),
    "fashion_mnist": _idx(
        "fashion_mnist",
        _FASHION,
        {
            "train-images-idx3-ubyte.gz": (
                26_421_880,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            "train-labels-idx1-ubyte.gz": (29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
            "t10k-images-idx3-ubyte.gz": (
                4_422_102,
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            ),
            "t10k-labels-idx1-ubyte.gz": (5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
        },
    ),
    "cifar10": tuple(
        File(
            f"cifar10/cifar-10-batches-bin/{name}",
            _CIFAR,
            170_052_171 if position == 0 else 0,  # one archive has them all
            sha256,
            _CIFAR_ARCHIVE,
        )
        for position, (name, sha256) in enumerate(zip(CIFAR_BATCHES, _CIFAR_SUMS, strict=True))
    ),
}
