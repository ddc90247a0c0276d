"""Which sampler to use, in one sentence: what a comparison measured of accuracy, time and memory."""

from __future__ import annotations

import math
from typing import Any

from handful.finding import mean_of
from handful.training.metrics import METRICS, Metric
from handful.vocabulary import title

SAME = 1.1
"""Times and memories whose ratio is below this count as equal."""


def verdict(result: dict[str, Any], seeds: int) -> str:
    """Which method to use by the records of ``handful compare``.

    The highest test metric wins where its 95% interval is apart from all others. Where intervals overlap, the methods
    cannot be told apart, and the fastest of them is the one to use. Fewer than three seeds give no interval to go by:
    then the highest mean is named, and that it may be chance.

    Args:
        result: ``metric``, and ``rows`` with ``sampler``, ``test``, ``seconds`` and ``peak_memory_bytes``; a row that
            failed has none of these.
        seeds: how many runs each mean is of.
    """
    rows = [row for row in result["rows"] if mean_of(row.get("test")) is not None]
    if len(rows) < 2:
        return "There are not two methods to compare."
    metric = METRICS[result["metric"]]
    sign = 1 if metric.higher_is_better else -1
    rows.sort(key=lambda row: -sign * float(row["test"]["mean"]))
    best, others = rows[0], rows[1:]
    if seeds < 3:
        few = "one seed is" if seeds == 1 else "two seeds are"
        said = f"{_ahead(best, others[0], metric)} {few} too few to tell that from chance"
        return f"{_named(best)} is ahead: {said}{_memory(best, rows)}."
    alike = [row for row in others if _overlap(best, row)]
    if not alike:
        return f"Use {_named(best)}: {_ahead(best, others[0], metric)[:-1]}{_memory(best, rows)}."
    use = min([best, *alike], key=_seconds)
    tied = [row for row in (best, *alike) if row is not use]
    names = _list([f"{_named(row)} ({metric.told(row['test'])})" for row in tied])
    time = "in about the same time as the fastest of them" if _ratio(tied, use) < SAME else "and it is the fastest"
    return (
        f"Use {_named(use)}: at {metric.told(use['test'])} it cannot be told from {names} by {seeds} seeds, "
        f"{time}{_memory(use, rows)}."
    )


def few_seeds(seeds: int) -> str:
    """What ± means with two seeds, where it helps nobody; nothing otherwise.

    >>> few_seeds(5)
    ''
    """
    if seeds != 2:
        return ""
    return "± is the 95% interval of a mean of two, 12.7 standard errors wide on each side: take three seeds or more."


def _named(row: dict[str, Any]) -> str:
    return title(row["sampler"])


def _seconds(row: dict[str, Any]) -> float:
    return float(row["seconds"]["mean"])


def _ratio(tied: list[dict[str, Any]], use: dict[str, Any]) -> float:
    return min(map(_seconds, tied)) / max(_seconds(use), 1e-9)


def _overlap(best: dict[str, Any], other: dict[str, Any]) -> bool:
    halves = [row["test"]["ci95"] or 0.0 for row in (best, other)]
    apart = abs(best["test"]["mean"] - other["test"]["mean"])
    return bool(apart <= sum(0.0 if math.isnan(half) else half for half in halves))


def _ahead(best: dict[str, Any], second: dict[str, Any], metric: Metric) -> str:
    apart = metric.apart(best["test"]["mean"] - second["test"]["mean"])
    ratio = _seconds(best) / max(_seconds(second), 1e-9)
    cost = "at the same cost" if 1 / SAME < ratio < SAME else f"at {ratio:.2g} times its time"
    return f"{apart} better than {_named(second)}, the next best, {cost};"


def _memory(use: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """Who needs the least memory, where that is told: of the GPU, if any was used."""
    kind = "gpu" if any(row["peak_memory_bytes"].get("gpu") for row in rows) else "ram"
    sizes = [(row["peak_memory_bytes"].get(kind) or 0, row) for row in rows]
    least, who = min(sizes, key=lambda pair: pair[0])
    own = next(size for size, row in sizes if row is use)
    if least <= 0 or max(size for size, _ in sizes) / least < SAME:
        return "; all need about the same memory"
    if own / least < SAME:
        return "; none needs clearly less memory"
    return f"; {_named(who)} needs the least memory ({least / 2**30:.2f} GiB against {own / 2**30:.2f})"


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
