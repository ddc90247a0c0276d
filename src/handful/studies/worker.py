"""The process that runs one job: ``python -m handful.studies.worker FOLDER THREADS [PARENT]``."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from handful.errors import DivergedError, HandfulError
from handful.experiment import Experiment
from handful.kernels.threads import set_threads
from handful.training.record import read_config

DIVERGED = 3
"""The exit code of a run that diverged before its first evaluation; all other mistakes have 2."""


def main(folder: Path, threads: int) -> None:
    """Run the experiment of ``folder/config.json`` there, or go on with it."""
    set_threads(threads)
    Experiment.from_json(read_config(folder / "config.json")).run(folder, resume=True)


def end_with(parent: int) -> None:
    """Stop soon after the process ``parent`` has ended: a run that nobody waits for would keep its folder locked."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)  # a run in training first writes its checkpoint

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    if len(sys.argv) > 3:
        end_with(int(sys.argv[3]))
    try:
        main(Path(sys.argv[1]), int(sys.argv[2]))
    except (HandfulError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(DIVERGED if isinstance(error, DivergedError) else 2)
