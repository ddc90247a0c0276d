"""``handful compare``: the paper's main table on any graph."""

from __future__ import annotations

from handful.cli import params as p
from handful.cli.app import Answer, note
from handful.vocabulary import METHODS

ALL = ",".join(METHODS)


@p.command(*p.OF_EXPERIMENT, "jobs", "executor", "out")
def compare(given: p.Given, graph: p.Graph, samplers: p.Samplers = ALL) -> Answer:
    """Full-graph training against every sampler: accuracy ± 95% CI, time and peak memory, each in its own process."""
    from handful.cli.options import choose_folder, make_answer, make_comparison, read_defaults, with_split
    from handful.cli.progress import Bar
    from handful.studies.compare import chosen_samplers, compare_samplers, trainable
    from handful.studies.executors import make_executor

    asked, options = make_comparison(graph, given, samplers, read_defaults("compare"))
    names, depth = list(options), asked.options["layers"]
    chosen_samplers(names, options, depth)  # a mistake in them shows before anything is loaded
    asked = with_split(asked)
    chosen, left_out = trainable(asked, chosen_samplers(names, options, depth, asked.load(asked.seeds[0])))
    for why in left_out:
        note(f"left out: {why}")
    folder = choose_folder(given.get("out"), f"compare-{graph}")
    with Bar("epochs", asked.epochs * len(chosen)) as bar:
        executor = make_executor(given.get("executor", "local"), given.get("jobs"))
        found = compare_samplers(asked, chosen, folder, executor, bar.job)
    pictures = [f"picture: {folder / 'curves.svg'}"] if found.charts else []
    return make_answer(found, folder, f"table: {folder / 'table.md'}", *pictures)
