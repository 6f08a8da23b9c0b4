"""Readers on made files, downloads from a server on this machine, and the real files if named."""

import ast
import gzip
import hashlib
import io
import os
import shutil
import socket
import struct
import sys
import tarfile
import threading
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from jaxexpr import datasets

REAL = os.environ.get("JAXEXPR_DATA", "")
real_files = pytest.mark.skipif(
    not REAL, reason="needs the real files: set JAXEXPR_DATA to their folder"
)

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
BATCHES = [f"data_batch_{batch}.bin" for batch in range(1, 6)]
ARCHIVE = "cifar-10-binary.tar.gz"

RNG = np.random.default_rng(20)
PIXELS = RNG.integers(0, 256, (7, 28, 28), dtype=np.uint8)
LABELS = np.array([3, 0, 9, 1, 1, 4, 8], np.uint8)
# Two records a batch; the labels tell the batches apart, so that their order shows.
RECORDS = RNG.integers(0, 256, (5, 2, 3073), dtype=np.uint8)
RECORDS[:, :, 0] = np.arange(10).reshape(5, 2)


@pytest.fixture(autouse=True)
def no_folder_named_and_no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Shield the tests from the user's folder, cache and proxies."""
    monkeypatch.delenv("JAXEXPR_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.setattr(datasets, "_SOURCES", {})  # a test that means to download fills it


def idx(magic: int, *shape: int, body: bytes) -> bytes:
    return struct.pack(f">{1 + len(shape)}i", magic, *shape) + body


def image_file(pixels: np.ndarray = PIXELS) -> bytes:
    return idx(2051, *pixels.shape, body=pixels.tobytes())


def label_file(labels: np.ndarray = LABELS) -> bytes:
    return idx(2049, len(labels), body=labels.tobytes())


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)


def write_pair(
    place: Path, suffix: str = "", *, images: bytes | None = None, labels: bytes | None = None
) -> None:
    write(place / f"{TRAIN_IMAGES}{suffix}", image_file() if images is None else images)
    write(place / f"{TRAIN_LABELS}{suffix}", label_file() if labels is None else labels)


def write_batches(place: Path, suffix: str = "") -> None:
    for file, records in zip(BATCHES, RECORDS, strict=True):
        write(place / f"{file}{suffix}", records.tobytes())


