"""Records as studies and runs leave them, made by hand: small, and with every chart in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from handful.files import write_json
from handful.report.records import write_finding
from handful.report.tables import Cell
from handful.studies.budget import printed

SEEDS = (42, 123)
SAMPLERS = ("full", "neighbor", "cluster", "saint", "ladies", "rns")


def value(mean: float, ci95: float | None = 0.004) -> dict[str, float | None]:
    return {"mean": mean, "ci95": ci95, "n": len(SEEDS)}


def write_run(folder: Path, sampler: str, seed: int, top: float, pace: float, graph: str = "ogbn-arxiv") -> None:
    """One seed: eight evaluations that climb to ``top``, ``pace`` seconds an epoch."""
    rng = np.random.default_rng(seed)
    lines = []
    for epoch in range(5, 45, 5):
        val = top - 0.4 * float(np.exp(-epoch / 9)) + float(rng.normal(0, 0.004))
        line = {"epoch": epoch, "steps": 4 * epoch, "loss": 3.0 * float(np.exp(-epoch / 20)), "val": val, "test": val}
        lines.append(line | {"seconds": pace * epoch, "train_seconds": 0.8 * pace * epoch})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_json(
        folder / "config.json",
        {
            "graph": graph,
            "topology": "0" * 16,
            "metric": "accuracy",
            "split": {"train": 90941, "val": 29799, "test": 48603},
            "model": "SAGE(1000 parameters)",
            "sampler": {"name": sampler, **({"parts": 4} if sampler == "rns" else {})},
            "settings": {"epochs": 40, "lr": 0.01, "optimizer": "adam", "patience": None, "seed": seed},
            "environment": {"threads": 2, "device": "cpu", "torch": "2.13.0"},
        },
    )
    best = lines[-1]
    write_json(
        folder / "result.json",
        {
            "metric": "accuracy",
            "val": best["val"],
            "test": best["test"],
            "best_epoch": 40,
            "epochs": 40,
            "seconds": best["seconds"],
            "train_seconds": best["train_seconds"],
            "peak_ram_bytes": 2**30,
            "peak_gpu_bytes": None,
            "seed": seed,
        },
    )


def write_job(folder: Path, sampler: str, top: float, pace: float) -> None:
    write_json(folder / "job.json", {"model": "sage", "architecture": {"hidden": 128, "layers": 3}, "split": None})
    for seed in SEEDS:
        write_run(folder / f"seed-{seed}", sampler, seed, top, pace)


def write_study(
    folder: Path, name: str, payload: dict[str, Any], title: str = "", rows: list[list[Cell]] | None = None
) -> Path:
    write_json(folder / f"{name}.json", payload)
    table = rows or [[Cell("RNS"), Cell("72.51 ± 0.19", 1)], [Cell("Full graph"), Cell("72.28 ± 0.38", 2)]]
    head = ["Method", "Test accuracy (%)", *[""] * (len(table[0]) - 2)]
    words = "RNS is +0.23 points from full-graph training."
    write_finding(
        folder, name, title or f"{name} · 40 epochs", words, head, table, {"budget": "laptop", "seeds": SEEDS}
    )
    return folder


def write_samplers(folder: Path, name: str = "samplers", graph: str = "ogbn-arxiv") -> Path:
    """The main table with its runs; the paper's numbers where ``graph`` is one of its own."""
    rows = []
    cells = []
    for i, sampler in enumerate(SAMPLERS):
        test = 0.70 + 0.005 * i
        write_job(folder / sampler, sampler, test, 0.4 + 0.2 * abs(3 - i))
        rows.append(
            {
                "sampler": sampler,
                "test": value(test),
                "val": value(test),
                "seconds": {"mean": 40 * (0.4 + 0.2 * abs(3 - i))},
                "epoch_seconds": {"mean": 0.3},
                "peak_memory_bytes": {"ram": 2**30 + i * 10**8, "gpu": None},
                "paper": printed("tab:main-results", graph, sampler),
            }
        )
        cells.append(
            [Cell(sampler), Cell(f"{100 * test:.2f} ± 0.40", int(sampler == "rns")), Cell("12.0"), Cell("1.00")]
        )
    return write_study(
        folder, name, {"graph": graph, "metric": "accuracy", "rows": rows}, f"{graph} · 40 epochs", cells
    )


