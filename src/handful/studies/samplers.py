"""The main table: full-graph training against every sampler, accuracy, time and memory."""

from __future__ import annotations

from handful.finding import Finding
from handful.studies.budget import Scale, benchmark, train_jobs
from handful.studies.compare import SAMPLERS, comparison
from handful.studies.request import Request

SCALE = Scale(hidden=128, layers=3, epochs=40)


def run(request: Request) -> Finding:
    """Every sampler with the paper's model and hyperparameters for it, or all with the same small ones."""
    graph = request.graph_or("ogbn-arxiv")
    jobs = {sampler: benchmark(request, graph, sampler, SCALE) for sampler in SAMPLERS}
    return comparison("samplers", jobs, train_jobs(request, jobs))