def archive(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for file, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{file}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def cifar_archive() -> bytes:
    """All batches, in another order than they are wanted in, among other files."""
    batches = {file: records.tobytes() for file, records in zip(BATCHES, RECORDS, strict=True)}
    others = {"readme.html": b"<html>", "test_batch.bin": RECORDS[2].tobytes()}
    return archive(dict(reversed((batches | others).items())))


def assert_made_images(data: datasets.Dataset) -> None:
    assert data.images.dtype == np.float32 and data.labels.dtype == np.int32
    np.testing.assert_array_equal(data.images, PIXELS.astype(np.float32) / np.float32(255))
    np.testing.assert_array_equal(data.labels, LABELS)


def assert_made_records(data: datasets.Dataset) -> None:
    assert data.images.shape == (10, 32, 32, 3) and data.images.dtype == np.float32
    assert data.labels.dtype == np.int32 and data.labels.tolist() == list(range(10))
    for image, raw in zip(data.images, RECORDS.reshape(10, 3073).tolist(), strict=True):
        for row, column, channel in ((0, 0, 0), (0, 1, 0), (1, 0, 1), (31, 30, 2)):
            byte = raw[1 + 1024 * channel + 32 * row + column]
            assert image[row, column, channel] == np.float32(byte) / np.float32(255)


# The module and its arguments


def test_import_needs_numpy_the_package_and_the_standard_library_only() -> None:
    tree = ast.parse(Path(datasets.__file__).read_text())
    modules = [
        alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names
    ]
    modules += [str(node.module) for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert "numpy" in modules
    assert {name.partition(".")[0] for name in modules} <= sys.stdlib_module_names | {
        "numpy",
        "jaxexpr",
    }


@pytest.mark.parametrize(
    ("name", "near"),
    [("minst", "mnist"), ("CIFAR-10", "cifar10"), ("fashion-mnist", "fashion_mnist")],
)
def test_unknown_name_is_named_with_the_nearest_known_one(name: str, near: str) -> None:
    with pytest.raises(ValueError, match=rf"name='{name}' .*mean '{near}'.*choose .*digits, mnist"):
        datasets.load(name)


def test_unknown_name_without_a_near_one_lists_the_choices() -> None:
    with pytest.raises(ValueError, match=f"name='qqq' is unknown: .*{', '.join(datasets.NAMES)}"):
        datasets.load("qqq")


@pytest.mark.parametrize("name", datasets.NAMES)
def test_unknown_split_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="split='tests' .*mean 'test'.*choose one of train, test"):
        datasets.load(name, "tests")


# Digits


def test_digits_are_those_of_scikit_learn_in_stored_order() -> None:
    from sklearn.datasets import load_digits  # type: ignore[import-untyped,unused-ignore]

    stored = load_digits()
    train, test = datasets.load("digits"), datasets.load("digits", "test")
    assert len(train.images) == 1437 and len(test.images) == 360
    images, labels = (np.concatenate(parts) for parts in zip(train, test, strict=True))
    assert images.dtype == np.float32 and labels.dtype == np.int32
    np.testing.assert_array_equal(images, stored.images / 16)  # sixteenths are exact
    np.testing.assert_array_equal(labels, stored.target)


def test_a_dataset_unpacks_and_flattens_without_a_copy() -> None:
    data = datasets.load("digits", "test", folder="no/such/folder")  # digits need no folder
    x, y = data
    assert x is data.images and y is data.labels and data._fields == ("images", "labels")
    assert data.flat.shape == (360, 64) and np.shares_memory(data.flat, x)
    np.testing.assert_array_equal(data.flat[5].reshape(8, 8), x[5])


# Where files are found


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("inner", [True, False])
def test_idx_layouts(tmp_path: Path, name: str, suffix: str, inner: bool) -> None:
    write_pair(tmp_path / name if inner else tmp_path, suffix)
    assert_made_images(datasets.load(name, folder=tmp_path))


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    "place", [".", "cifar10", "cifar-10-batches-bin", "cifar10/cifar-10-batches-bin"]
)
def test_cifar_layouts(tmp_path: Path, place: str, suffix: str) -> None:
    write_batches(tmp_path / place, suffix)
    assert_made_records(datasets.load("cifar10", folder=tmp_path))


@pytest.mark.parametrize("place", [".", "cifar10"])
def test_cifar_archive(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / ARCHIVE).write_bytes(cifar_archive())
    assert_made_records(datasets.load("cifar10", folder=tmp_path))
    test = datasets.load("cifar10", "test", folder=tmp_path)
    assert test.labels.tolist() == [4, 5]


def test_test_split_reads_its_own_files(tmp_path: Path) -> None:
    write_pair(tmp_path)
    write(tmp_path / "t10k-images-idx3-ubyte", image_file(PIXELS[:2]))
    write(tmp_path / "t10k-labels-idx1-ubyte", label_file(LABELS[5:]))
    images, labels = datasets.load("mnist", "test", folder=tmp_path)
    assert images.shape == (2, 28, 28) and labels.tolist() == [4, 8]


def test_files_of_two_copies_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path / "mnist" / TRAIN_IMAGES, image_file(PIXELS[::-1]))  # a copy without labels
    write_pair(tmp_path, ".gz")
    assert_made_images(datasets.load("mnist", folder=tmp_path))


def test_folder_goes_before_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_pair(tmp_path / "argument")
    write_pair(tmp_path / "variable", images=image_file(PIXELS[:1]), labels=label_file(LABELS[:1]))
    monkeypatch.setenv("JAXEXPR_DATA", str(tmp_path / "variable"))
    assert len(datasets.load("mnist").labels) == 1
    assert_made_images(datasets.load("mnist", folder=str(tmp_path / "argument")))


def test_home_folder_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_pair(tmp_path / "data")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("JAXEXPR_DATA", "~/data")
    assert_made_images(datasets.load("mnist"))


