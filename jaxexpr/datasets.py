"""Image sets that serve as inputs of networks: digits, MNIST, Fashion-MNIST and CIFAR-10.

``digits`` comes with scikit-learn. The others are read from a folder that the user names, by
argument or in the environment variable ``JAXEXPR_DATA``, and are downloaded into the user's cache
only where no folder is named. A download is compared with a known SHA-256 sum. A user's own files
are checked by their structure instead, so that a subset may stand there.

Sources
-------
digits : E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning
    Repository, 1998 (its test part, 1,797 images).
mnist : Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, Gradient-based learning applied to document
    recognition, Proceedings of the IEEE 86(11):2278-2324, 1998.
fashion_mnist : H. Xiao, K. Rasul, R. Vollgraf, Fashion-MNIST: a Novel Image Dataset for
    Benchmarking Machine Learning Algorithms, arXiv:1708.07747, 2017.
cifar10 : A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, technical report,
    University of Toronto, 2009.
"""

import difflib
import gzip
import math
import os
import struct
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxexpr._core import checks
from jaxexpr._core.calls import explained

__all__ = ["NAMES", "Dataset", "load"]

NAMES = ("digits", "mnist", "fashion_mnist", "cifar10")
_SPLITS = ("train", "test")
_CLASSES = 10  # in every one of the four sets

_VARIABLE = "JAXEXPR_DATA"
_ARCHIVE = "cifar-10-binary.tar.gz"
_UNPACKED = "cifar-10-batches-bin"
_RECORD = 1 + 3 * 32 * 32  # bytes of a CIFAR-10 record: a label, then red, green and blue planes
_DIGITS_TRAIN = 1437

_IDX_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_CIFAR_FILES = {
    "train": tuple(f"data_batch_{batch}.bin" for batch in range(1, 6)),
    "test": ("test_batch.bin",),
}
_IDX_KINDS = {"images": (2051, (28, 28)), "labels": (2049, ())}  # magic number, shape of an item

# CRC-32 of the unpacked label files. MNIST and Fashion-MNIST share their file names and sizes, so
# one can lie where the other is looked for; the labels tell them apart.
_KNOWN_LABELS = {
    0xE0CB4AD2: ("mnist", "train"),
    0x4AB9EFF9: ("mnist", "test"),
    0x741A4657: ("fashion_mnist", "train"),
    0x80142C1F: ("fashion_mnist", "test"),
}

# What reading a damaged or truncated file raises; other OSErrors (no permission) speak for
# themselves.
_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError)


class _Source(NamedTuple):
    """Where a set is downloaded: mirrors, tried in turn, and the SHA-256 sum of every file."""

    mirrors: tuple[str, ...]
    sha256: dict[str, str]


def _packed_sums(*sums: str) -> dict[str, str]:
    """Name the sums of train images, train labels, test images and test labels."""
    files = [f"{file}.gz" for split in _SPLITS for file in _IDX_FILES[split]]
    return dict(zip(files, sums, strict=True))


