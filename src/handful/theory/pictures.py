"""The figures of the theory, from what its functions found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.files import write_aside
from handful.report.curves import COLORS
from handful.theory.backward_error import BackwardError
from handful.theory.bias import BiasBound
from handful.theory.diagnosis import Diagnosis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BARS = {
    "bias": r"$|L_{\mathrm{full}} - \bar L|$",
    "loss_variance": r"$\mathrm{Var}(\hat L_k)$",
    "R": r"$R(w)$",
    "grad_norm_sq": r"$\|\nabla\bar L\|^2$",
}
CURVES = {
    "edges": "edges of a part",
    "average_degree": "average degree",
    "isolated": "isolated nodes",
    "components": "components",
    "largest_component": "largest component (nodes)",
    "diameter_lower_bound": "diameter (lower bound)",
    "average_distance": "average distance",
    "homophily": "homophily",
}


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format that its name ends with, without a date: the same figure is the same file."""
    kind = path.suffix.lstrip(".")
    plain = {"Date": None} if kind == "svg" else None
    write_aside(path, lambda aside: figure.savefig(aside, format=kind, metadata=plain, dpi=110))


def _figure(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[Any]]:
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    rcParams["svg.hashsalt"] = "handful"
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(rows, columns)).ravel())
    for one in axes:
        one.grid(alpha=0.3, linewidth=0.6)
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _whole_decades(axes: Any) -> None:
    """A log scale from one power of ten to another, without labels in between."""
    from matplotlib.ticker import NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(10.0 ** np.floor(np.log10(low)), 10.0 ** np.ceil(np.log10(high)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def term_bars(found: Sequence[Diagnosis], graph: str) -> Figure:
    """The paper's figure of the implicit terms: one panel a term, log scale, mean and 95% CI over repeats."""
    from handful.statistics import mean_ci95

    figure, panels = _figure(1, len(BARS), 2.6, 3.0)
    names = [d.name for d in found]
    for axes, (term, title) in zip(panels, BARS.items(), strict=True):
        values = [mean_ci95(d.values(term)) for d in found]
        means = np.array([v["mean"] for v in values])
        # On a log scale an interval that reaches 0 has no lower end: it is cut at a tenth.
        below = [min(v["ci95"], 0.9 * v["mean"]) for v in values]
        above = [v["ci95"] for v in values]
        axes.bar(names, means, color=[COLORS[i % len(COLORS)] for i in range(len(names))], zorder=2)
        if np.isfinite(above).all():
            axes.errorbar(names, means, [below, above], fmt="none", ecolor="#333", capsize=3, zorder=3)
        if (means > 0).any():
            _whole_decades(axes)
        axes.set_title(title)
        axes.tick_params(axis="x", rotation=30)
    figure.suptitle(f"{graph}: implicit regularisation terms", x=0.01, ha="left")
    return figure


def alpha_plane(found: Sequence[Diagnosis], graph: str) -> Figure:
    """The error of the power-law exponent against R(w), one point a sampler."""
    figure, (axes,) = _figure(1, 1, 4.8, 3.6)
    for i, d in enumerate(found):
        x, y = d.values("alpha_error"), d.values("R")
        color = COLORS[i % len(COLORS)]
        axes.scatter(x, y, s=8, color=color, alpha=0.25, linewidths=0)
        axes.scatter(np.mean(x), np.mean(y), s=60, color=color, label=d.name, zorder=3)
    axes.set_xlabel(r"$|\alpha_{\mathrm{Sampl}} - \alpha_{\mathrm{Full}}|$")
    axes.set_ylabel(r"$R(w)$")
    if all(v > 0 for d in found for v in d.values("R")):
        _whole_decades(axes)
    axes.legend(frameon=False)
    axes.set_title(f"{graph}: degrees kept, gradients steady?", loc="left")
    return figure


def structure_curves(rows: Sequence[dict[str, Any]], graph: str) -> Figure:
    """Every measure of the sampled graphs against m, mean ± one standard deviation over epochs."""
    shown = [name for name in CURVES if any(np.isfinite(row[name]["mean"]) for row in rows)]
    figure, panels = _figure(2, -(-len(shown) // 2), 2.7, 2.3)
    m = [row["m"] for row in rows]
    for axes, name in zip(panels, shown, strict=False):
        mean = np.array([row[name]["mean"] for row in rows], float)
        sd = np.nan_to_num(np.array([row[name]["sd"] for row in rows], float))
        axes.plot(m, mean, marker="o", markersize=3, color=COLORS[0])
        axes.fill_between(m, mean - sd, mean + sd, color=COLORS[0], alpha=0.2, linewidth=0)
        axes.set_xscale("log", base=2)
        axes.set_xticks(m, [str(value) for value in m])
        if name in ("edges", "largest_component") and mean.min() > 0:
            axes.set_yscale("log")
        axes.set_title(CURVES[name], fontsize=10)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    figure.supxlabel("m, the number of parts")
    figure.suptitle(f"{graph}: what sampling does to the graph", x=0.01, ha="left")
    return figure


def error_lines(found: BackwardError) -> Figure:
    """The distance between mean SGD and each flow against the step size, log–log, with the fitted slopes."""
    figure, (axes,) = _figure(1, 1, 5.2, 3.8)
    titles = {
        "modified": r"$\bar L + \frac{\alpha}{4}\|\nabla\bar L\|^2 + \frac{\alpha}{4}R$",
        "unmodified": r"$\bar L$ alone",
        "appendix_coefficient": "the appendix's coefficient, m times as large",
    }
    for (name, title), color in zip(titles.items(), COLORS, strict=False):
        label = f"{title}: slope {found.slopes[name]:.2f}"
        axes.loglog(found.steps, found.errors[name], marker="o", markersize=4, color=color, label=label)
    axes.set_xlabel(r"step size $\alpha$")
    axes.set_ylabel("distance after one epoch")
    axes.legend(frameon=False, fontsize=8)
    axes.set_title("mean SGD against three gradient flows", loc="left")
    return figure


def bound_lines(rows: Sequence[BiasBound], graph: str) -> Figure:
    """Both sides of the bias bound against m."""
    figure, (axes,) = _figure(1, 1, 5.2, 3.8)
    rows = [row for row in rows if row.m > 1]
    m = [row.m for row in rows]
    sides = {
        r"$C_\ell\,\sigma(w)$, worst node": [row.bound for row in rows],
        r"$C_\ell\,\sigma(w)$, average node": [row.average_bound for row in rows],
        r"$|E[\hat L_{\mathrm{RNS}}] - L_{\mathrm{full}}|$": [row.bias for row in rows],
    }
    for (label, values), color in zip(sides.items(), COLORS, strict=False):
        axes.plot(m, values, marker="o", markersize=4, color=color, label=label)
    axes.set_yscale("log")
    axes.set_xscale("log", base=2)
    axes.set_xticks(m, [str(value) for value in m])
    axes.set_xlabel("m, the number of parts")
    axes.legend(frameon=False, fontsize=8)
    axes.set_title(f"{graph}: the bias and its bound", loc="left")
    return figure


def degree_lines(laws: dict[int, np.ndarray], sampled: dict[int, np.ndarray], graph: str) -> Figure:
    """P(degree ≥ k) of sampled parts: the exact law as a line, what was sampled as dots."""
    figure, (axes,) = _figure(1, 1, 5.2, 3.8)
    for (m, law), color in zip(laws.items(), COLORS, strict=False):
        tail = np.cumsum(law[::-1])[::-1]
        k = np.arange(1, len(law))
        axes.loglog(k, tail[1:], color=color, linewidth=1.2, label=f"m = {m}")
        seen = np.cumsum(sampled[m][::-1])[::-1]
        at = np.unique(np.geomspace(1, max(1, len(seen) - 1), 30).astype(int))
        at = at[(at < len(seen)) & (seen[np.minimum(at, len(seen) - 1)] > 0)]
        axes.scatter(at, seen[at], s=12, color=color, linewidths=0)
    axes.set_ylim(min(float(seen[seen > 0].min()) for seen in sampled.values()) / 2, 1.5)
    axes.set_xlabel("degree k")
    axes.set_ylabel("share of nodes with degree ≥ k")
    axes.legend(frameon=False)
    axes.set_title(f"{graph}: degrees in a part, law and sample", loc="left")
    return figure
