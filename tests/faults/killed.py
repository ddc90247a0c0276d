"""The run that tests break off: ``python killed.py FOLDER PAUSE [HOLD]``, begun or resumed."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import handful as hf
from graphs import make_graph
from handful.training.loop import Loop
from small import small_sage


def beside(folder: Path, event: str) -> Path:
    """The file beside the run that says that ``event`` has happened."""
    return folder.with_name(f"{folder.name}-{event}")


class Slow(hf.Callback):
    """A pause in every step. The file ``started`` appears once the run trains.

    After ``hold`` epochs the run writes the file ``held`` and waits for the file ``go``.
    """

    def __init__(self, folder: Path, pause: float, hold: int | None = None) -> None:
        self.folder, self.pause, self.hold = folder, pause, hold

    def on_start(self, loop: Loop) -> None:
        beside(self.folder, "started").touch()

    def on_gradient(self, loop: Loop, batch: object, loss: float, seed: int) -> None:
        time.sleep(self.pause)
        if loop.epoch == self.hold:
            beside(self.folder, "held").touch()
            while not beside(self.folder, "go").exists():
                time.sleep(0.01)


def train(folder: Path, pause: float = 0.0, hold: int | None = None, **changes: object) -> hf.Run:
    """Twelve epochs of three steps, a checkpoint at each evaluation, every second epoch."""
    graph = make_graph(150)
    settings = {"epochs": 12, "evaluate_every": 2, "lr": 0.01, "checkpoint_seconds": 0.0}
    records = {"out": folder, "resume": True, "callbacks": [Slow(folder, pause, hold)]}
    return hf.fit(small_sage(graph, 3, hidden=8), graph, hf.RandomNodes(3), **{**settings, **records, **changes})


if __name__ == "__main__":
    train(Path(sys.argv[1]), float(sys.argv[2]), *map(int, sys.argv[3:]))
