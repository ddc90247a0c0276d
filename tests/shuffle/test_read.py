from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from handful.shuffle import read
from handful.shuffle.read import NEAR, fetch, fetch_rows


def test_files_and_memory_can_be_fetched(tmp_path: Path) -> None:
    array = np.arange(100_000, dtype=np.int64).reshape(-1, 10)
    np.save(tmp_path / "a.npy", array)
    for x in (array, np.load(tmp_path / "a.npy", mmap_mode="c")):
        assert fetch(x, 10, 9_000) == 8_990 * 80
        assert fetch(x, 5, 5) == 0
        np.testing.assert_array_equal(x, array)


def test_near_rows_are_read_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[tuple[int, int]] = []
    monkeypatch.setattr(read, "fetch", lambda array, lo, hi: runs.append((lo, hi)) or hi - lo)
    x, far = np.empty((100_000, 4), np.int16), NEAR // 8 + 1
    assert fetch_rows(x, np.array([0, 3, 3 + far, 4 + far, 4 + 3 * far])) == 4 + 2 + 1
    assert runs == [(0, 4), (3 + far, 5 + far), (4 + 3 * far, 5 + 3 * far)]
    assert fetch_rows(x, np.empty(0, np.int64)) == 0
