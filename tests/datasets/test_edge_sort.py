from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.datasets.edge_sort import EdgeSort
from handful.errors import DatasetError, GraphError
from handful.kernels.csr import coo_to_csr, simplify
from handful.kernels.threads import get_threads

SIMPLE = {"both": True, "loops": False, "repeated": False}


def in_memory(
    v: np.ndarray, u: np.ndarray, n: int, both: bool, loops: bool, repeated: bool
) -> tuple[np.ndarray, np.ndarray]:
    ends = (np.concatenate([v, u]), np.concatenate([u, v])) if both else (v, u)
    indptr, indices, _ = coo_to_csr(*ends, n, n)
    return simplify(indptr, indices, drop_loops=not loops, merge=not repeated)[:2]


def sorted_in(
    folder: Path, v: np.ndarray, u: np.ndarray, n: int, room: int, **how: bool
) -> tuple[np.ndarray, np.ndarray]:
    sort = EdgeSort(folder, n, room, **how)
    for lo in range(0, len(v), sort.block):
        sort.add(v[lo : lo + sort.block], u[lo : lo + sort.block])
    counts, sources = zip(*sort.rows(), strict=True)
    assert not list(folder.iterdir())
    return np.concatenate([[0], np.cumsum(np.concatenate(counts))]), np.concatenate(sources)


@given(
    st.integers(1, 300), st.integers(0, 300), st.integers(0, 25_000), st.integers(0, 2**32 - 1),
    st.fixed_dictionaries({name: st.booleans() for name in SIMPLE}),
)  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_the_rows_are_those_of_a_sort_in_memory(n: int, edges: int, more: int, seed: int, how: dict[str, bool]) -> None:
    """Small rooms cut buckets again and again; a hub makes some of them large."""
    room = 2500 * (get_threads() + 1) + more  # every row fits: one has 600 sources at most
    rng = np.random.default_rng(seed)
    v, u = rng.integers(0, n, (2, edges)).astype(np.int32)
    v[: edges // 3] = rng.integers(0, n)
    with TemporaryDirectory() as folder:
        indptr, indices = sorted_in(Path(folder), v, u, n, room, **how)
    expected = in_memory(v, u, n, **how)
    assert np.array_equal(indptr, expected[0])
    assert np.array_equal(indices, expected[1])
    assert indices.dtype == np.int32


def test_a_row_that_does_not_fit_and_an_edge_that_is_none(tmp_path: Path) -> None:
    u = np.arange(3000)
    with pytest.raises(DatasetError, match=r"the edges of node 5 alone take 11.7 KiB to sort.* more memory"):
        sorted_in(tmp_path, np.full(3000, 5), u, 3000, 10_000, **SIMPLE)
    sort = EdgeSort(tmp_path, 10, 1 << 20, **SIMPLE)
    sort.add(u[:4], u[:4])
    with pytest.raises(GraphError, match="edge 5 joins 0 and 10: node ids run from 0 to 9"):
        sort.add(np.array([0, 0]), np.array([1, 10]))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no disk that is always full")
def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    sort = EdgeSort(tmp_path, 4, 1 << 20, **SIMPLE)
    (tmp_path / "edges-1").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left on device: '.*edges-1'"):
        sort.add(np.array([1]), np.array([2]))
