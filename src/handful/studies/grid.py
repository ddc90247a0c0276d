"""Arrange the jobs of a study in a grid of rows and columns, and make tables and charts of their outcomes and of the
paper's numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from handful.errors import HandfulError
from handful.experiment import Experiment
from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View, best_two, mean_of, points
from handful.samplers import Sampler
from handful.studies import presets
from handful.studies.budget import Request, train_jobs, tune_jobs
from handful.studies.jobs import Outcome
from handful.studies.trained import configurations, curve_charts, read_trained
from handful.training.metrics import Metric
from handful.vocabulary import hues, title, words

Side = Literal["row", "column"]


@dataclass(frozen=True)
class Entry:
    """A job of a study, and its row and column in the grid.

    Args:
        experiment: the experiment.
        row, column: the names of the row and the column: a method, a model, an optimiser, or any text.
        x: the x value of the job in a chart whose x axis has numbers.
        label: the display name of the job; by default made from row and column.
        paper: the paper's numbers for the job, by measure.
        facts: additional fields of the job's record.
        samplers: the samplers from which tuning chooses; by default, it keeps the sampler of the experiment.
    """

    experiment: Experiment
    row: str
    column: str = ""
    x: float | None = None
    label: str = ""
    paper: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    samplers: Sequence[Sampler] = ()

    @property
    def name(self) -> str:
        """The display name of the job."""
        return self.label or ", ".join(title(part) for part in (self.row, self.column) if part)


@dataclass(frozen=True)
class Measure:
    """A column in a table of jobs, which shows a field of ``Run`` or a fact of the entries. If the column is ranked,
    the smallest value is the best.

    Values are multiplied by ``scale`` and formatted with ``text``. For test and validation metrics, the ``Metric``
    determines the format and the ranking instead.
    """

    key: str
    head: str
    text: Callable[[float], str] = "{:,.2f}".format
    ranked: bool = False
    scale: float = 1.0

    @property
    def of_metric(self) -> bool:
        """True for the test metric and the validation metric, false for all other measures."""
        return self.key in ("test", "val")


TEST, VALIDATION = Measure("test", "Test", ranked=True), Measure("val", "Validation")
SECONDS, EPOCH_SECONDS = Measure("seconds", "Seconds", "{:.1f}".format), Measure("epoch_seconds", "Seconds per epoch")
MEMORY, RAM, GPU = (
    Measure(key, f"{head} (GiB)", scale=2**-30)
    for key, head in (("memory", "Peak memory"), ("peak_ram_bytes", "RAM"), ("peak_gpu_bytes", "GPU"))
)
PEAKS = (RAM, GPU)


def paper_number(table: str, *place: str) -> dict[str, Any] | None:
    """The paper's numbers in one cell of a table, by measure; ``None`` if the paper has no such cell.

    If the cell has a single number, it is the test metric. If the run was out of memory, the number is ``None``.

    >>> paper_number("tab:main-results", "debian", "rns") is None
    True
    """
    try:
        result = presets.paper_result(table, *place)
    except HandfulError:
        return None
    return {"test": result} if result is None or "mean" in result else dict(result)


BESIDE = {
    "test": Measure("test", "test"),
    "seconds": Measure("seconds", "seconds"),
    "epoch_seconds": Measure("epoch_seconds", "seconds per epoch"),
    "gpu_gb": Measure("peak_gpu_bytes", "GPU (GB)", scale=1e-9),
    "ram_gb": Measure("peak_ram_bytes", "RAM (GB)", scale=1e-9),
}
"""The measures in the table that shows our numbers beside the paper's."""


