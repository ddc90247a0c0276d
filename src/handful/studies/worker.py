"""The process that runs one job: ``python -m handful.studies.worker FOLDER THREADS PARENT BEGAN``."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from handful.datasets import load
from handful.errors import DivergedError, HandfulError
from handful.experiment import Experiment
from handful.files import write_json
from handful.graph import Graph
from handful.kernels.threads import set_threads
from handful.samplers import make_sampler
from handful.studies.executors import DIVERGED
from handful.studies.jobs import STARTUP
from handful.training.callbacks import Callback
from handful.training.loop import Loop
from handful.training.record import read_config

FEW = 64
"""The number of nodes of the graph that ``warm_up`` uses."""
SMALL: dict[str, dict[str, Any]] = {
    "rns": {"parts": 2},
    "neighbor": {"batch_size": FEW // 4},
    "saint": {"roots": FEW // 8},
    "ladies": {"batch_size": FEW // 4},
}
"""The sampler options for the graph that ``warm_up`` uses."""


def main(folder: Path, threads: int, began: float) -> None:
    """Run or resume the experiment in ``folder/config.json``. Kernels are compiled before the timing of the run starts.

    ``began`` is the start time of the process. The time from ``began`` to the first epoch is written to the file
    ``STARTUP``.
    """
    set_threads(threads)
    experiment = Experiment.from_json(read_config(folder / "config.json"))
    experiment.run(folder, resume=True, callbacks=[WarmUp(experiment, folder / STARTUP, began)])


class WarmUp(Callback):
    """Calls ``warm_up`` once per process: in its first run, before the first epoch and before the timing starts.

    The time since ``began``, in seconds, is written to the file ``startup``. It includes the time for imports, data,
    METIS and kernels. A resumed job keeps the value of its first process.
    """

    def __init__(self, experiment: Experiment, startup: Path, began: float) -> None:
        self.experiment: Experiment | None = experiment
        self.startup, self.began = startup, began

    def on_start(self, loop: Loop) -> None:
        if self.experiment is not None:
            warm_up(self.experiment, loop.graph)
            if not self.startup.exists():
                write_json(self.startup, {"seconds": time.time() - self.began})
        self.experiment = None


def warm_up(experiment: Experiment, graph: Graph) -> None:
    """Train and evaluate for one epoch on a small graph that has the same kind of features and edges as ``graph``.

    This compiles the kernels of ``experiment``, or loads them from numba's cache.
    """
    sampler, width = experiment.sampler, graph.num_features
    few = load(f"synthetic?nodes={FEW}&degree=4&classes=2&features={width}").replace(undirected=graph.undirected)
    if few.x is not None and graph.x is not None:
        few = few.replace(x=few.x.to(graph.x.dtype))
    if graph.edge_weight is not None:
        few = few.replace(edge_weight=torch.ones(few.num_edges))
    # ClusterGCN uses the same kernels as RNS, and would write the clusters of these few nodes to disk.
    name, options = ("rns", {}) if sampler.name == "cluster" else (sampler.name, sampler.options())
    small = make_sampler(name, **{**options, **SMALL.get(name, {})})
    once = experiment.with_(sampler=small, epochs=1, evaluate_every=1, task=None, metric=None, positive=None)
    with suppress(HandfulError), torch.random.fork_rng(devices=[]):  # the run reports the error
        once.fit(few.to(graph.device), seed=0)


def end_with(parent: int) -> None:
    """Make this process stop soon after the process ``parent`` ends, since an orphaned run would keep its folder
    locked.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)  # a run in training first writes its checkpoint

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    folder, threads, parent, began = sys.argv[1:]
    end_with(int(parent))
    try:
        main(Path(folder), int(threads), float(began))
    except (HandfulError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(DIVERGED if isinstance(error, DivergedError) else 2)
