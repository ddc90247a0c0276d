"""One step per epoch with an explicit penalty α/4·R(w), compared with one step per part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from handful.experiment import Experiment
from handful.finding import Axis, Cell, Chart, Finding, Table, View, best_two, points
from handful.samplers import RandomNodes
from handful.settings import Update
from handful.statistics import mean_ci95
from handful.studies.budget import Request, adapt
from handful.theory.explicit import VariancePenalty
from handful.theory.implicit import ImplicitWatch
from handful.training.fit import fit
from handful.training.metrics import METRICS, Metric

PARTS = 4
STEP = 0.1
"""The learning rate α for one step per part. The paper uses 0.03 for SGD; a larger α gives the penalty more weight."""
EPOCHS = {"smoke": 2, "laptop": 40, "paper": 1000}
HIDDEN = {"smoke": 8, "laptop": 32, "paper": 256}

REGIMES: dict[str, tuple[Update, float, float]] = {
    "per-part steps of α": ("step", STEP, 0.0),
    "one step of α": ("epoch", STEP, 0.0),
    "one step of mα": ("epoch", PARTS * STEP, 0.0),
    "one step of mα, + α/4·R": ("epoch", PARTS * STEP, STEP / 4),
    "one step of mα, + 10·α/4·R": ("epoch", PARTS * STEP, 10 * STEP / 4),
}
"""For each regime: the update, the learning rate, and the weight of the penalty. One step of size mα and m steps of
size α have the same flow time.
"""


def run(request: Request) -> Finding:
    """One step per epoch with an explicit penalty α/4·R(w), compared with one step per part.

    All regimes use RNS batches, and SGD without momentum or dropout. The regimes differ only in their updates.
    """
    epochs, hidden = EPOCHS[request.budget], HIDDEN[request.budget]
    base = Experiment(request.graph or "debian", sampler=RandomNodes(PARTS), optimizer="sgd", epochs=epochs)
    base = adapt(request, base.with_(hidden=hidden, layers=2, dropout=0.0, residual=False))
    results: dict[str, list[dict[str, float]]] = {name: [] for name in REGIMES}
    for seed, name in request.each([(seed, name) for seed in request.seeds for name in REGIMES], "{0[1]}".format):
        update, lr, strength = REGIMES[name]
        graph = base.load(seed).to(request.device)
        model, watch = base.make_model(graph, seed), ImplicitWatch(epochs, 4 * PARTS, seed)
        callbacks = [*([VariancePenalty(strength)] if strength else []), watch]
        settings = base.with_(update=update, lr=lr).settings
        run = fit(model, graph, base.sampler, settings, seed=seed, device=request.device, callbacks=callbacks)
        _, terms = watch.history[-1]  # at the last weights, not at the best weights
        results[name].append({"test": run.test, "R": terms.R, "mean_loss": terms.mean_loss})
    summary = {
        name: {key: mean_ci95([one[key] for one in runs]) for key in ("test", "mean_loss", "R")}
        for name, runs in results.items()
    }
    metric, rows = METRICS[graph.metric], []
    ranks = best_two([s["test"]["mean"] for s in summary.values()], metric.higher_is_better)
    for (name, s), rank in zip(summary.items(), ranks, strict=True):
        ends = Cell(f"{s['mean_loss']['mean']:.4f}"), Cell(f"{s['R']['mean']:.3g}")
        rows.append([Cell(name), Cell(metric.text(s["test"]), rank), *ends])
    views = []
    for key, label, scale in (("test", metric.label("test"), metric.scale), ("R", "R(w) at the end", 1.0)):
        series = [points(name, [name], [s[key]], i, scale) for i, (name, s) in enumerate(summary.items())]
        views.append(View(key, "dot", Axis("", of=list(summary)), Axis(label), series))
    heading = f"{graph.name} · sage 2×{hidden} · SGD · {epochs} epochs of {PARTS} parts · {len(request.seeds)} seeds"
    table = Table(heading, ["regime", metric.label("test"), "L̄ at the end", "R at the end"], rows)
    chart = Chart("explicit-penalty", f"{graph.name}: does the penalty do what the steps do?", views)
    payload = {"graph": graph.name, "metric": graph.metric, "parts": PARTS, "step": STEP, "epochs": epochs}
    payload |= {"regimes": summary, "runs": results}
    return Finding("explicit-penalty", heading, conclude(results, metric), [table], [chart], payload)


def conclude(results: Mapping[str, Sequence[Mapping[str, float]]], metric: Metric) -> str:
    """Describe how much one step per part and the penalty each gain over one step per epoch with the same flow time."""
    chained, _, plain, penalised, _ = ([one["test"] for one in runs] for runs in results.values())
    steps, penalty = (metric.text(mean_ci95(np.subtract(tests, plain))) for tests in (chained, penalised))
    return f"Over one step of equal flow time, per-part steps gain {steps} {metric.unit}, and the penalty {penalty}."
