"""The process that runs one job: ``python -m handful.studies.worker FOLDER THREADS [PARENT BEGAN]``."""

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
"""Nodes of the graph that ``warm_up`` trains on."""
SMALL: dict[str, dict[str, Any]] = {
    "rns": {"parts": 2},
    "neighbor": {"batch_size": FEW // 4},
    "saint": {"roots": FEW // 8},
    "ladies": {"batch_size": FEW // 4},
}
"""Options of samplers for so few nodes."""


def main(folder: Path, threads: int, began: float | None = None) -> None:
    """Run the experiment of ``folder/config.json`` there, or go on with it; kernels compile before its clock starts.

    ``began`` is when the process was started; how long it took from there to the first epoch is kept in ``STARTUP``.
    """
    set_threads(threads)
    experiment = Experiment.from_json(read_config(folder / "config.json"))
    experiment.run(folder, resume=True, callbacks=[WarmUp(experiment, folder / STARTUP, began)])


class WarmUp(Callback):
    """Calls ``warm_up`` before the first epoch of the first run of a process, when no clock runs yet.

    The seconds since ``began`` go to the file ``startup``: imports, data, METIS and kernels. A job that goes on in
    another process keeps those of its first.
    """

    def __init__(self, experiment: Experiment, startup: Path | None = None, began: float | None = None) -> None:
        self.experiment: Experiment | None = experiment
        self.startup, self.began = startup, began

    def on_start(self, loop: Loop) -> None:
        if self.experiment is not None:
            warm_up(self.experiment, loop.graph)
            if self.startup is not None and self.began is not None and not self.startup.exists():
                write_json(self.startup, {"seconds": time.time() - self.began})
        self.experiment = None


def warm_up(experiment: Experiment, graph: Graph) -> None:
    """Train and evaluate once on a few nodes with features and edges like those of ``graph``.

    So the kernels of ``experiment`` are compiled, or loaded from numba's cache, before anything is timed.
    """
    sampler, width = experiment.sampler, graph.num_features
    dtype = None if graph.x is None else graph.x.dtype
    kind = {None: "", torch.float16: "&half=1", torch.bfloat16: "&bfloat16=1"}.get(dtype, "")
    few = load(f"synthetic?nodes={FEW}&degree=4&classes=2&features={width}{kind}").replace(undirected=graph.undirected)
    if graph.edge_weight is not None:
        few = few.replace(edge_weight=torch.ones(few.num_edges))
    # ClusterGCN cuts its batches with the kernels of RNS, and would keep the clusters of these few nodes on disk.
    name, options = ("rns", {}) if sampler.name == "cluster" else (sampler.name, sampler.options())
    small = make_sampler(name, **{**options, **SMALL.get(name, {})})
    once = experiment.with_(sampler=small, epochs=1, evaluate_every=1, task=None, metric=None, positive=None)
    with suppress(HandfulError), torch.random.fork_rng(devices=[]):  # what is wrong, the run itself will say
        once.fit(few.to(graph.device), seed=0)


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
        main(Path(sys.argv[1]), int(sys.argv[2]), *map(float, sys.argv[4:]))
    except (HandfulError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(DIVERGED if isinstance(error, DivergedError) else 2)
