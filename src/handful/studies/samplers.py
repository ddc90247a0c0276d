"""The main table: full-graph training against every sampler, accuracy, time and memory."""

from __future__ import annotations

from handful.report.curves import curves_figure
from handful.report.tables import TITLES, Cell, percent
from handful.studies import Finding, Request
from handful.studies.budget import Scale, benchmark, failures, graph_of, job, printed, setting, train
from handful.studies.compare import SAMPLERS, table_cells, table_json

SCALE = Scale(hidden=128, layers=3, epochs=40)


def run(request: Request) -> Finding:
    """Every sampler with the paper's model and hyperparameters for it, or all with the same small ones."""
    graph = graph_of(request, "ogbn-arxiv")
    jobs = [job(request, sampler, graph, *benchmark(request, graph, sampler, SCALE)) for sampler in SAMPLERS]
    outcomes = train(request, jobs)
    result = table_json(outcomes)
    head, rows = table_cells(result)
    for row in result["rows"]:
        row["paper"] = printed("tab:main-results", graph, row["sampler"])
    if any(row["paper"] for row in result["rows"]):
        head = [*head, "Paper (%)"]
        rows = [[*cells, Cell(percent(row["paper"]["test"]))] for cells, row in zip(rows, result["rows"], strict=True)]
    curves = {TITLES[o.job.sampler]: o.histories() for o in outcomes if o.summary is not None}
    title = f"{result['graph']}: validation against time"
    return Finding(
        payload=result,
        title=f"{result['graph']} · {setting(jobs)}",
        head=head,
        rows=rows,
        words=in_words({row["sampler"]: row["test"]["mean"] for row in result["rows"] if "test" in row}),
        pictures={"curves.svg": curves_figure(curves, result["metric"], title)} if curves else {},
        failed=tuple(failures(outcomes)),
    )


def in_words(tests: dict[str, float]) -> str:
    """Who is best, and how far RNS is from full-graph training and from the best of the others."""
    if not {"full", "rns"} < set(tests):
        return "Without full-graph training, RNS and another there is nothing to compare."
    rival = max((name for name in tests if name not in ("full", "rns")), key=lambda name: tests[name])
    return (
        f"RNS is {100 * (tests['rns'] - tests['full']):+.2f} points from full-graph training and "
        f"{100 * (tests['rns'] - tests[rival]):+.2f} from {TITLES[rival]}, the best of the others."
    )