def payloads() -> dict[str, dict[str, Any]]:
    """What each of the other studies found."""
    metric = {"graph": "ogbn-products", "metric": "accuracy"}
    m = (1, 2, 4, 8, 16)
    names = ("rns", "neighbor", "cluster", "saint")
    terms = [
        {
            "name": name,
            "bias": value(10.0**-i, 10.0 ** (-i - 1)),
            "loss_variance": value(0.02 * (i + 1), 0.002),
            "R": value(0.3 * 2**i, 0.02),
            "grad_norm_sq": value(0.5, 0.1),
            "alpha_error": value(0.05 * (i + 1), 0.01),
        }
        for i, name in enumerate(names)
    ]
    measures = (
        "edges average_degree isolated components largest_component diameter_lower_bound average_distance homophily"
    )
    return {
        "regimes": metric
        | {
            "cells": [
                {
                    "regime": regime,
                    "optimizer": optimizer,
                    "test": value(0.70 + 0.02 * i + 0.03 * j),
                    "paper": printed("tab:implicit_reg_results", regime, optimizer),
                }
                for i, regime in enumerate(("full", "rns-no-batch", "rns"))
                for j, optimizer in enumerate(("sgd", "sgdm", "adam"))
            ]
        },
        "architectures": metric
        | {
            "models": [
                {
                    "model": model,
                    "full": None if model == "gat" else value(0.77),
                    "rns": None if model == "gat" else value(0.79),
                    "paper": printed("tab:testacc_full_rns_pct_compact", "ogbn-products", model),
                }
                for model in ("gcn", "sage", "gat", "sgformer")
            ]
        },
        "graphland": {
            "datasets": [
                {"dataset": "web-fraud", "missing": "not here"},
                *(
                    {
                        "dataset": name,
                        **{
                            split: {
                                "full": value(0.5, None),
                                "rns": value(0.55, None),
                                "delta": 0.05,
                                "paper": printed("tab:graphland_rns", name, split),
                            }
                            for split in ("rl", "rh")
                        },
                    }
                    for name in ("hm-categories", "pokec-regions", "web-topics", "tolokers-2", "city-reviews")
                ),
            ]
        },
        "speedup": metric
        | {
            "targets": [
                {
                    "target": target,
                    "epoch": 1.7,
                    "epochs": 6.1,
                    "start": 5.2,
                    "nostart": None if target == 0.9 else 11.0,
                    "paper": printed("tab:rns_speedup_decomposition", "ogbn-products", f"{100 * target:.1f}"),
                }
                for target in (0.88, 0.89, 0.9)
            ]
        },
        "parts": metric
        | {
            "curve": [
                {
                    "m": n,
                    "test": value(0.7 + 0.01 * i),
                    "val": value(0.72 + 0.01 * i),
                    "seconds": 30.0 - i,
                    "peak_memory_bytes": 2**31 // n,
                }
                for i, n in enumerate(m)
            ]
        },
        "fanout": metric
        | {
            "fanouts": [
                {
                    "fanout": fanout,
                    "test": value(0.80),
                    "epoch_seconds": 10.0 * len(fanout),
                    "peak_memory_bytes": {"ram": 10**9, "gpu": None},
                    "paper": printed("tab:neighbor_fanout_ablation", "ogbn-products", fanout),
                }
                for fanout in ("30,10", "30,10,10", "30,10,10,10")
            ]
        },
        "implicit": {"graph": "debian", "batches": 50, "seeds": 10, "samplers": terms},
        "powerlaw": {
            "graph": "debian",
            "samplers": [{"name": name, "alpha_error": 0.1 * i, "R": 0.2 + i} for i, name in enumerate(names)],
        },
        "structure": {
            "graph": "debian",
            "parts": [{"m": n, **{name: {"mean": 100.0 / n, "sd": 2.0 / n} for name in measures.split()}} for n in m],
        },
        "backward-error": {
            "slopes": {"modified": 3.0, "unmodified": 2.0, "appendix_coefficient": 2.0},
            "steps": [0.1, 0.05, 0.025],
            "errors": {
                "modified": [1e-3, 1.2e-4, 1.5e-5],
                "unmodified": [1e-2, 2.5e-3, 6e-4],
                "appendix_coefficient": [3e-2, 7e-3, 2e-3],
            },
        },
        "bias-bound": {
            "graph": "debian",
            "bounds": [{"m": n, "bound": 10.0 * n, "average_bound": 2.0 * n, "bias": 0.01 * n} for n in m],
        },
        "degree-law": {
            "graph": "debian",
            "parts": [{"m": n, "alpha": 2.1 + 0.01 * n, "survival": 1 / n, "survival_sampled": 1.001 / n} for n in m],
        },
        "explicit-penalty": {
            "graph": "debian",
            "regimes": {
                name: {"test": value(0.6), "R": value(0.3), "mean_loss": value(1.0)}
                for name in ("m steps of α", "one step of mα", "one step of mα, + α/4·R")
            },
        },
        "datasets": {"datasets": [{"name": "debian", "nodes": 3, "paper": None}]},
    }


def write_everything(folder: Path) -> Path:
    """A folder with every study, and two trainings that belong to none."""
    write_samplers(folder / "samplers")
    for name, payload in payloads().items():
        write_study(folder / name, name, payload)
    for seed in SEEDS:
        write_run(folder / "train" / f"seed-{seed}", "rns", seed, 0.7, 0.2, graph="debian")
    write_run(folder / "other" / "seed-1", "full", 1, 0.72, 0.3, graph="debian")
    return folder
