"""One configuration over several seeds: what every number with a ± in it is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from handful.datasets import load
from handful.graph import Graph
from handful.nn import make_model
from handful.samplers.base import Sampler
from handful.statistics import mean_ci95
from handful.training.callbacks import Callback
from handful.training.fit import Run, fit

PAPER_SEEDS = (42, 123, 456, 789, 101112)


@dataclass(frozen=True)
class Summary:
    """The runs of one configuration."""

    graph: str
    model: str
    sampler: str
    metric: str
    runs: list[Run]

    def to_json(self) -> dict[str, Any]:
        """Means over the seeds, and what each came to; metrics are fractions."""
        gpu = [run.peak_gpu_bytes for run in self.runs if run.peak_gpu_bytes is not None]
        return {
            "graph": self.graph,
            "metric": self.metric,
            "model": self.model,
            "sampler": self.sampler,
            "val": mean_ci95([run.val for run in self.runs]),
            "test": mean_ci95([run.test for run in self.runs]),
            "seconds": {"mean": sum(run.seconds for run in self.runs) / len(self.runs)},
            "epoch_seconds": {"mean": sum(run.epoch_seconds for run in self.runs) / len(self.runs)},
            "peak_memory_bytes": {
                "ram": max(run.peak_ram_bytes for run in self.runs),
                "gpu": max(gpu) if gpu else None,
            },
            "runs": [
                {
                    "seed": run.seed,
                    "best_epoch": run.best_epoch,
                    "epochs": run.epochs,
                    "steps": run.steps,
                    "skipped": run.skipped,
                    "val": run.val,
                    "test": run.test,
                    "seconds": run.seconds,
                    "peak_ram_bytes": run.peak_ram_bytes,
                    "dir": run.dir,
                }
                for run in self.runs
            ],
        }


def train_seeds(
    graph: str | Graph,
    model: str,
    architecture: dict[str, Any],
    sampler: Sampler,
    settings: dict[str, Any],
    *,
    seeds: Sequence[int] = PAPER_SEEDS,
    split: str | None = None,
    root: str | None = None,
    device: str = "cpu",
    out: Path | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Summary:
    """Train once for each seed, which draws the initial weights, the batches, the dropout and, where the data set
    says so, the split."""
    runs = []
    for seed in seeds:
        data = load(graph, split=split, root=root, seed=seed) if isinstance(graph, str) else graph
        data.require_training()
        torch.manual_seed(seed)
        network = make_model(model, data.num_features, data.num_outputs, **architecture)
        folder = None if out is None else out / f"seed-{seed}"
        run = fit(
            network, data, sampler, device=device, out=folder, resume=resume, callbacks=callbacks, seed=seed, **settings
        )
        runs.append(run)
    return Summary(data.name, model, str(sampler), data.metric, runs)
