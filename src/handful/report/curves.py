"""Curves of a metric against time, one a method, their seeds as a band."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.files import write_aside

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#9d755d", "#e45756", "#72b7b2", "#eeca3b")


def draw_curves(
    curves: dict[str, list[list[dict[str, Any]]]], metric: str, title: str, path: Path, against: str = "seconds"
) -> None:
    """The picture of ``curves_figure`` as a file."""
    figure = curves_figure(curves, metric, title, against)
    kind = path.suffix.lstrip(".") or "svg"
    write_aside(path, lambda aside: figure.savefig(aside, format=kind))


def curves_figure(
    curves: dict[str, list[list[dict[str, Any]]]], metric: str, title: str, against: str = "seconds"
) -> Figure:
    """The validation metric of every method against ``seconds`` or ``epoch``: the mean over seeds, and their range."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    for (name, histories), color in zip(curves.items(), COLORS * len(curves), strict=False):
        x, values = mean_curve(histories, against)
        if len(x) == 0:
            continue
        axes.plot(x, 100 * values.mean(0), label=name, color=color, linewidth=2.4 if name == "RNS" else 1.5)
        axes.fill_between(x, 100 * values.min(0), 100 * values.max(0), color=color, alpha=0.15, linewidth=0)
    axes.set_xlabel("seconds of training, evaluation included" if against == "seconds" else against)
    axes.set_ylabel(f"validation {metric.replace('_', ' ')} (%)")
    axes.set_title(title, loc="left")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    return figure


def mean_curve(
    histories: list[list[dict[str, Any]]], against: str, measure: str = "val"
) -> tuple[np.ndarray, np.ndarray]:
    """Where the seeds were evaluated, and their ``measure`` there (seeds × places), as far as every seed got."""
    histories = [[line for line in history if line[measure] is not None] for history in histories]
    length = min((len(history) for history in histories), default=0)
    x = np.array([[line[against] for line in history[:length]] for history in histories], float)
    y = np.array([[line[measure] for line in history[:length]] for history in histories], float)
    return (x.mean(0), y) if length else (np.empty(0), np.empty((len(histories), 0)))
