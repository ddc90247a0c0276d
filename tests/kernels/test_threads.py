from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from handful.kernels import threads
from handful.kernels.threads import even_ranges, get_threads, kernel, over_rows, prefetch, row_ranges, run, set_threads


@pytest.fixture
def _restored() -> Iterator[None]:
    before = get_threads()
    yield
    set_threads(before)


def assert_cover(ranges: list[tuple[int, int]], count: int) -> None:
    """The ranges follow each other from 0 to ``count``, and none is empty."""
    assert [i for lo, hi in ranges for i in range(lo, hi)] == list(range(count))
    assert all(hi > lo for lo, hi in ranges)


@given(st.integers(0, 100), st.integers(1, 20))
def test_even_ranges(count: int, pieces: int) -> None:
    ranges = even_ranges(count, pieces)
    assert_cover(ranges, count)
    assert len(ranges) == min(count, pieces)
    sizes = [hi - lo for lo, hi in ranges] or [0]
    assert max(sizes) - min(sizes) <= 1


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 8))
def test_row_ranges_share_the_work(degree: list[int], pieces: int) -> None:
    indptr = np.concatenate([[0], np.cumsum(degree)])
    ranges = row_ranges(indptr, pieces)
    assert_cover(ranges, len(degree))
    assert len(ranges) <= pieces
    fair = (sum(degree) + len(degree)) / pieces
    for lo, hi in ranges:
        assert sum(degree[lo:hi]) + hi - lo <= fair + max(degree) + 1 or pieces == 1


@pytest.mark.usefixtures("_restored")
@pytest.mark.parametrize("count", [1, 3])
def test_run_returns_in_order_and_uses_the_pool(count: int) -> None:
    set_threads(count)
    seen: list[str] = []

    def work(lo: int, hi: int, scale: int) -> int:
        seen.append(threading.current_thread().name)
        return scale * (hi - lo)

    assert run(work, [(0, 1), (1, 3), (3, 6)], 10) == [10, 20, 30]
    assert seen.count(threading.current_thread().name) == 1
    assert sum(name.startswith("handful-kernel") for name in seen) == 2
    assert run(work, [], 10) == []


@pytest.mark.usefixtures("_restored")
def test_an_error_in_a_thread_reaches_the_caller() -> None:
    set_threads(2)

    def work(lo: int, hi: int) -> None:
        if lo:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run(work, [(0, 1), (1, 2)])


@pytest.mark.usefixtures("_restored")
def test_over_rows_covers_all_rows_and_splits_large_work_only() -> None:
    set_threads(3)
    for degree, pieces in ((np.ones(10, int), 1), (np.full(9_000, 10), 3)):
        indptr = np.concatenate([[0], np.cumsum(degree)])
        ranges = over_rows(lambda lo, hi, _: (lo, hi), indptr)
        assert len(ranges) == pieces
        assert [lo for lo, _ in ranges] == [0, *(hi for _, hi in ranges[:-1])]
        assert ranges[-1][1] == len(degree)


@pytest.mark.usefixtures("_restored")
def test_torch_gets_the_same_number_of_threads() -> None:
    set_threads(2)
    assert (get_threads(), torch.get_num_threads()) == (2, 2)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        set_threads(0)
    assert get_threads() == 2


def test_a_kernel_keeps_nan_and_says_once_that_it_compiles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(threads, "_announced", False)
    monkeypatch.setattr(threads.glob, "glob", lambda _: [])  # no machine code on disk

    def total(x: Any) -> Any:
        out = 0.0
        for value in x:
            out += value
        return out

    compiled = kernel(total)
    assert np.isnan(compiled(np.array([1.0, np.nan])))
    assert compiled(np.array([1.0, np.inf])) == np.inf
    assert compiled(np.array([1, 2])) == 3
    assert capsys.readouterr().err.count("compiling its kernels") == 1


COMPILED_BESIDE_OTHERS = """
from handful.kernels import subgraph
import numpy as np
subgraph.counts(np.zeros(5, np.uint8), 2)
print(sum(subgraph.count_parts.stats.cache_misses.values()))
"""


@pytest.mark.slow
def test_of_several_processes_one_compiles(tmp_path: Path) -> None:
    command = [sys.executable, "-c", COMPILED_BESIDE_OTHERS]
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    started = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    misses = sorted(int(process.communicate()[0]) for process in started)
    assert misses == [0, 0, misses[2]]
    assert misses[2] >= 1


def test_a_lock_that_cannot_be_had_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "LONGEST_COMPILATION", 0.0)
    with threads._held(str(tmp_path / "one")), threads._held(str(tmp_path / "one")):
        pass
    with threads._held(str(tmp_path / "one" / "in a file")):
        pass


@numba.njit
def _sum(x: Any) -> Any:
    total = x.dtype.type(0)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            prefetch(x, min(i + 1, x.shape[0] - 1), j)
            total += x[i, j]
    return total


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint16])
def test_the_hint_compiles_to_the_instruction_and_changes_nothing(dtype: type) -> None:
    x = np.arange(24, dtype=dtype).reshape(4, 6)
    assert _sum(x) == x.sum()
    assert _sum(x[:, ::2]) == x[:, ::2].sum()
    assert all("llvm.prefetch" in code for code in _sum.inspect_llvm().values())


IDLE = """
import sys, threading
for name in {order}:
    __import__(name)
import torch, handful.kernels.threads
held = [one.name for one in threading.enumerate()].count("handful-idle")
assert held == {held}, held
assert torch.ones(1 << 20).add(1).sum() == 1 << 21  # torch still works
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="torch has GNU OpenMP on Linux")
@pytest.mark.parametrize(
    ("order", "setting", "held"),
    [
        (["handful", "torch"], {}, 0),
        (["torch", "handful"], {}, 1),
        (["torch", "handful"], {"OMP_WAIT_POLICY": "ACTIVE"}, 0),
        (["torch", "handful"], {"GOMP_SPINCOUNT": "1000"}, 0),
    ],
)
def test_more_threads_than_cores_are_held_where_torch_came_first(
    order: list[str], setting: dict[str, str], held: int
) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")} | setting
    code = IDLE.format(order=order, held=held)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
