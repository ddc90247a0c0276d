"""The result of a study, a comparison or a training run, as data: text, tables and charts. ``handful.report`` displays
it.

A finding is saved as ``finding.json``. The page, the terminal output and the figures show only data of the finding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from handful.errors import RunError
from handful.files import plain

FORMAT = 2
"""The version of the format of ``finding.json``. Version 1 had no charts."""
Mark = Literal["line", "dot", "bar", "star"]


@dataclass(frozen=True)
class Cell:
    """One entry of a table: its text, and its rank, which is 1 for the best value of a column or row, 2 for the second
    best, and 0 otherwise.
    """

    text: str
    rank: int = 0


@dataclass(frozen=True)
class Table:
    """A table for display, whose cells are texts.

    Args:
        title: the title of the table.
        head: the names of the columns.
        rows: the rows, each with a cell for every column.

    >>> Table("Two samplers", ["Method", "Test (%)"], [[Cell("RNS"), Cell("72.5", 1)]]).rows[0][1].text
    '72.5'
    """

    title: str
    head: list[str]
    rows: list[list[Cell]]


@dataclass(frozen=True)
class Axis:
    """The x-axis or the y-axis of a view.

    Args:
        label: the measured quantity, with its unit.
        log: whether the scale is logarithmic.
        of: the categories of an axis of categories; empty for an axis of numbers.
        ticks: the values of the tick marks; empty for automatic ticks.
        zero: whether the scale begins at 0.
        whole: whether the values are whole numbers, such as epochs.
    """

    label: str
    log: bool = False
    of: list[str] = field(default_factory=list)
    ticks: list[float] = field(default_factory=list)
    zero: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Series:
    """A series of points that have the same name and colour in a chart.

    Args:
        name: the name of the series in the legend.
        x: numbers, or categories of the axis.
        y: numbers; ``None`` for a missing number.
        low, high: the lower and upper ends of the error bars or of the band; empty for no error bars, ``None`` for an
            unknown end.
        color: the index of the colour in the palette of the report; see ``handful.vocabulary.hues``.
        paper: whether the numbers come from the paper.
        mark: the mark of the series, if it differs from the mark of the view.
        best: the index of the point that is marked as the best.
    """

    name: str
    x: list[Any]
    y: list[float | None]
    low: list[float | None] = field(default_factory=list)
    high: list[float | None] = field(default_factory=list)
    color: int = 0
    paper: bool = False
    mark: Mark | None = None
    best: int | None = None


@dataclass(frozen=True)
class View:
    """Series that are drawn on one pair of axes. The mark is ``line`` (joined points), ``dot``, ``bar`` or ``star``.

    A star has no axes: it shows a node, whose name is the label of x, with an edge to each of its neighbours, the
    categories of x. The width of an edge is the absolute value of y.
    """

    name: str
    mark: Mark
    x: Axis
    y: Axis
    series: list[Series]

    @property
    def drawable(self) -> bool:
        """Whether the view has at least one number to draw."""
        return any(value is not None and math.isfinite(value) for one in self.series for value in one.y)


@dataclass(frozen=True)
class Chart:
    """A figure with one or more views.

    Args:
        name: the stem of the figure's file name.
        title: the title of the figure.
        views: alternative views, of which one is shown at a time, or panels.
        together: whether the views are panels, which are shown side by side.
    """

    name: str
    title: str
    views: list[View]
    together: bool = False


@dataclass(frozen=True)
class Finding:
    """The result of a study or command.

    Args:
        name: the name of the study or command; the payload is saved in ``NAME.json``.
        title: the title of the page.
        words: the conclusion, in one or two sentences.
        tables: the tables above the charts; the first is the main table.
        charts: the charts; views without a number to draw are left out.
        below: the tables below the charts.
        payload: the results as plain values, for programs.
        facts: the settings, by name.
        details: tables of settings, such as the differences between configurations.
        environment: the versions of packages and a description of the machine; empty until the finding is written.
        failed: the names of the runs that failed.
    """

    name: str
    title: str
    words: str = ""
    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    payload: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    details: list[Table] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    below: list[Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        shown = [replace(chart, views=[view for view in chart.views if view.drawable]) for chart in self.charts]
        object.__setattr__(self, "charts", [chart for chart in shown if chart.views])

    def to_json(self) -> dict[str, Any]:
        """All fields except the payload, which is in a separate file. NaN and infinity become null."""
        values = asdict(self)
        del values["payload"]
        return {"format": FORMAT, **plain(values)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Finding:
        """Make a finding from the result of ``to_json``.

        Raises:
            RunError: ``value`` is not a finding, or has another ``FORMAT``.
        """
        again = "run the command that made it again"
        if (given := value.get("format", 1)) != FORMAT:
            raise RunError(f"this finding has format {given}, and this version of handful reads {FORMAT}: {again}")
        try:
            return decode(cls, {name: one for name, one in value.items() if name != "format"})  # type: ignore[no-any-return]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError(f"this is not a finding ({error!r}): {again}") from None


def decode(kind: Any, value: Any) -> Any:
    """Convert JSON values to the annotated type ``kind``. This is the inverse of ``handful.files.plain`` for
    dataclasses.

    Raises:
        TypeError: a value has another type, or a number is not finite.

    >>> decode(list[float | None], [1, None]), decode(Cell, {"text": "72.5", "rank": 1})
    ([1, None], Cell(text='72.5', rank=1))
    """
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: decode(hints[name], one) for name, one in value.items()})  # type: ignore[operator]
    if origin in (list, tuple) and isinstance(value, list):
        return origin(decode(inner[0], one) for one in value)
    if origin in (Union, UnionType):
        return None if value is None else decode(inner[0], value)
    if origin is Literal:
        fits = value in inner
    elif kind is float:
        fits = type(value) in (int, float) and math.isfinite(value)
    else:
        fits = kind is Any or type(value) is (origin or kind)
    if not fits:
        raise TypeError(f"{value!r:.60} is no {getattr(kind, '__name__', kind)}")
    return value


# -- parts of findings ------------------------------------------------------------------------------------------------


def text_table(title: str, head: Sequence[str], rows: Iterable[Iterable[str]]) -> Table:
    """Make a table of texts, in which no value is marked as the best."""
    return Table(title, list(head), [[Cell(text) for text in row] for row in rows])


def best_two(values: Sequence[float | None], highest: bool) -> list[int]:
    """The rank of each value: 1 for the best, 2 for the second best, 0 for all others and for missing values. Equal
    values have the same rank.

    >>> best_two([3.0, 1.0, 2.0], highest=True)
    [1, 0, 2]
    """
    order = sorted({value for value in values if value is not None and value == value}, reverse=highest)[:2]
    return [order.index(v) + 1 if v in order else 0 for v in values]


def ranked(texts: Iterable[str], values: Sequence[float | None], highest: bool) -> list[Cell]:
    """Make a cell for each text, and mark the cells with the two best values.

    >>> [cell.rank for cell in ranked(["3 s", "1 s", "2 s"], [3.0, 1.0, 2.0], highest=False)]
    [0, 1, 2]
    """
    return [Cell(text, rank) for text, rank in zip(texts, best_two(values, highest), strict=True)]


def points(name: str, x: list[Any], values: Sequence[Any], color: int = 0, scale: float = 1.0) -> Series:
    """Make a series with error bars. Each value is ``{"mean", "ci95"}``, a number or ``None``; numbers are multiplied
    by ``scale``.

    >>> points("RNS", [1], [{"mean": 0.5, "ci95": 0.1}], scale=100).high
    [60.0]
    """
    halves = [mean_of(value.get("ci95")) or 0.0 if isinstance(value, dict) else 0.0 for value in values]
    y = [None if (mean := mean_of(value)) is None else scale * mean for value in values]
    low, high = (
        [None if mean is None else mean + sign * scale * half for mean, half in zip(y, halves, strict=True)]
        for sign in (-1, 1)
    )
    return Series(name, x, y, low, high, color) if any(halves) else Series(name, x, y, color=color)


def lines(x: Iterable[Any], values: Mapping[str, Iterable[float | None]]) -> list[Series]:
    """Make a series for each name in ``values``, all with the same ``x``. Colours are in the order of the palette.

    >>> [(one.name, one.y, one.color) for one in lines([1, 2], {"law": [3.0, 4.0], "sample": [3.1, 3.9]})]
    [('law', [3.0, 4.0], 0), ('sample', [3.1, 3.9], 1)]
    """
    places = list(x)
    return [Series(name, places, list(y), color=i) for i, (name, y) in enumerate(values.items())]


def mean_of(value: Any) -> float | None:
    """The mean if ``value`` is ``{"mean", …}``, otherwise ``value`` itself; ``None`` if this number is missing or not
    finite.
    """
    mean = value.get("mean") if isinstance(value, dict) else value
    return None if mean is None or not math.isfinite(mean) else float(mean)