_SOURCES = {
    "mnist": _Source(
        (
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
        ),
        _packed_sums(
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    "fashion_mnist": _Source(
        ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
        _packed_sums(
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
    "cifar10": _Source(
        ("https://www.cs.toronto.edu/~kriz/",),
        {_ARCHIVE: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
    ),
}


class Dataset(NamedTuple):
    """Images and their labels; unpacks as ``images, labels = load(...)``.

    Attributes
    ----------
    images : ndarray, float32, shape ``(N, height, width)`` or ``(N, height, width, 3)``
        Intensities in [0, 1]; colour channels come last, in the order red, green, blue.
    labels : ndarray, int32, shape ``(N,)``
        Classes 0 to 9.
    """

    images: NDArray[np.float32]
    labels: NDArray[np.int32]

    @property
    def flat(self) -> NDArray[np.float32]:
        """The images as rows, shape ``(N, features)``: a view, no copy."""
        return self.images.reshape(len(self.images), math.prod(self.images.shape[1:]))


@explained
def load(
    name: str, split: str = "train", *, folder: str | os.PathLike[str] | None = None
) -> Dataset:
    """Load one of the image sets, in its stored order.

    Parameters
    ----------
    name : {"digits", "mnist", "fashion_mnist", "cifar10"}
        Images of shape ``(8, 8)``, ``(28, 28)``, ``(28, 28)`` or ``(32, 32, 3)``.
    split : {"train", "test"}
        The split of the authors. For ``digits``, which has none, the first 1,437 images or the
        last 360.
    folder : path, optional
        Where the files lie; ``digits`` needs none and ignores it. Without it the environment
        variable ``JAXEXPR_DATA`` names the folder, and without that (or where it is empty) the
        files are downloaded once into the user's cache. A folder that is named is never replaced
        by a download. It holds the files under their original names, packed (``.gz``) or
        unpacked, in ``folder/name`` or in ``folder`` itself; for ``cifar10`` also the archive
        ``cifar-10-binary.tar.gz`` or the folder ``cifar-10-batches-bin`` that it unpacks to.

    Returns
    -------
    Dataset
        ``images`` float32 in [0, 1] (pixel / 255; / 16 for ``digits``), shape ``(N, height,
        width[, 3])``, and ``labels`` int32, shape ``(N,)``.

    Raises
    ------
    ValueError
        Unknown ``name`` or ``split``; a file that is truncated, damaged, of the wrong kind or set,
        or at odds with its header or its label file; a download with the wrong checksum.
    FileNotFoundError
        The named folder does not exist or lacks a file of this set.
    ConnectionError
        A download found no mirror within reach.

    Examples
    --------
    >>> from jaxexpr import datasets
    >>> images, labels = datasets.load("digits")
    >>> images.shape, labels[:5].tolist()
    ((1437, 8, 8), [0, 1, 2, 3, 4])
    >>> datasets.load("digits", "test").flat.shape
    (360, 64)
    """
    _check_choice("name", name, NAMES)
    _check_choice("split", split, _SPLITS)
    if name == "digits":
        return _digits(split)
    paths = _locate(name, split, folder)
    if name == "cifar10":
        return _read_cifar10(paths, _CIFAR_FILES[split])
    return _read_idx_pair(paths, (name, split))


def _check_choice(argument: str, value: str, choices: Sequence[str]) -> None:
    if isinstance(value, str) and value in choices:
        return
    near = difflib.get_close_matches(str(value).lower(), choices, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(f"{argument}={value!r} is unknown{hint}: choose one of {', '.join(choices)}")


def _digits(split: str) -> Dataset:
    from sklearn.datasets import load_digits  # type: ignore[import-untyped,unused-ignore]

    digits = load_digits()
    part = slice(None, _DIGITS_TRAIN) if split == "train" else slice(_DIGITS_TRAIN, None)
    images = digits.images[part].astype(np.float32) / np.float32(16)
    return Dataset(images, digits.target[part].astype(np.int32))


# Finding the files


def _locate(name: str, split: str, folder: str | os.PathLike[str] | None) -> tuple[Path, ...]:
    """Paths of the files of a split, in order, or the one path of the archive that holds them."""
    files = (_CIFAR_FILES if name == "cifar10" else _IDX_FILES)[split]
    if folder is not None:
        return _search("folder", checks.path("folder", folder), name, files)
    if variable := os.environ.get(_VARIABLE):
        return _search(_VARIABLE, Path(variable), name, files)
    wanted = (_ARCHIVE,) if name == "cifar10" else tuple(f"{file}.gz" for file in files)
    return tuple(_fetch(name, file) for file in wanted)


def _search(origin: str, folder: Path, name: str, files: Sequence[str]) -> tuple[Path, ...]:
    folder = folder.expanduser()
    given = f"{origin}={str(folder)!r}"
    undo = f"leave out folder, with {_VARIABLE} unset," if origin == "folder" else f"unset {origin}"
    fix = f"put the files into {folder / name}, or {undo} to download them"
    if not folder.is_dir():
        raise FileNotFoundError(f"{given} is not a folder that exists: {fix}")
    places, archives = [folder / name, folder], []
    if name == "cifar10":
        archives = [place / _ARCHIVE for place in places]
        places = [here for place in places for here in (place, place / _UNPACKED)]
    missing = list(files)
    for place in places:
        # All files from one place: images of one copy never meet labels of another.
        found = {file: path for file in files if (path := _packed_or_not(place, file))}
        if len(found) == len(files):
            return tuple(found.values())
        missing = min(missing, [file for file in files if file not in found], key=len)
    for archive in archives:
        if archive.is_file():
            return (archive,)
    looked = ", ".join(f"{place}{os.sep}" for place in places)
    also = f"; nor is there {archives[0]} or {archives[1]}" if archives else ""
    raise FileNotFoundError(
        f"{given} lacks {', '.join(missing)} of {name}, packed (.gz) or not: looked in {looked}"
        f"{also}; {fix}"
    )


def _packed_or_not(place: Path, file: str) -> Path | None:
    candidates = (place / f"{file}.gz", place / file)
    return next((path for path in candidates if path.is_file()), None)


def _fetch(name: str, file: str) -> Path:
    """Path of a checksummed file in the user's cache, downloaded first if absent or damaged."""
    import pooch  # type: ignore[import-untyped,unused-ignore]
    from requests.exceptions import RequestException

    source = _SOURCES[name]
    known = source.sha256[file]
    cache = Path(pooch.os_cache("jaxexpr")) / name
    failures: list[Exception] = []
    for mirror in source.mirrors:
        try:
            # Pooch downloads to a temporary file and moves it into place only if the sum is
            # right: neither an interrupted nor an altered download stays in the cache.
            return Path(pooch.retrieve(mirror + file, f"sha256:{known}", fname=file, path=cache))
        except RequestException as error:  # out of reach
            if error.response is not None:  # Pooch leaves the connection open
                error.response.close()
            failures.append(error)
        except ValueError as error:  # the wrong content
            failures.append(error)
    attempts = zip(source.mirrors, failures, strict=True)
    tried = "; ".join(f"{mirror}{file} ({error})" for mirror, error in attempts)
    fix = (
        f"Download {file} by hand into a folder {name} inside any folder, and set {_VARIABLE} to "
        "that outer folder"
    )
    if all(isinstance(error, RequestException) for error in failures):
        raise ConnectionError(
            f"{file} of {name} could not be downloaded. Tried {tried}. {fix}"
        ) from failures[-1]
    raise ValueError(
        f"{file} of {name} was downloaded with the wrong content: expected sha256 {known}. Tried "
        f"{tried}. Try again later, in case a proxy answered instead. {fix}"
    ) from failures[-1]


# Reading the files


def _bad(path: str | Path, fault: str, fix: str = "replace it by a fresh copy") -> ValueError:
    return ValueError(f"{path} {fault}: {fix}")


def _read(path: Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as stream:
            return stream.read()
    except _DAMAGE as error:
        raise _bad(path, f"is truncated, damaged or no gzip file ({error})") from error


def _check_labels(path: str | Path, labels: NDArray[np.uint8]) -> None:
    outside = np.flatnonzero(labels >= _CLASSES)
    if outside.size:
        at = int(outside[0])
        raise _bad(path, f"holds the label {labels[at]} at position {at}, outside 0 to 9")


def _read_idx_pair(paths: Sequence[Path], wanted: tuple[str, str]) -> Dataset:
    raw = [_read(path) for path in paths]
    images = _parse_idx(paths[0], raw[0], "images")
    labels = _parse_idx(paths[1], raw[1], "labels")
    _check_labels(paths[1], labels)
    if len(images) != len(labels):
        fault = f"holds {len(images)} images but {paths[1]} holds {len(labels)} labels"
        raise _bad(paths[0], fault, "put two files of the same set there")
    found = _KNOWN_LABELS.get(zlib.crc32(raw[1]), wanted)
    if found != wanted:
        fault = f"holds the labels of {' '.join(found)}, not of {' '.join(wanted)}"
        fix = "mnist and fashion_mnist share their file names, keep each in a folder of its name"
        raise _bad(paths[1], fault, fix)
    return Dataset(np.divide(images, 255, dtype=np.float32), labels.astype(np.int32))


def _parse_idx(path: Path, raw: bytes, kind: str) -> NDArray[np.uint8]:
    """Items of an IDX file: big-endian magic, count and item shape, then unsigned bytes."""
    magic, shape = _IDX_KINDS[kind]
    start = 4 * (2 + len(shape))
    if len(raw) < start:
        raise _bad(path, f"holds {len(raw)} bytes, fewer than the {start} of its header")
    found, count, *dims = struct.unpack_from(f">{2 + len(shape)}I", raw)
    if found != magic:
        fault = f"begins with the magic number {found}, not the {magic} of {kind}"
        raise _bad(path, fault, f"put the IDX file of the {kind} there")
    if tuple(dims) != shape:
        raise _bad(path, f"holds images of shape {tuple(dims)}, not {shape}")
    due, held = count * math.prod(shape), len(raw) - start
    if held != due:
        raise _bad(path, f"announces {count} {kind}, {due} bytes, but holds {held} bytes of them")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(count, *shape)


def _read_cifar10(paths: Sequence[Path], files: Sequence[str]) -> Dataset:
    if paths[0].name == _ARCHIVE:
        contents = {f"{file} in {paths[0]}": raw for file, raw in _unpack(paths[0], files).items()}
    else:
        contents = {str(path): _read(path) for path in paths}
    batches = [_parse_records(path, raw) for path, raw in contents.items()]
    labels = np.concatenate([batch[:, 0] for batch in batches]).astype(np.int32)
    # One float array, filled batch by batch: the training images take 614 MB.
    images = np.empty((len(labels), 32, 32, 3), np.float32)
    start = 0
    for batch in batches:
        pixels = batch[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        np.divide(pixels, 255, out=images[start : start + len(batch)], dtype=np.float32)
        start += len(batch)
    return Dataset(images, labels)


def _parse_records(path: str, raw: bytes) -> NDArray[np.uint8]:
    if not raw or len(raw) % _RECORD:
        raise _bad(path, f"holds {len(raw)} bytes, not whole records of {_RECORD} bytes")
    records = np.frombuffer(raw, np.uint8).reshape(-1, _RECORD)
    _check_labels(path, records[:, 0])
    return records


def _unpack(archive: Path, files: Sequence[str]) -> dict[str, bytes]:
    """Contents of the wanted files, in the order wanted; nothing is written to the disk."""
    contents: dict[str, bytes] = {}
    try:
        with gzip.open(archive) as stream:
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                for member in tar:
                    file = member.name.rpartition("/")[2]
                    if file in files and (content := tar.extractfile(member)):
                        contents[file] = content.read()
            # The checksum of a gzip stream is compared only when its end is read.
            while stream.read(1 << 20):
                pass
    except _DAMAGE as error:
        raise _bad(archive, f"is truncated, damaged or no .tar.gz archive ({error})") from error
    if missing := [file for file in files if file not in contents]:
        raise _bad(archive, f"lacks {', '.join(missing)}")
    return {file: contents[file] for file in files}
