"""The run that tests break off: ``python killed.py FOLDER PAUSE [EPOCHS]``, begun or resumed."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import handful as hf
from graphs import make_graph
from handful.training.loop import Loop
from small import small_sage


class Slow(hf.Callback):
    """A pause in every step; ``started`` appears beside the run once it trains."""

    def __init__(self, folder: Path, pause: float) -> None:
        self.folder, self.pause = folder, pause

    def on_start(self, loop: Loop) -> None:
        self.folder.with_name(f"{self.folder.name}-started").touch()

    def on_gradient(self, loop: Loop, batch: object, loss: float, seed: int) -> None:
        time.sleep(self.pause)


def train(folder: Path, pause: float = 0.0, **changes: object) -> hf.Run:
    """Twelve epochs of three steps, a checkpoint at each evaluation, every second epoch."""
    graph = make_graph(150)
    settings = {"epochs": 12, "evaluate_every": 2, "lr": 0.01, "checkpoint_seconds": 0.0}
    records = {"out": folder, "resume": True, "callbacks": [Slow(folder, pause)]}
    return hf.fit(small_sage(graph, 3, hidden=8), graph, hf.RandomNodes(3), **{**settings, **records, **changes})


if __name__ == "__main__":
    train(Path(sys.argv[1]), float(sys.argv[2]))
