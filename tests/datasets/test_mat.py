from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from handful.datasets.mat import read_mat
from handful.errors import DatasetError, HandfulError

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


@pytest.mark.parametrize("packed", [False, True])
def test_every_byte_changed_and_every_length(tmp_path: Path, packed: bool) -> None:
    """scipy's reader ends the process with a signal on some of these."""
    path = tmp_path / "a.mat"
    savemat(path, {"edge_index": ARRAYS["edge_index"], "label": ARRAYS["label"]}, do_compression=packed)
    whole = path.read_bytes()
    for at in range(120, len(whole)):
        for changed in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :]):
            path.write_bytes(changed)
            with suppress(HandfulError):
                read_mat(path)


def test_files_of_other_kinds(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    for content in (b"", b"text", b"\x89HDF\r\n" + bytes(300)):
        path.write_bytes(content)
        with pytest.raises(DatasetError, match=r"is not a whole \.mat file"):
            read_mat(path)
    with pytest.raises(DatasetError, match="No such file"):
        read_mat(tmp_path / "none.mat")
