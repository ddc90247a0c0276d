"""What the tests of several ranks share: all of their jobs in one launch, since every process costs seconds to begin.

``python in_ranks.py FOLDER JOB…`` is one rank: it runs the jobs and leaves what each gives in ``FOLDER/JOB-RANK.pt``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock

import ranks_jobs
from handful import ranks

SIZE = 2


class Launch:
    """The outcomes of a launch: ``launch["job"]`` has one for each rank."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.size = folder, size

    def __getitem__(self, name: str) -> list[Any]:
        return [torch.load(self.folder / f"{name}-{rank}.pt", weights_only=True) for rank in range(self.size)]


def launch(folder: Path, size: int, *names: str) -> Launch:
    """Run these jobs on ``size`` ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    ranks.start(size, [__file__, str(folder), *names])
    return Launch(folder, size)


@pytest.fixture(scope="session")
def shared_launch(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    """All jobs on two ranks, once for all workers of pytest."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / "ranks"
    with FileLock(f"{folder}.lock"):
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a launch that failed
            ranks_jobs.prepare(folder, SIZE)
            launch(folder, SIZE, *ranks_jobs.JOBS)
            (folder / "done").touch()
    return Launch(folder, SIZE)


def main(folder: Path, names: list[str]) -> None:
    """One rank."""
    torch.set_num_threads(1)
    with ranks.join(threads=1, wait=300):
        for name in names:
            torch.save(ranks_jobs.JOBS[name](folder), folder / f"{name}-{ranks.rank()}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
