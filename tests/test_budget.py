from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from handful.budget import anonymous, as_bytes, free_memory, require_disk, require_memory, room, show_size
from handful.errors import HandfulError


@pytest.mark.parametrize(
    ("text", "count"), [("8GiB", 8 << 30), ("8gib", 8 << 30), ("0.5 MiB", 1 << 19), ("2kB", 2000), ("7", 7), (9, 9)]
)
def test_sizes_as_people_write_them(text: int | str, count: int) -> None:
    assert as_bytes(text) == count


@pytest.mark.parametrize("text", ["", "GiB", "8 Gib b", "-1GiB", "1e9", "nan", True, 0, "0GiB", "99999999TiB", None])
def test_what_is_no_size_is_refused(text: int | str) -> None:
    with pytest.raises(HandfulError, match="a size"):
        as_bytes(text)


def test_anonymous_memory_grows_with_arrays_and_not_with_maps(tmp_path: Path) -> None:
    size = 64 << 20
    np.zeros(size, np.uint8).tofile(tmp_path / "file")
    before = anonymous()
    mapped = np.memmap(tmp_path / "file", np.uint8, "r")
    assert int(mapped.sum()) == 0
    assert anonymous() - before < size // 4
    held = np.ones(size, np.uint8)
    assert anonymous() - before > size * 3 // 4
    assert held[0] == 1


def test_a_budget_says_what_would_do() -> None:
    left = room("100GiB", 1 << 20, "it")
    assert (99 << 30) - (4 << 30) < left < 100 << 30
    with pytest.raises(HandfulError, match=r"it needs 1.0 GiB beside .* that this process holds.*: give at least 1\."):
        room("1GiB", 1 << 30, "it")


def test_a_disk_without_room(tmp_path: Path) -> None:
    with pytest.raises(HandfulError, match=r"all takes 1,024.0 TiB of disk, and .* has room for"):
        require_disk(2**50, tmp_path / "not" / "there", "all")
    assert show_size(2**40) == "1.0 TiB"


def test_more_than_there_is_is_refused() -> None:
    free = free_memory()
    assert free is not None
    require_memory(free // 2, "half")
    with pytest.raises(HandfulError, match=r"all of it takes .* of memory"):
        require_memory(10 * free, "all of it")


@pytest.mark.slow
def test_the_limits_of_the_process_count() -> None:
    code = (
        "import resource\nfrom handful.budget import free_memory\n"
        f"resource.setrlimit(resource.RLIMIT_DATA, ({1 << 33}, {1 << 33}))\nprint(free_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) < 1 << 33