@dataclass(frozen=True)
class Grid:
    """The entries and the outcomes of a study, by the names of the jobs. ``cross_table`` and ``cross_finding`` need a
    job for every pair of a row and a column.
    """

    entries: Mapping[str, Entry]
    outcomes: Mapping[str, Outcome]

    @classmethod
    def train(cls, request: Request, entries: Mapping[str, Entry]) -> Grid:
        """Run the unfinished jobs of ``entries``, and return the grid. If ``request.tune_each`` is not 0, tune the jobs
        first.
        """
        samplers = {name: entry.samplers for name, entry in entries.items()}
        jobs = tune_jobs(request, {name: entry.experiment for name, entry in entries.items()}, samplers)
        return cls(entries, train_jobs(request, jobs))

    @property
    def done(self) -> list[Outcome]:
        """The outcomes of the jobs that did not fail."""
        return [outcome for outcome in self.outcomes.values() if outcome.summary is not None]

    @property
    def failed(self) -> dict[str, str]:
        """The error message of each failed job."""
        return {name: str(o.error) for name, o in self.outcomes.items() if o.summary is None}

    @property
    def metric(self) -> Metric:
        """The metric of the first finished job; accuracy if there is none."""
        return next(iter(self.done or self.outcomes.values())).metric

    @property
    def graph(self) -> str:
        """The name of the graph."""
        asked = next(iter(self.entries.values())).experiment.graph
        return next((outcome.summary.graph for outcome in self.outcomes.values() if outcome.summary), asked)

    @property
    def setting(self) -> str:
        """The numbers of epochs and the seeds, as text for a title."""
        jobs = [entry.experiment for entry in self.entries.values()]
        epochs = sorted({job.settings.epochs for job in jobs})
        return f"{' or '.join(map(str, epochs))} epochs · seed{'s' * (len(jobs[0].seeds) > 1)} {words(jobs[0].seeds)}"

    def names(self, side: Side) -> list[str]:
        """The names of the rows or of the columns, in order."""
        return list(dict.fromkeys(getattr(entry, side) for entry in self.entries.values()))

    def job(self, row: str, column: str) -> str:
        """The name of the job in this row and column."""
        return next(job for job, e in self.entries.items() if (e.row, e.column) == (row, column))

    def outcome(self, row: str, column: str) -> Outcome:
        """The outcome of the job in this row and column."""
        return self.outcomes[self.job(row, column)]

    def value(self, job: str, measure: str = "test") -> Any:
        """The value of a measure for a job: a fact of the job, or an estimate over its seeds. The estimate is ``None``
        for a failed job.
        """
        facts = self.entries[job].facts
        return facts[measure] if measure in facts else self.outcomes[job].estimate(measure)

    def mean(self, row: str, column: str = "", measure: str = "test") -> float | None:
        """The mean of a measure for the job in this row and column."""
        return mean_of(self.value(self.job(row, column), measure))

    # -- tables -------------------------------------------------------------------------------------------------------

    def ranks(self, jobs: Iterable[str], measure: Measure = TEST) -> dict[str, int]:
        """The rank of each job: 1 for the best, 2 for the second best, 0 for all others."""
        if not measure.ranked:
            return {}
        values = {job: mean_of(self.value(job, measure.key)) for job in jobs}
        highest = measure.of_metric and all(self.outcomes[job].metric.higher_is_better for job in values)
        return dict(zip(values, best_two(list(values.values()), highest), strict=True))

    def cell(self, job: str, measure: Measure = TEST, rank: int = 0) -> Cell:
        """The table cell that shows a measure of a job."""
        value = self.value(job, measure.key)
        if value is None:
            return Cell("failed" if measure.of_metric else "")
        if measure.of_metric:
            return Cell(self.outcomes[job].metric.text(value), rank)
        return Cell("–" if (mean := mean_of(value)) is None else measure.text(measure.scale * mean), rank)

    def cross_table(self, heading: str, corner: str, best_in: Side, apart: bool = False) -> Table:
        """Make a table of the test metric, by row and column. The best two values in each row or column (``best_in``)
        are marked.

        If ``apart``, another column shows the difference between the last and the first column.
        """
        rows, columns = self.names("row"), self.names("column")
        ranks: dict[str, int] = {}
        for name in self.names(best_in):
            ranks |= self.ranks(job for job, entry in self.entries.items() if getattr(entry, best_in) == name)
        cells = []
        for row in rows:
            jobs = [self.job(row, column) for column in columns]
            result = [Cell(title(row)), *(self.cell(job, rank=ranks[job]) for job in jobs)]
            if apart:
                gap = self.gap((row, columns[0]), (row, columns[-1]))
                result.append(Cell("" if gap is None else self.outcome(row, columns[0]).metric.signed(gap)))
            cells.append(result)
        return Table(heading, [corner, *map(title, columns), *(["Δ"] if apart else [])], cells)

    def gap(self, low: tuple[str, str], high: tuple[str, str]) -> float | None:
        """The test metric in the cell ``high`` minus the test metric in the cell ``low``. A cell is a pair (row,
        column).
        """
        less, more = self.mean(*low), self.mean(*high)
        return None if less is None or more is None else more - less

    def list_table(self, heading: str, corner: str, measures: Sequence[Measure]) -> Table:
        """Make a table with a row per job and a column per measure. In ranked columns, the best two
        values are marked.
        """
        ranks = {measure.key: self.ranks(self.entries, measure) for measure in measures}
        rows = []
        for job, entry in self.entries.items():
            cells = [self.cell(job, measure, ranks[measure.key].get(job, 0)) for measure in measures]
            if job in self.failed:
                cells[0] = Cell(f"failed: {self.failed[job]}")
            rows.append([Cell(title(entry.row)), *cells])
        heads = [self.metric.label(m.head) if m.of_metric else m.head for m in measures]
        return Table(heading, [corner, *heads], rows)

    def beside(self) -> list[Table]:
        """Make a table of our numbers beside the paper's numbers, for the jobs that are in the paper. If there are no
        such jobs, there is no table.
        """
        known = {job: entry.paper for job, entry in self.entries.items() if entry.paper}
        measures = {name: one for name, one in BESIDE.items() if any(name in paper for paper in known.values())}
        if not measures:
            return []
        unit = " (%)" if all(self.outcomes[job].metric.percent for job in known) else ""
        head = [part for one in measures.values() for part in (one.head + unit * one.of_metric, "paper")]
        rows = []
        for job, paper in known.items():
            row = [Cell(self.entries[job].name)]
            for name, measure in measures.items():
                text = self.outcomes[job].metric.text if measure.of_metric else measure.text
                theirs = "" if name not in paper else "OOM" if paper[name] is None else text(paper[name])
                row += [self.cell(job, measure), Cell(theirs)]
            rows.append(row)
        return [Table("Beside the paper", ["", *head], rows)]

    # -- charts and findings ------------------------------------------------------------------------------------------

    def series(self, by: Side, measure: Measure = TEST) -> list[Series]:
        """For each row or column (``by``), make a series with error bars and, if the paper has numbers, a series of the
        paper's test metric.
        """
        scale = self.metric.scale if measure.of_metric else measure.scale
        names, result = self.names(by), []
        for name, hue in zip(names, hues(names), strict=True):
            own = {job: entry for job, entry in self.entries.items() if getattr(entry, by) == name}
            x = [title(e.column if by == "row" else e.row) if e.x is None else e.x for e in own.values()]
            result.append(points(title(name), x, [self.value(job, measure.key) for job in own], hue, scale))
            papers = [(entry.paper or {}).get("test") for entry in own.values()]
            if measure.key == "test" and any(papers):
                result.append(replace(points(f"{title(name)}, paper", x, papers, hue, scale), paper=True))
        return result

    def cross_finding(
        self,
        name: str,
        words: str,
        corner: str,
        by: Side,
        topic: str,
        x: Axis | None = None,
        where: str | None = None,
        apart: bool = False,
        payload: Mapping[str, Any] | None = None,
    ) -> Finding:
        """Make a finding with a table of rows and columns, and a chart with one series for each row or column (``by``).

        By default, the x axis shows the names of the columns or rows; ``x`` replaces it by an axis of numbers. The
        table marks the best values along the x axis.
        """
        other: Side = "row" if by == "column" else "column"
        x, where = x or Axis("", of=[title(one) for one in self.names(other)]), where or self.graph
        label = " or ".join(dict.fromkeys(outcome.metric.label("test") for outcome in self.done))
        view = View("test", "dot" if x.of else "line", x, Axis(label), self.series(by))
        table = self.cross_table(f"{where} · {label} · {self.setting}", corner, other, apart)
        return self.finding(name, words, [table], [Chart(name, f"{where}: {topic}", [view])], payload=payload)

    def finding(
        self,
        name: str,
        words: str,
        tables: Sequence[Table],
        charts: Sequence[Chart] = (),
        records: str = "cells",
        payload: Mapping[str, Any] | None = None,
        curves: bool = True,
    ) -> Finding:
        """Make the finding of the study ``name``. The table of the paper's numbers follows after ``tables``, and the
        training curves (if ``curves``) follow after ``charts``.

        In the payload, the key ``records`` contains the records of the jobs. The argument ``payload`` contains
        additional entries.
        """
        trained = [run for o in self.done if (run := read_trained(o.folder, o.name, self.entries[o.name].name))]
        facts, details = configurations(trained)
        cells = [{**e.facts, **self.outcomes[job].to_json(), "paper": e.paper} for job, e in self.entries.items()]
        kept = {"graph": self.graph, "metric": self.metric.name, records: cells, **(payload or {})}
        drawn = curve_charts(trained if curves else [])
        tables, charts, failed = [*tables, *self.beside()], [*charts, *drawn], tuple(self.failed)
        return Finding(name, tables[0].title, words, tables, charts, kept, facts, details, failed=failed)
