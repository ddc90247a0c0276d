"""The charts of the report, as plain data that the page draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from handful.files import plain
from handful.report.curves import mean_curve
from handful.report.records import Record, Runs
from handful.report.tables import TITLES
from handful.studies.architectures import MODELS
from handful.studies.backward_error import WORDS
from handful.studies.regimes import OPTIMIZERS, REGIMES
from handful.theory.pictures import CURVES

COLORS = {"rns": 0, "full": 1, "neighbor": 2, "cluster": 3, "saint": 4, "ladies": 5}
"""A method has the same colour everywhere; others take what comes after, in turn."""
HUES = 10
LABELS = TITLES | MODELS | REGIMES | OPTIMIZERS
"""Whatever a record names, as people read it."""
PARTS = "m, the number of parts"
TERMS = {
    "bias": "Bias |L_full − L̄|",
    "loss_variance": "Variance of the losses Var(L̂_k)",
    "R": "Variance of the gradients R(w)",
    "grad_norm_sq": "Gradient norm ‖∇L̄‖²",
}
SPEEDUPS = {"epoch": "Epoch time", "epochs": "Epochs to target", "start": "Time to target", "nostart": "… no start-up"}


@dataclass(frozen=True)
class Axis:
    """One direction. With ``of`` it has these categories; with ``ticks``, marks at these values."""

    label: str
    log: bool = False
    of: list[str] = field(default_factory=list)
    ticks: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Series:
    """Points with the ends of their bars or band; ``paper`` for numbers that the paper prints."""

    name: str
    x: list[Any]
    y: list[float | None]
    low: list[float | None] = field(default_factory=list)
    high: list[float | None] = field(default_factory=list)
    color: int = 0
    paper: bool = False


@dataclass(frozen=True)
class View:
    """One way to look at a chart. ``line`` marks are joined, ``dot`` are not, and ``bar`` stand on the axis."""

    name: str
    mark: str
    x: Axis
    y: Axis
    series: list[Series]


@dataclass(frozen=True)
class Chart:
    """A title and its views; ``wide`` ones take the whole width of the page."""

    title: str
    views: list[View]
    wide: bool = True

    def to_json(self) -> dict[str, Any]:
        """As JSON has it: what is not a number is null."""
        return plain(asdict(self))  # type: ignore[no-any-return]


def charts_of(record: Record) -> list[Chart]:
    """All that can be drawn of a record: what its study measures, and the curves of its runs."""
    make = CHARTS.get(record.name)
    charts = make(record.payload) if make is not None else []
    kept = [replace(chart, views=[view for view in chart.views if _drawable(view)]) for chart in charts]
    return [chart for chart in kept if chart.views] + curve_charts(record.runs)


def curve_charts(runs: Sequence[Runs]) -> list[Chart]:
    """Through training, a chart for each graph: mean over seeds, their range as a band."""
    groups: dict[str, list[Runs]] = {}
    for one in runs:
        groups.setdefault(one.graph, []).append(one)
    charts = []
    for graph, members in groups.items():
        metric = f"validation {members[0].metric} (%)"
        looks = [
            ("epochs", "epoch", "epoch", "val", metric),
            ("seconds", "seconds", "seconds of training, evaluation included", "val", metric),
            ("loss", "epoch", "epoch", "loss", "training loss"),
        ]
        views = [
            View(name, "line", Axis(label), Axis(y_label), _curves(members, against, measure))
            for name, against, label, measure, y_label in looks
        ]
        views = [view for view in views if _drawable(view)]
        if views:
            charts.append(Chart(f"{graph}: through training", views, wide=len(groups) == 1))
    return charts


def _curves(runs: Sequence[Runs], against: str, measure: str) -> list[Series]:
    series = []
    for one, color in zip(runs, _hues([Path(one.name).name for one in runs]), strict=True):
        x, values = mean_curve(one.histories, against, measure)
        if len(x):
            ends = (100 if measure == "val" else 1) * np.stack([values.mean(0), values.min(0), values.max(0)])
            mean, low, high = ends.tolist()
            several = len(values) > 1
            series.append(Series(one.title, x.tolist(), mean, low if several else [], high if several else [], color))
    return series


# -- studies ----------------------------------------------------------------------------------------------------------


def _samplers(found: dict[str, Any]) -> list[Chart]:
    rows = [row for row in found["rows"] if "error" not in row]
    memory = "gpu" if any(row["peak_memory_bytes"]["gpu"] for row in rows) else "ram"
    costs: dict[str, tuple[str, Callable[[dict[str, Any]], float]]] = {
        "time": ("seconds of training", lambda row: row["seconds"]["mean"]),
        "memory": (f"peak {memory.upper()} (GiB)", lambda row: (row["peak_memory_bytes"][memory] or 0) / 2**30),
    }
    hues = _hues([row["sampler"] for row in rows])
    views = []
    for name, (label, cost) in costs.items():
        series = [
            _points(TITLES.get(row["sampler"], row["sampler"]), [cost(row)], [row["test"]], hue)
            for row, hue in zip(rows, hues, strict=True)
        ]
        views.append(View(name, "dot", Axis(label, log=name == "time"), _percents(found, "test"), series))
    return [Chart(f"{found['graph']}: what accuracy costs", views)]


def _regimes(found: dict[str, Any]) -> list[Chart]:
    def cells(key: str, regime: str) -> list[Any]:
        by = {cell["optimizer"]: cell[key] for cell in found["cells"] if cell["regime"] == regime}
        return [by.get(optimizer) for optimizer in OPTIMIZERS]

    names = list(OPTIMIZERS.values())
    series = []
    for (regime, title), color in zip(REGIMES.items(), (1, 3, 0), strict=True):
        series += _beside_paper(title, names, cells("test", regime), cells("paper", regime), color)
    view = View("test", "dot", Axis("", of=names), _percents(found, "test"), series)
    return [Chart(f"{found['graph']}: three regimes, three optimisers", [view])]


def _architectures(found: dict[str, Any]) -> list[Chart]:
    names = [MODELS.get(row["model"], row["model"]) for row in found["models"]]
    view = View("test", "dot", Axis("", of=names), _percents(found, "test"), _full_and_rns(names, found["models"]))
    return [Chart(f"{found['graph']}: full graph and RNS by backbone", [view])]


def _graphland(found: dict[str, Any]) -> list[Chart]:
    rows = [row for row in found["datasets"] if "missing" not in row]
    names = [row["dataset"] for row in rows]
    label = Axis("accuracy or AP (%)")
    views = [
        View(split.upper(), "dot", Axis("", of=names), label, _full_and_rns(names, [row[split] for row in rows]))
        for split in ("rl", "rh")
    ]
    return [Chart("GraphLand: full graph and RNS", views)]


def _full_and_rns(names: list[str], rows: Sequence[dict[str, Any]]) -> list[Series]:
    series = []
    for method, color in (("full", 1), ("rns", 0)):
        ours = [row[method] for row in rows]
        series += _beside_paper(TITLES[method], names, ours, [(row["paper"] or {}).get(method) for row in rows], color)
    return series


def _speedup(found: dict[str, Any]) -> list[Chart]:
    targets = [f"{100 * row['target']:.1f}%" for row in found["targets"]]
    papers = [row.get("paper") or {} for row in found["targets"]]
    series = []
    for color, (key, title) in enumerate(SPEEDUPS.items()):
        series.append(Series(title, targets, [row[key] for row in found["targets"]], color=color))
        if any(papers):
            values = [paper.get(key) for paper in papers]
            series.append(Series(f"{title}, paper", targets, values, color=color, paper=True))
    label = f"target, validation {found.get('metric', 'metric').replace('_', ' ')}"
    view = View("speedup", "bar", Axis(label, of=targets), Axis("full graph / RNS (×)"), series)
    return [Chart(f"{found['graph']}: where the speed of RNS comes from", [view])]


def _parts(found: dict[str, Any]) -> list[Chart]:
    curve = found["curve"]
    m = [point["m"] for point in curve]
    x = Axis(PARTS, log=True, ticks=m)
    metric = found["metric"].replace("_", " ")
    views = [
        View(name, "line", x, Axis(f"{name} {metric} (%)"), [_points("RNS", m, [point[name] for point in curve], 0)])
        for name in ("test", "val")
    ]
    memory = [point["peak_memory_bytes"] / 2**30 for point in curve]
    views.append(View("seconds", "line", x, Axis("seconds"), [Series("RNS", m, [point["seconds"] for point in curve])]))
    views.append(View("memory", "line", x, Axis("peak memory (GiB)"), [Series("RNS", m, memory)]))
    return [Chart(f"{found['graph']}: how many parts?", views)]


def _fanout(found: dict[str, Any]) -> list[Chart]:
    rows = [row for row in found["fanouts"] if "error" not in row]
    names = [f"[{row['fanout']}]" for row in rows]
    x = Axis("fanout", of=names)
    papers = [(row["paper"] or {}) for row in rows]
    tests = _beside_paper("Neighbour sampling", names, [r["test"] for r in rows], [p.get("test") for p in papers], 2)
    seconds = [Series("Neighbour sampling", names, [row["epoch_seconds"] for row in rows], color=2)]
    views = [
        View("test", "dot", x, _percents(found, "test"), tests),
        View("seconds", "bar", x, Axis("seconds an epoch"), seconds),
    ]
    return [Chart(f"{found['graph']}: how deep to look", views)]


def _implicit(found: dict[str, Any]) -> list[Chart]:
    rows = found["samplers"]
    names = [TITLES.get(row["name"], row["name"]) for row in rows]
    hues = _hues([row["name"] for row in rows])
    charts = []
    for term, title in TERMS.items():
        series = [
            _points(name, [name], [row[term]], hue, scale=1.0) for name, row, hue in zip(names, rows, hues, strict=True)
        ]
        log = all((row[term]["mean"] or 0) > 0 for row in rows)
        charts.append(Chart(title, [View(term, "bar", Axis("", of=names), Axis("", log=log), series)], wide=False))
    return [*charts, *_plane(found)]


def _plane(found: dict[str, Any]) -> list[Chart]:
    """The error of the exponent against R(w), a point for each sampler."""
    rows = [row for row in found["samplers"] if _mean(row.get("alpha_error")) is not None]
    series = [
        _points(TITLES.get(row["name"], row["name"]), [_mean(row["alpha_error"])], [row["R"]], hue, scale=1.0)
        for row, hue in zip(rows, _hues([row["name"] for row in rows]), strict=True)
    ]
    log = all((_mean(row["R"]) or 0) > 0 for row in rows)
    view = View("plane", "dot", Axis("|α_Sampl − α_Full|"), Axis("R(w)", log=log), series)
    return [Chart(f"{found['graph']}: degrees kept, gradients steady?", [view])]


def _structure(found: dict[str, Any]) -> list[Chart]:
    rows = found["parts"]
    m = [row["m"] for row in rows]
    charts = []
    for name, title in CURVES.items():
        mean = [row[name]["mean"] for row in rows]
        sd = [row[name]["sd"] or 0.0 for row in rows]
        low, high = ([None if v is None else v + s * d for v, d in zip(mean, sd, strict=True)] for s in (-1, 1))
        log = name in ("edges", "largest_component") and all((value or 0) > 0 for value in mean)
        view = View(
            name, "line", Axis(PARTS, log=True, ticks=m), Axis("", log=log), [Series("RNS", m, mean, low, high)]
        )
        charts.append(Chart(title[0].upper() + title[1:], [view], wide=False))
    return charts


def _backward_error(found: dict[str, Any]) -> list[Chart]:
    series = [
        Series(f"{title}: slope {found['slopes'][name]:.2f}", found["steps"], found["errors"][name], color=i)
        for i, (name, title) in enumerate(WORDS.items())
    ]
    view = View("error", "line", Axis("step size α", log=True), Axis("distance after one epoch", log=True), series)
    return [Chart("Mean SGD against three gradient flows", [view])]


def _bias_bound(found: dict[str, Any]) -> list[Chart]:
    rows = [row for row in found["bounds"] if row["m"] > 1]
    m = [row["m"] for row in rows]
    sides = {"bound": "C·σ(w), worst node", "average_bound": "C·σ(w), average node", "bias": "|E[L̂] − L_full|"}
    series = [Series(title, m, [row[key] for row in rows], color=i) for i, (key, title) in enumerate(sides.items())]
    view = View("bound", "line", Axis(PARTS, log=True, ticks=m), Axis("", log=True), series)
    return [Chart(f"{found['graph']}: the bias and its bound", [view])]


def _degree_law(found: dict[str, Any]) -> list[Chart]:
    rows = found["parts"]
    m = [row["m"] for row in rows]
    x = Axis(PARTS, log=True, ticks=m)
    survival = [
        Series(title, m, [row[key] for row in rows], color=i)
        for i, (key, title) in enumerate({"survival": "exact", "survival_sampled": "sampled"}.items())
    ]
    views = [
        View("edges", "line", x, Axis("share of edges that survive", log=True), survival),
        View("exponent", "line", x, Axis("α of a part"), [Series("α", m, [row["alpha"] for row in rows])]),
    ]
    return [Chart(f"{found['graph']}: what is left of the degrees", views)]


def _explicit_penalty(found: dict[str, Any]) -> list[Chart]:
    scales = {"test": ("test metric (%)", 100.0), "R": ("R(w) at the end", 1.0)}
    views = []
    for name, (label, scale) in scales.items():
        rows = enumerate(found["regimes"].items())
        series = [_points(title, [""], [row[name]], i, scale) for i, (title, row) in rows]
        views.append(View(name, "dot", Axis("", of=[""]), Axis(label), series))
    return [Chart(f"{found['graph']}: does the penalty do what the steps do?", views)]


CHARTS: dict[str, Callable[[dict[str, Any]], list[Chart]]] = {
    "samplers": _samplers,
    "compare": _samplers,
    "regimes": _regimes,
    "architectures": _architectures,
    "graphland": _graphland,
    "speedup": _speedup,
    "parts": _parts,
    "fanout": _fanout,
    "implicit": _implicit,
    "diagnose": _implicit,
    "powerlaw": _plane,
    "structure": _structure,
    "backward-error": _backward_error,
    "bias-bound": _bias_bound,
    "degree-law": _degree_law,
    "explicit-penalty": _explicit_penalty,
}
"""By study; one that is not here has a table and, if it trained, curves."""


# -- pieces -----------------------------------------------------------------------------------------------------------


def _points(name: str, x: list[Any], values: Sequence[Any], color: int, scale: float = 100.0) -> Series:
    """``{"mean", "ci95"}``, a plain number or nothing at each x, as points with bars."""
    means = [_mean(value) for value in values]
    halves = [value.get("ci95") or 0.0 if isinstance(value, dict) else 0.0 for value in values]
    halves = [0.0 if half != half else half for half in halves]  # one seed has no interval
    y = [None if mean is None else scale * mean for mean in means]
    low, high = (
        [None if mean is None else mean + sign * scale * half for mean, half in zip(y, halves, strict=True)]
        for sign in (-1, 1)
    )
    return Series(name, x, y, low, high, color) if any(halves) else Series(name, x, y, color=color)


def _beside_paper(name: str, x: list[Any], ours: Sequence[Any], paper: Sequence[Any], color: int) -> list[Series]:
    """Our points and, where the paper has some, the paper's."""
    series = [_points(name, x, ours, color)]
    if any(paper):
        series.append(replace(_points(f"{name}, paper", x, paper, color), paper=True))
    return series


def _percents(found: dict[str, Any], what: str) -> Axis:
    return Axis(f"{what} {found['metric'].replace('_', ' ')} (%)")


def _hues(names: Sequence[str]) -> list[int]:
    """A colour for each: a method's own, else the first that is free."""
    own = [COLORS.get(name) for name in names]
    free = [hue for hue in range(HUES) if hue not in own] or list(range(HUES))
    others = iter(free * len(names))
    return [next(others) if hue is None else hue for hue in own]


def _mean(value: Any) -> float | None:
    mean = value.get("mean") if isinstance(value, dict) else value
    return None if mean is None or not math.isfinite(mean) else float(mean)


def _drawable(view: View) -> bool:
    return any(value is not None and math.isfinite(value) for series in view.series for value in series.y)