@pytest.mark.parametrize("origin", ["folder", "JAXEXPR_DATA"])
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10"])
def test_a_named_folder_is_never_replaced_by_a_download(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, origin: str, name: str
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a download was tried")

    monkeypatch.setattr("pooch.retrieve", refuse)
    empty, absent = tmp_path / "empty", tmp_path / "absent"
    empty.mkdir()
    wanted = BATCHES if name == "cifar10" else [TRAIN_IMAGES, TRAIN_LABELS]
    faults = {
        absent: f"{origin}='.*absent' is not a folder that exists: put .* into .*absent.{name}",
        empty: f"{origin}='.*empty' lacks {', '.join(wanted)} of {name}, .*looked in .*empty",
    }
    fix = "unset JAXEXPR_DATA to" if origin == "JAXEXPR_DATA" else "leave out folder, with JAX"
    for folder, fault in faults.items():
        if origin == "JAXEXPR_DATA":
            monkeypatch.setenv(origin, str(folder))
        given = folder if origin == "folder" else None
        with pytest.raises(FileNotFoundError, match=f"{fault}.*{fix}.* download"):
            datasets.load(name, folder=given)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError, match="folder='.*file' is not a folder"):
        datasets.load("mnist", folder=tmp_path / "file")


def test_missing_training_batch_is_named(tmp_path: Path) -> None:
    write_batches(tmp_path / "cifar10")
    (tmp_path / "cifar10" / BATCHES[2]).unlink()
    with pytest.raises(FileNotFoundError, match="lacks data_batch_3.bin of cifar10.*" + ARCHIVE):
        datasets.load("cifar10", folder=tmp_path)


# Files that are not as they should be


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        (
            {"images": idx(2051, 60000, 28, 28, body=bytes(784 * 3))},
            "images-idx3-ubyte announces 60000 images, 47040000 bytes, but holds 2352 bytes",
        ),
        (
            {"images": image_file() + b"\0"},
            "images-idx3-ubyte announces 7 images, 5488 bytes, but holds 5489 bytes",
        ),
        (
            {"labels": idx(2049, 8, body=bytes(7))},
            "labels-idx1-ubyte announces 8 labels, 8 bytes, but holds 7 bytes",
        ),
        (
            {"images": label_file(np.zeros(20, np.uint8))},
            "images-idx3-ubyte begins with the magic number 2049, not the 2051 of images: put the",
        ),
        (
            {"labels": image_file()},
            "labels-idx1-ubyte begins with the magic number 2051, not the 2049 of labels: put the",
        ),
        ({"images": b"\0\0\x08\x03\0"}, "images-idx3-ubyte holds 5 bytes, fewer than the 16"),
        ({"labels": b""}, "labels-idx1-ubyte holds 0 bytes, fewer than the 8 of its header"),
        (
            {"images": idx(2051, 7, 32, 32, body=bytes(7 * 1024))},
            r"images-idx3-ubyte holds images of shape \(32, 32\), not \(28, 28\): replace",
        ),
        (
            {"labels": label_file(LABELS[:6])},
            "images-idx3-ubyte holds 7 images but .*labels-idx1-ubyte holds 6 labels: put two",
        ),
        (
            {"labels": label_file(np.array([3, 0, 9, 10, 1, 255, 8], np.uint8))},
            "labels-idx1-ubyte holds the label 10 at position 3, outside 0 to 9: replace",
        ),
    ],
)
def test_bad_idx_files(tmp_path: Path, replaced: dict[str, bytes], message: str) -> None:
    write_pair(tmp_path, images=replaced.get("images"), labels=replaced.get("labels"))
    with pytest.raises(ValueError, match=message):
        datasets.load("mnist", folder=tmp_path)


def cut(packed: bytes) -> bytes:
    return packed[: len(packed) * 2 // 3]


def cut_before_checksum(packed: bytes) -> bytes:
    return packed[:-8]


def flip(packed: bytes) -> bytes:
    """Change the stored checksum: all of the content unpacks, and only the sum tells."""
    return packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:]


def garble(packed: bytes) -> bytes:
    """Spoil the header of the first block, right after the 10 bytes of the gzip header."""
    return packed[:10] + b"\xff" * 4 + packed[14:]


def no_gzip(packed: bytes) -> bytes:
    return gzip.decompress(packed)


