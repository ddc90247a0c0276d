"""``handful study``: an experiment by name."""

from __future__ import annotations

from typing import Annotated

import typer

import handful as hf
from handful.cli import params as p
from handful.cli.app import Answer
from handful.finding import text_table

OWN = {
    "graph": p.option(str, p.DATA, "The graph to study, where a study takes one."),
    "budget": p.option(str, p.TRAINING, "How much to compute: smoke, laptop or paper (else laptop)."),
    "tune_each": p.option(int, p.TRAINING, "Trials for every m or fanout before it is trained (parts, fanout).", min=0),
}


@p.command("split", "root", "seeds", "device", "threads", "jobs", "executor", "out", more=OWN)
def study(
    given: p.Given,
    name: Annotated[str | None, typer.Argument(help="Which study; without a name, all are listed.")] = None,
) -> Answer:
    """One of the experiments, as a table, a sentence and pictures; asked again, it goes on where it was."""
    from handful.cli.options import make_answer, with_split
    from handful.cli.progress import Bar
    from handful.studies import Request, run_study, study_folder, study_names

    if name is None:
        known = study_names()
        listed = [{"name": key, "shows": text} for key, text in known.items()]
        return Answer({"studies": listed}, [text_table("studies", ["name", "what it shows"], known.items())])
    asked = {one: value for one, value in given.items() if one != "threads"}
    graph, budget = given.get("graph"), given.get("budget", Request.budget)
    folder = asked.setdefault("out", study_folder(name, graph, budget))
    if graph is not None and "split" not in given:
        asked["split"] = with_split(hf.Experiment(graph, root=given.get("root"))).split
    with Bar("done", word=name) as bar:
        found = run_study(name, Request(**asked, report=bar.at))
    return make_answer(found, folder)
