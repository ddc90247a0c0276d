"""Training seconds until a validation accuracy: ``python benchmarks/time_to_accuracy.py [target] [seeds]``.

GraphSAGE 4×256 (BatchNorm, residual, dropout 0.5, Adam) on ``debian``, split ``rh``: PyG on the full graph by
``edge_index``, handful on the full graph, and handful's random nodes for several m. Every way is given its best
learning rate of ``RATES``, and validated after each epoch off the clock; linear between the last two evaluations, as
the paper's appendix has it. The ways take turns, seed by seed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import mean
from time import perf_counter

import torch
from torch import Tensor

import handful as hf
from handful.bench.pyg import pyg_model
from handful.convert import to_pyg
from handful.studies.speedup import Crossing, crossing
from handful.training.loop import evaluate, train_epoch
from handful.training.loss import node_loss
from handful.training.metrics import METRICS

BASE = hf.Experiment("debian", split="rh", hidden=256, layers=4)
EPOCHS = 150
RATES = (0.003, 0.01)
PARTS = (4, 8, 16, 32)
Epoch = Callable[[], None]
Validate = Callable[[], float]


def handful_way(graph: hf.Graph, sampler: hf.Sampler, rate: float, seed: int) -> tuple[Epoch, Validate]:
    """An epoch of our loop, and its exact evaluation."""
    loop = BASE.with_(sampler=sampler, lr=rate).begin(graph, seed)
    return lambda: train_epoch(loop), lambda: evaluate(loop)[0]


def pyg_way(graph: hf.Graph, rate: float, seed: int) -> tuple[Epoch, Validate]:
    """The same model on the full graph, as a PyG user writes it."""
    data = to_pyg(graph)
    torch.manual_seed(seed)
    model = pyg_model(BASE, graph)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)

    def epoch() -> None:
        model.train()
        optimizer.zero_grad()
        node_loss(model(data.x, data.edge_index)[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()

    @torch.no_grad()
    def validate() -> float:
        model.eval()
        logits: Tensor = model(data.x, data.edge_index)
        return METRICS[graph.metric](logits[data.val_mask], data.y[data.val_mask])

    return epoch, validate


def reach(target: float, epoch: Epoch, validate: Validate) -> Crossing | None:
    """When training reaches ``target``, on a clock that stands still during evaluation; ``None`` if it does not."""
    lines: list[dict[str, float]] = []
    clock = 0.0
    while len(lines) < EPOCHS and not (lines and lines[-1]["val"] >= target):
        start = perf_counter()
        epoch()
        clock += perf_counter() - start
        lines.append({"epoch": len(lines) + 1, "seconds": clock, "val": validate()})
    return crossing(lines, target)


def main(target: float = 0.72, seeds: int = 1) -> None:
    graph = hf.load("debian", split="rh")
    ways: dict[str, Callable[[float, int], tuple[Epoch, Validate]]] = {
        "PyG, full graph": lambda rate, seed: pyg_way(graph, rate, seed),
        "handful, full graph": lambda rate, seed: handful_way(graph, hf.FullGraph(), rate, seed),
        **{
            f"handful, m = {m}": lambda rate, seed, m=m: handful_way(graph, hf.RandomNodes(m), rate, seed)  # type: ignore[misc]
            for m in PARTS
        },
    }
    found: dict[str, dict[float, list[Crossing | None]]] = {name: {r: [] for r in RATES} for name in ways}
    for epoch, _ in (way(0.01, 0) for way in ways.values()):
        epoch()  # compiling
    for seed in range(seeds):
        for name, way in ways.items():
            for rate in RATES:
                found[name][rate].append(reach(target, *way(rate, seed)))
                print(f"seed {seed}, {name}, lr {rate}: {found[name][rate][-1]}", file=sys.stderr, flush=True)
    print(f"validation accuracy {target:.2f} on debian rh; means over {seeds} seed(s)")
    for name, rates in found.items():
        reached = {r: [x for x in runs if x is not None] for r, runs in rates.items()}
        best = min(
            (r for r in RATES if len(reached[r]) == seeds),
            key=lambda r: mean(x.start for x in reached[r]),
            default=None,
        )
        if best is None:
            print(f"{name:22} not within {EPOCHS} epochs")
            continue
        seconds, epochs = (mean(getattr(x, what) for x in reached[best]) for what in ("start", "epochs"))
        print(f"{name:22} {seconds:8.1f} s  {epochs:6.1f} epochs  lr {best}")


if __name__ == "__main__":
    main(*(cast(value) for cast, value in zip((float, int), sys.argv[1:], strict=False)))