@pytest.mark.parametrize("damage", [cut, cut_before_checksum, flip, garble, no_gzip])
def test_damaged_gzip_file(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    write_pair(tmp_path, ".gz")
    path = tmp_path / f"{TRAIN_IMAGES}.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match="ubyte.gz is truncated, damaged or no gzip.*replace it"):
        datasets.load("mnist", folder=tmp_path)


def no_tar(packed: bytes) -> bytes:
    return gzip.compress(b"no tar archive " * 100)


@pytest.mark.parametrize("damage", [cut, cut_before_checksum, flip, garble, no_gzip, no_tar])
def test_damaged_cifar_archive(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    (tmp_path / ARCHIVE).write_bytes(damage(cifar_archive()))
    with pytest.raises(ValueError, match=f"{ARCHIVE} is truncated, damaged or no .*replace it"):
        datasets.load("cifar10", folder=tmp_path)


def test_cifar_archive_that_lacks_a_batch(tmp_path: Path) -> None:
    files = {file: RECORDS[0].tobytes() for file in BATCHES if file != "data_batch_4.bin"}
    (tmp_path / ARCHIVE).write_bytes(archive(files))
    with pytest.raises(ValueError, match=f"{ARCHIVE} lacks data_batch_4.bin: replace"):
        datasets.load("cifar10", folder=tmp_path)


@pytest.mark.parametrize("size", [0, 3072, 6145])
@pytest.mark.parametrize("packed", [False, True])
def test_cifar_file_of_odd_size(tmp_path: Path, size: int, packed: bool) -> None:
    if packed:
        files = {file: RECORDS[0].tobytes() for file in BATCHES} | {BATCHES[1]: bytes(size)}
        (tmp_path / ARCHIVE).write_bytes(archive(files))
    else:
        write_batches(tmp_path)
        (tmp_path / BATCHES[1]).write_bytes(bytes(size))
    with pytest.raises(ValueError, match=f"data_batch_2.bin.* holds {size} bytes.*3073.*replace"):
        datasets.load("cifar10", folder=tmp_path)


def test_cifar_label_out_of_range(tmp_path: Path) -> None:
    write_batches(tmp_path)
    records = RECORDS[4].copy()
    records[1, 0] = 77
    (tmp_path / BATCHES[4]).write_bytes(records.tobytes())
    with pytest.raises(ValueError, match="data_batch_5.bin holds the label 77 at position 1, out"):
        datasets.load("cifar10", folder=tmp_path)


@pytest.mark.parametrize("other", [("mnist", "train"), ("fashion_mnist", "test")])
def test_files_of_another_set_are_recognised(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, other: tuple[str, str]
) -> None:
    monkeypatch.setitem(datasets._KNOWN_LABELS, zlib.crc32(label_file()), other)
    write_pair(tmp_path)
    message = f"{TRAIN_LABELS} holds the labels of {' '.join(other)}, not of fashion_mnist train"
    with pytest.raises(ValueError, match=f"{message}: .*keep each in a folder"):
        datasets.load("fashion_mnist", folder=tmp_path)


# Downloads


class Server:
    """Answers with ``files`` (path to content) and notes the paths that were asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.announced_too_much = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                content = outer.files.get(self.path)
                if content is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(content) + outer.announced_too_much))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/"
        self.thread = threading.Thread(
            target=self.http.serve_forever, kwargs={"poll_interval": 0.02}
        )
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture
def closed_url() -> str:
    """Find an address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/"


PACKED = {
    f"{TRAIN_IMAGES}.gz": gzip.compress(image_file(), mtime=0),
    f"{TRAIN_LABELS}.gz": gzip.compress(label_file(), mtime=0),
}


def offer(name: str, files: dict[str, bytes], *mirrors: str) -> None:
    sums = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
    datasets._SOURCES[name] = datasets._Source(mirrors, sums)


def cached(tmp_path: Path) -> dict[str, bytes]:
    """Every file in the cache, temporary ones included."""
    return {
        path.name: path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("variable", [None, ""])
def test_download_is_kept_and_used_offline(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: Server, variable: str | None
) -> None:
    if variable is not None:
        monkeypatch.setenv("JAXEXPR_DATA", variable)  # empty: no folder is named
    server.files = {f"/a/{file}": content for file, content in PACKED.items()}
    offer("fashion_mnist", PACKED, f"{server.url}a/")
    assert_made_images(datasets.load("fashion_mnist"))
    assert server.asked == list(server.files)
    server.files = {}
    assert_made_images(datasets.load("fashion_mnist"))
    assert len(server.asked) == 2
    assert cached(tmp_path) == PACKED
    # The cache has the layout of a folder that a user may name.
    assert_made_images(datasets.load("fashion_mnist", folder=tmp_path / "cache" / "jaxexpr"))


def test_cifar_download(tmp_path: Path, server: Server) -> None:
    content = cifar_archive()
    server.files = {f"/{ARCHIVE}": content}
    offer("cifar10", {ARCHIVE: content}, server.url)
    assert_made_records(datasets.load("cifar10"))
    assert datasets.load("cifar10", "test").labels.tolist() == [4, 5]
    assert server.asked == [f"/{ARCHIVE}"]


@pytest.mark.parametrize("fault", ["absent", "altered", "unreachable"])
def test_second_mirror_mends_the_first(server: Server, closed_url: str, fault: str) -> None:
    server.files = {f"/b/{file}": content for file, content in PACKED.items()}
    if fault == "altered":
        server.files |= {f"/a/{file}": b"<html>please log in</html>" for file in PACKED}
    first = closed_url if fault == "unreachable" else f"{server.url}a/"
    offer("mnist", PACKED, first, f"{server.url}b/")
    assert_made_images(datasets.load("mnist"))


def test_unreachable_mirrors_are_named(tmp_path: Path, server: Server, closed_url: str) -> None:
    offer("mnist", PACKED, closed_url, f"{server.url}a/")
    file = f"{TRAIN_IMAGES}.gz"
    tried = f"{closed_url}{file} .*{server.url}a/{file} .*404"
    with pytest.raises(ConnectionError, match=f"{file} of mnist could.*{tried}.*JAXEXPR_DATA"):
        datasets.load("mnist")
    assert cached(tmp_path) == {}


@pytest.mark.parametrize("other_mirror", [False, True])
def test_altered_download_is_refused_and_not_kept(
    tmp_path: Path, server: Server, closed_url: str, other_mirror: bool
) -> None:
    altered = PACKED[f"{TRAIN_LABELS}.gz"] + b"x"
    server.files = {f"/{file}": content for file, content in PACKED.items()}
    server.files[f"/{TRAIN_LABELS}.gz"] = altered
    offer("mnist", PACKED, *([closed_url] if other_mirror else []), server.url)
    expected = hashlib.sha256(PACKED[f"{TRAIN_LABELS}.gz"]).hexdigest()
    found = hashlib.sha256(altered).hexdigest()
    message = f"{TRAIN_LABELS}.gz of mnist .*{expected}.*{server.url}.*{found}.*set JAXEXPR_DATA"
    with pytest.raises(ValueError, match=message):
        datasets.load("mnist")
    assert list(cached(tmp_path)) == [f"{TRAIN_IMAGES}.gz"]


def test_interrupted_download_leaves_nothing(tmp_path: Path, server: Server) -> None:
    server.files = {f"/{file}": content for file, content in PACKED.items()}
    server.announced_too_much = 1000
    offer("mnist", PACKED, server.url)
    with pytest.raises(ConnectionError, match="could not be downloaded.*set JAXEXPR_DATA"):
        datasets.load("mnist")
    assert cached(tmp_path) == {}
    server.announced_too_much = 0
    assert_made_images(datasets.load("mnist"))


def test_damaged_cache_is_fetched_again(tmp_path: Path, server: Server) -> None:
    server.files = {f"/{file}": content for file, content in PACKED.items()}
    offer("mnist", PACKED, server.url)
    datasets.load("mnist")
    (path,) = (tmp_path / "cache").rglob(f"{TRAIN_IMAGES}.gz")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert_made_images(datasets.load("mnist"))
    assert cached(tmp_path) == PACKED and len(server.asked) == 3
    path.write_bytes(b"")
    server.files = {}
    with pytest.raises(ConnectionError, match=f"{TRAIN_IMAGES}.gz of mnist could not"):
        datasets.load("mnist")


# Real files

MNIST_COUNTS = {
    "train": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    "test": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
}
PREFIX = {"train": "train", "test": "t10k"}


def real(path: str) -> Path:
    if not (Path(REAL) / path).is_file():
        pytest.skip(f"JAXEXPR_DATA holds no {path}")
    return Path(REAL) / path


@real_files
@pytest.mark.parametrize(
    ("name", "split", "first", "mean"),
    [
        ("mnist", "train", [5, 0, 4, 1, 9], 0.1307),
        ("mnist", "test", [7, 2, 1, 0, 4], 0.1325),
        ("fashion_mnist", "train", [9, 0, 0, 3, 0], 0.2860),
        ("fashion_mnist", "test", [9, 2, 1, 1, 6], 0.2868),
    ],
)
def test_real_idx_files(name: str, split: str, first: list[int], mean: float) -> None:
    images, labels = datasets.load(name, split, folder=REAL)
    count = {"train": 60000, "test": 10000}[split]
    assert images.shape == (count, 28, 28) and images.dtype == np.float32
    assert images.min() == 0 and images.max() == 1
    assert labels[:5].tolist() == first
    balanced = [count // 10] * 10
    assert np.bincount(labels).tolist() == (MNIST_COUNTS[split] if name == "mnist" else balanced)
    with gzip.open(real(f"{name}/{PREFIX[split]}-images-idx3-ubyte.gz")) as stream:
        raw = stream.read()[16:]
    total = sum(raw)
    assert total / (255 * len(raw)) == pytest.approx(mean, abs=5e-5)  # the published mean
    assert np.rint(images * 255).sum(dtype=np.float64) == total
    last = struct.unpack("784B", raw[-784:])
    assert np.rint(images[-1].ravel() * 255).tolist() == list(last)


@real_files
def test_real_cifar10_training_images() -> None:
    images, labels = datasets.load("cifar10", folder=REAL)
    assert images.shape == (50000, 32, 32, 3) and images.dtype == np.float32
    assert images.flags.c_contiguous and labels[:5].tolist() == [6, 9, 9, 4, 1]
    assert np.bincount(labels).tolist() == [5000] * 10
    means = [float(images[..., channel].mean(dtype=np.float64)) for channel in range(3)]
    assert means == pytest.approx([0.4914, 0.4822, 0.4465], abs=5e-5)  # the published means
    with gzip.open(real("cifar10/data_batch_4.bin.gz")) as stream:
        label, *planes = struct.unpack("3073B", stream.read(3073))
    assert labels[30000] == label
    for channel in range(3):
        plane = np.rint(images[30000, :, :, channel].ravel() * 255)
        assert plane.tolist() == planes[1024 * channel : 1024 * (channel + 1)]


@real_files
def test_real_cifar10_test_images() -> None:
    data = datasets.load("cifar10", "test", folder=REAL)
    assert data.flat.shape == (10000, 3072) and data.labels[:5].tolist() == [3, 8, 8, 0, 6]
    assert np.bincount(data.labels).tolist() == [1000] * 10


@real_files
@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize(
    ("wanted", "held"), [("mnist", "fashion_mnist"), ("fashion_mnist", "mnist")]
)
def test_real_sets_are_not_taken_for_each_other(
    tmp_path: Path, wanted: str, held: str, split: str
) -> None:
    labels = f"{PREFIX[split]}-labels-idx1-ubyte.gz"
    shutil.copy(real(f"{held}/{labels}"), tmp_path / labels)
    count = {"train": 60000, "test": 10000}[split]
    blank = idx(2051, count, 28, 28, body=bytes(784 * count))
    write(tmp_path / f"{PREFIX[split]}-images-idx3-ubyte", blank)
    with pytest.raises(ValueError, match=f"the labels of {held} {split}, not of {wanted} {split}"):
        datasets.load(wanted, split, folder=tmp_path)


SUMS = {name: source.sha256 for name, source in datasets._SOURCES.items()}


@real_files
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_known_sums_are_those_of_the_real_files(name: str) -> None:
    assert len(SUMS[name]) == 4
    for file, known in SUMS[name].items():
        assert hashlib.sha256(real(f"{name}/{file}").read_bytes()).hexdigest() == known
