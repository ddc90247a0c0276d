"""The process that runs one job: ``python -m handful.studies.worker FOLDER THREADS [PARENT]``."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from handful.errors import HandfulError
from handful.files import write_json
from handful.kernels.threads import set_threads
from handful.samplers import make_sampler
from handful.training.protocol import train_seeds
from handful.training.record import read_json


def main(folder: Path, threads: int) -> None:
    """Run what ``folder/job.json`` says, and leave ``summary.json``."""
    set_threads(threads)
    job = read_json(folder / "job.json")
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in job["sampler_options"].items()}
    summary = train_seeds(
        job["graph"],
        job["model"],
        job["architecture"],
        make_sampler(job["sampler"], **options),
        job["settings"],
        seeds=job["seeds"],
        split=job["split"],
        root=job["root"],
        device=job["device"],
        out=folder,
        resume=True,
    )
    write_json(folder / "summary.json", summary.to_json())


def end_with(parent: int) -> None:
    """Stop soon after the process ``parent`` has ended: a run that nobody waits for keeps its folder from the next."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    if len(sys.argv) > 3:
        end_with(int(sys.argv[3]))
    try:
        main(Path(sys.argv[1]), int(sys.argv[2]))
    except HandfulError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
