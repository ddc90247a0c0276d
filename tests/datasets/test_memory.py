from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from handful.datasets.memory import free_memory, require_memory
from handful.errors import HandfulError


def test_more_than_there_is_is_refused() -> None:
    free = free_memory()
    assert free is not None
    require_memory(free // 2, "half")
    with pytest.raises(HandfulError, match=r"all of it takes .* GiB of memory, and .* GiB are free"):
        require_memory(10 * free, "all of it")


@pytest.mark.slow
def test_the_limits_of_the_process_count() -> None:
    code = (
        "import resource\nfrom handful.datasets.memory import free_memory\n"
        f"resource.setrlimit(resource.RLIMIT_DATA, ({1 << 33}, {1 << 33}))\nprint(free_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) < 1 << 33
    assert int(done.stdout) <= _total()


def _total() -> int:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    return 1024 * int(line.split()[1])


def test_this_process_has_no_limit_of_its_own() -> None:
    """Else the tests above would measure that."""
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY
