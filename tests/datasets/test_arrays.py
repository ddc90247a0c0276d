from __future__ import annotations

import io
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from handful.datasets.arrays import ArrayFile, read_mat, whole
from handful.datasets.registry import load
from handful.errors import DatasetError, GraphError, HandfulError

EDGES = np.array([[0, 1, 2], [1, 2, 0]])


def npy(array: np.ndarray, shape: str | None = None) -> bytes:
    """A ``.npy`` file; with ``shape``, its header tells that instead."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    data = out.getvalue()
    if shape is None:
        return data
    header = data[10:128].decode()
    old = header[header.index("'shape': ") + 9 : header.index("), }") + 1]
    return data[:10] + header.replace(old, shape, 1).rstrip().ljust(117).encode() + b"\n" + data[128:]


def archive(path: Path, method: int = zipfile.ZIP_DEFLATED, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def test_what_numpy_wrote(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6).reshape(2, 3),
        "b": np.array(["x", "yz"]),
        "c": np.asfortranarray(np.eye(3)),
        "d": np.array(5),
    }
    for write in (np.savez, np.savez_compressed):
        write(tmp_path / "a.npz", **arrays)
        found = ArrayFile(tmp_path / "a.npz")
        assert list(found) == list(arrays)
        assert all(np.array_equal(found[name], array) for name, array in arrays.items())


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression(tmp_path: Path, method: int) -> None:
    assert load(archive(tmp_path / "g.npz", method, edge_index=npy(EDGES))).num_edges == 3


def test_big_endian_numbers_are_the_same_graph(tmp_path: Path) -> None:
    for order in "<>":
        x, y, edges = np.eye(3).astype(f"{order}f4"), np.array([0, 1, 1], f"{order}i8"), EDGES.astype(f"{order}i4")
        np.savez(tmp_path / f"{ord(order)}.npz", edge_index=edges, x=x, y=y)
    little, big = (load(tmp_path / f"{ord(order)}.npz", split="random:100/0/0") for order in "<>")
    assert little.replace(name="").identity() == big.replace(name="").identity()


def test_an_array_that_nobody_asks_for_is_not_unpacked(tmp_path: Path) -> None:
    zeros = npy(np.zeros(0, np.uint8), "(33554432,)") + bytes(1 << 25)
    path = archive(tmp_path / "g.npz", edge_index=npy(EDGES), unused=zeros, odd=b"no array at all")
    assert path.stat().st_size < 1 << 20
    del zeros
    tracemalloc.start()
    assert load(path).num_nodes == 3
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 24


@pytest.mark.parametrize(
    "content",
    [
        npy(EDGES, "(2, 10000000000000)"),
        npy(EDGES, "(2, 2)"),
        npy(EDGES, "(-1, -6)"),
        npy(EDGES)[:-1],
        npy(np.array([[{}, 1], [2, 3]], object)),
        npy(np.zeros(3, [("a", "<i4"), ("b", "<f4")])),
        npy(EDGES.astype("M8[s]")),
        npy(EDGES.astype(complex)),
        b"\x93NUMPY\x07\x00",
        b"",
    ],
    ids=["too long", "too short", "negative", "cut", "objects", "records", "times", "complex", "version", "empty"],
)
def test_an_array_that_is_not_what_it_says(tmp_path: Path, content: bytes) -> None:
    path = archive(tmp_path / "g.npz", edge_index=content)
    with pytest.raises(DatasetError, match=r"g\.npz: array 'edge_index'"):
        load(path)


def test_a_member_that_says_it_is_longer_than_memory(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("edge_index.npy", npy(EDGES.astype(np.uint8), "(2, 2147483648)"))
        file.filelist[0].file_size = 1 << 60
    with pytest.raises(HandfulError, match=r"array 'edge_index' takes .* of memory"):
        load(path)


@pytest.mark.parametrize(("at", "value"), [(8, 1), (10, 99)], ids=["encrypted", "of an unknown method"])
def test_a_member_that_cannot_be_unpacked(tmp_path: Path, at: int, value: int) -> None:
    path = archive(tmp_path / "g.npz", edge_index=npy(EDGES))
    whole_file = bytearray(path.read_bytes())
    whole_file[whole_file.index(b"PK\x01\x02") + at] = value
    path.write_bytes(whole_file)
    with pytest.raises(DatasetError, match="array 'edge_index' cannot be read"):
        load(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"num_nodes": np.array(5 * 10**8)}, "500,000,000 nodes are too many for 3 edges"),
        ({"edge_index": EDGES + 5 * 10**8}, "500,000,003 nodes are too many for 3 edges"),
        ({"edge_index": EDGES.astype(float)}, "edge_index must hold integers, got float64"),
        ({"num_nodes": np.array(3.5)}, "num_nodes must be a whole number"),
        ({"num_nodes": np.array([3, 3])}, "num_nodes must be one whole number"),
        ({"y": np.array([0, 1, 2**62])}, "classes are too many for 3 nodes"),
        ({"y": np.array([0, 1, 2**64 - 1], np.uint64)}, r"y\[2\] is"),
        ({"y": np.array([0, 1, np.inf])}, r"y\[2\] is inf"),
        ({"y": np.array([0, 1, 2.0**53])}, r"y\[2\] is"),
        ({"y": np.arange(3), "num_classes": np.array(2**40)}, "classes are too many for 3 nodes"),
        ({"class_names": np.array("abc")}, "class_names must be a list of names"),
    ],
)
def test_sizes_that_no_array_bears_out(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "g.npz", **{"edge_index": EDGES, **arrays})
    tracemalloc.start()
    with pytest.raises(GraphError, match=message):
        load(tmp_path / "g.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 24


def test_whole_numbers_are_exact() -> None:
    assert whole(np.array([3.0, -1.0]), "a").tolist() == [3, -1]
    assert whole(np.array([2**63 - 1], np.uint64), "a").tolist() == [2**63 - 1]
    for values in ([0.5], [np.inf], [np.nan], [2.0**53], np.array([2**63], np.uint64), np.array(["1"])):
        with pytest.raises(DatasetError, match="must be whole numbers, and the first that is not is"):
            whole(np.asarray(values), "the ids")


# -- MATLAB 5 -------------------------------------------------------------------------------------------------------

ARRAYS = {
    "edge_index": np.array([[0, 1, 2], [3, 4, 5]]),
    "a": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "node_feat": np.linspace(-1, 1, 10).reshape(5, 2),
    "label": np.array([[1, 0, -1]], np.int8),
    "wide": np.array([[2**63 - 1, -(2**63)]]),
    "none": np.zeros((0, 3)),
    "flags": np.array([[1, 2, 3]], np.uint16),
}


@pytest.mark.parametrize("packed", [False, True])
def test_what_scipy_reads_of_a_whole_file(tmp_path: Path, packed: bool) -> None:
    more = {"text": "words", "z": np.array([[1j]]), "cell": np.array([["a", 1]], object)}
    savemat(tmp_path / "a.mat", {**ARRAYS, **more}, do_compression=packed)
    found, judged = read_mat(tmp_path / "a.mat"), loadmat(tmp_path / "a.mat")
    assert set(found) == set(ARRAYS)
    for name, array in found.items():
        assert array.dtype == judged[name].dtype
        assert np.array_equal(array, judged[name])


def test_files_that_end_the_reader(tmp_path: Path) -> None:
    """Tags that are wrong, and a file that is cut short; scipy ends its process with a signal on some of these."""
    path = tmp_path / "a.mat"
    savemat(path, {"edge_index": ARRAYS["edge_index"], "label": ARRAYS["label"]})
    content = path.read_bytes()
    for changed in (content[:200], content[:144] + b"\xff" + content[145:]):
        path.write_bytes(changed)
        with suppress(DatasetError):
            read_mat(path)


def test_mat_files_of_other_kinds(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    for content in (b"text", b"\x89HDF\r\n" + bytes(300)):
        path.write_bytes(content)
        with pytest.raises(DatasetError, match=r"a\.mat cannot be read"):
            read_mat(path)
    with pytest.raises(DatasetError, match="No such file"):
        read_mat(tmp_path / "none.mat")
