"""Image sets, as bytes."""

from __future__ import annotations

import gzip
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpec.errors import CorruptFileError
from paper.data._files import checked, data_folder, is_here
from paper.data._registry import FILES
from paper.data.base import Dataset
from paper.data.errors import IncompleteDataWarning

__all__ = ["cifar10", "fashion_mnist", "mnist"]

_UNSIGNED_BYTES = 8  # the type code of IDX
_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_OBJECTS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def mnist() -> Dataset:
    """Handwritten digits (70,000 grey images of 28 x 28 pixels, 10 classes), with the official split."""
    return _idx_set(
        "mnist",
        tuple("0123456789"),
        """MNIST: 60,000 + 10,000 handwritten digits, centred, 28 x 28 grey levels (0 is background).

Origin: Y. LeCun, C. Cortes and C. Burges, The MNIST database of handwritten digits. Licence: CC BY-SA 3.0.
Cite: Y. LeCun, L. Bottou, Y. Bengio and P. Haffner (1998), Gradient-based learning applied to document recognition,
Proceedings of the IEEE 86(11).""",
    )


def fashion_mnist() -> Dataset:
    """Pictures of clothes (70,000 grey images of 28 x 28 pixels, 10 classes), with the official split."""
    return _idx_set(
        "fashion_mnist",
        _CLOTHES,
        """Fashion-MNIST: 60,000 + 10,000 pictures of Zalando's articles, 28 x 28 grey levels (0 is background).

Origin: Zalando Research. Licence: MIT.
Cite: H. Xiao, K. Rasul and R. Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine learning
algorithms, arXiv:1708.07747.""",
    )


def cifar10() -> Dataset:
    """Photographs (60,000 colour images of 32 x 32 pixels, 10 classes), with the official split.

    Channels come first: ``X`` has shape (n, 3, 32, 32). A folder named by ``GPEC_DATA`` may hold only some of the
    official binary batches; those are read, and an ``IncompleteDataWarning`` says how many images
    there are.
    """
    files = FILES["cifar10"]
    folder, ours = data_folder()
    here = [file for file in files if ours or is_here(file)]
    batches = [_cifar_batch(checked(file)) for file in here or files[:1]]
    X = np.concatenate([images for images, _ in batches])
    y = np.concatenate([labels for _, labels in batches])
    n_test = len(batches[-1][1]) if files[-1] in here else 0
    word = ""
    if len(here) < len(files):
        word = f"\nIncomplete: {len(y) - n_test:,} of 50,000 images to train and {n_test:,} of 10,000 to test."
        warnings.warn(
            f"cifar10: {len(here)} of {len(files)} batches are in {folder}: {len(y) - n_test:,} of 50,000 images to "
            f"train and {n_test:,} of 10,000 to test.",
            IncompleteDataWarning,
            stacklevel=2,
        )
    names = tuple(
        f"{colour} {row},{column}" for colour in ("red", "green", "blue") for row, column in np.ndindex(32, 32)
    )
    return Dataset(
        "cifar10", X, y, names, _OBJECTS, np.arange(len(y) - n_test), np.arange(len(y) - n_test, len(y)),
        """CIFAR-10: 50,000 + 10,000 colour photographs of 32 x 32 pixels.

Origin: A. Krizhevsky, University of Toronto (binary version). Licence: none stated; the authors ask to be cited.
Cite: A. Krizhevsky (2009), Learning multiple layers of features from tiny images, technical report."""
        + word,
    )  # fmt: skip


def _idx_set(name: str, class_names: tuple[str, ...], description: str) -> Dataset:
    train_images, train_labels, test_images, test_labels = (_read_idx(checked(file)) for file in FILES[name])
    X = np.concatenate((train_images, test_images))
    y = np.concatenate((train_labels, test_labels)).astype(np.int64)
    names = tuple(f"{row},{column}" for row, column in np.ndindex(*X.shape[1:]))
    split = len(train_labels)
    return Dataset(name, X, y, names, class_names, np.arange(split), np.arange(split, len(y)), description)


def _read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """IDX: two zero bytes, type code, number of axes, the length of each axis (big-endian), then the values."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptFileError(f"{path} is not a whole gzip file ({error}).") from error
    values = np.frombuffer(content, dtype=np.uint8)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _UNSIGNED_BYTES:
        raise CorruptFileError(f"{path} is not an IDX file of bytes; it starts with {content[:4].hex()}.")
    header = 4 + 4 * content[3]
    shape = tuple(int(length) for length in np.frombuffer(content[4:header], dtype=">u4"))
    if len(shape) != content[3] or len(values) - header != int(np.prod(shape)):
        raise CorruptFileError(f"{path} should hold {shape} values, but has {len(values) - header}.")
    return values[header:].reshape(shape)


def _cifar_batch(path: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    """Records of one label byte and 3,072 pixel bytes."""
    content = np.fromfile(path, dtype=np.uint8)
    if content.size == 0 or content.size % 3073 != 0:
        raise CorruptFileError(f"{path} has {content.size:,} bytes, which is not a number of records of 3,073.")
    records = content.reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)
