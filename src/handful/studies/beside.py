"""Our numbers beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from handful.errors import HandfulError
from handful.finding import Cell, Series, Table, points
from handful.studies import presets
from handful.training.metrics import METRICS, Metric
from handful.vocabulary import title

MEASURED = {"test": "test", "full": "full", "rns": "RNS"}
"""What the metric was measured on or of."""
COLUMNS = {
    **MEASURED,
    "seconds": "seconds",
    "epoch_seconds": "seconds per epoch",
    "gpu_gb": "GPU (GB)",
    "ram_gb": "RAM (GB)",
    "epoch": "epoch time (×)",
    "epochs": "epochs (×)",
    "start": "time (×)",
    "nostart": "without start-up (×)",
}
"""The measures for which the paper has numbers, as a column says them."""
LABELLED = ("dataset", "regime", "optimizer", "model", "sampler", "fanout", "target")


def paper_number(table: str, *row: str) -> Any:
    """What the paper has in this place of a table; ``None`` where it has nothing, as for graphs of others.

    >>> paper_number("tab:main-results", "debian", "rns") is None
    True
    """
    try:
        return presets.paper_result(table, *row)
    except HandfulError:
        return None


def beside_paper(payload: dict[str, Any]) -> Table | None:
    """A row for every entry of ``payload`` that has the paper's numbers with it: each of ours, then the paper's.

    An entry is judged by the ``metric`` that stands in it, or next above it.
    """
    found = [(label, judge, _ours(entry), _paper(entry)) for label, judge, entry in _entries(payload, (), None)]
    names = [name for name in COLUMNS if any(name in paper for _, _, _, paper in found)]
    if not names:
        return None
    unit = " (%)" if all(judge.percent for _, judge, _, _ in found) else ""
    titles = {name: words + (unit if name in MEASURED else "") for name, words in COLUMNS.items()}
    head = ["", *(column for name in names for column in (titles[name], "paper"))]
    rows = [
        [Cell(label), *(Cell(_text(values.get(name), judge)) for name in names for values in (ours, paper))]
        for label, judge, ours, paper in found
    ]
    return Table("Beside the paper", head, rows)


def points_beside(name: str, x: list[Any], ours: list[Any], paper: list[Any], color: int, scale: float) -> list[Series]:
    """Our points times ``scale`` and, where the paper has some, the paper's."""
    series = [points(name, x, ours, color, scale)]
    if any(paper):
        theirs = points(f"{name}, paper", x, paper, color, scale)
        series.append(Series(theirs.name, x, theirs.y, theirs.low, theirs.high, color, paper=True))
    return series


def _entries(value: Any, where: tuple[str, ...], judge: Metric | None) -> Iterator[tuple[str, Metric, dict[str, Any]]]:
    """Every dict with a ``paper`` in it, named by the texts above and in it, and what it is judged by."""
    if isinstance(value, list):
        for inner in value:
            yield from _entries(inner, where, judge)
    elif isinstance(value, dict):
        judge = METRICS[value["metric"]] if "metric" in value else judge
        here = (*where, *(_label(value[key], judge) for key in LABELLED if value.get(key) is not None))
        if value.get("paper"):
            if judge is not None:  # else they are not of a trained model
                yield " · ".join(here), judge, value
            return
        for key, inner in value.items():
            yield from _entries(inner, (*here, key.upper()) if key in ("rl", "rh") else here, judge)


def _label(value: Any, judge: Metric | None) -> str:
    """A name as people read it; a number is a target."""
    return judge.told(value) if isinstance(value, float) and judge is not None else title(str(value))


def _ours(entry: dict[str, Any]) -> dict[str, Any]:
    memory = entry.get("peak_memory_bytes") or {}
    return {**entry, **{f"{kind}_gb": size / 1e9 for kind, size in memory.items() if size is not None}}


def _paper(entry: dict[str, Any]) -> dict[str, Any]:
    """The paper's numbers by measure; one that stands alone is of the test metric, and none is out of memory."""
    paper: dict[str, Any] = entry["paper"]
    return {"test": paper} if "mean" in paper else {k: "OOM" if v is None else v for k, v in paper.items()}


def _text(value: Any, judge: Metric) -> str:
    """What has an interval is the metric; anything else as it is."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and "ci95" in value:
        return judge.text(value)
    number = value["mean"] if isinstance(value, dict) else value
    return "–" if number is None or number != number else f"{number:,.0f}" if number >= 100 else f"{number:.2f}"
