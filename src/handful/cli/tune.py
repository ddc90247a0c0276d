"""``handful tune``: the paper's tuning protocol on any graph."""

from __future__ import annotations

from typing import Annotated

import typer

import handful as hf
from handful.cli import params as p
from handful.cli.app import Answer
from handful.errors import HandfulError

SEARCHED = ("lr", "dropout", "weight_decay")
OWN = {
    "sampling": p.option(list[str], p.SAMPLER, "A sampler with the paper's space (rns), or 'rns parts=4'; repeatable."),
    "paper": p.option(bool, None, "Architecture and epochs of the paper for this data set.", "--paper"),
    "prune": p.option(bool, None, "Stop trials that fall behind; off in the paper.", "--prune"),
    "storage": p.option(str, None, "URL of any Optuna storage, which others may share (else tune.db in --out)."),
}


@p.command(*(name for name in p.OF_EXPERIMENT if name not in SEARCHED), "jobs", "executor", "out", more=OWN)
def tune(
    given: p.Given,
    graph: p.Graph,
    trials: Annotated[int, typer.Option(help="Trials of each sampling configuration.", min=1)] = 50,
    final: Annotated[bool, typer.Option(help="Train the best of each sampler with all seeds at the end.")] = True,
) -> Answer:
    """Learning rate, dropout and weight decay by Bayesian trials, apart for every sampling configuration; then seeds.

    Several of these commands may share one --storage, also from other machines; give all but one --no-final.
    `optuna-dashboard` opens it.
    """
    from handful.cli.options import make_answer, make_experiment, read_defaults, with_split
    from handful.cli.progress import Bar
    from handful.studies import study_folder
    from handful.studies.executors import make_executor
    from handful.studies.tuning import tune_samplers

    paper, prune = given.get("paper", False), given.get("prune", False)
    shape = [name for name in p.OF_MODEL if name in given]
    if paper and shape:
        raise HandfulError(f"--paper takes the paper's architecture: leave out --{shape[0]}, or --paper")
    for pair in given.get("set", []):
        name = pair.partition("=")[0]
        if name in SEARCHED or "=" not in pair or " " in name:
            raise HandfulError(f"--set {pair}: {', '.join(SEARCHED)} are searched; samplers are given by --sampling")
    asked = with_split(make_experiment(graph, given, read_defaults("tune")))
    space = [one for text in given.get("sampling", ["rns"]) for one in list_configurations(asked, text, given)]
    folder = given.get("out") or study_folder("tune", graph, "paper" if paper else asked.model)
    where = given.get("storage") or f"sqlite:///{folder / 'tune.db'}"
    executor, jobs = given.get("executor", "local"), given.get("jobs")
    runs = None if executor == "local" and jobs in (None, 1) else make_executor(executor, jobs)
    with Bar("trials", trials * len(space)) as bar:
        found = tune_samplers(space, where, folder, trials, prune, final, bar.trial, bar.job, runs)
    return make_answer(found, folder, f"storage: {where}")


def list_configurations(asked: hf.Experiment, text: str, given: p.Given) -> list[hf.Experiment]:
    """The experiments that one ``--sampling`` stands for."""
    from handful.cli.options import EVALUATIONS, sort_options
    from handful.studies.tuning import paper_space, sampling_space

    if not text.strip():
        raise HandfulError("--sampling takes a sampler, such as rns or 'rns parts=4'")
    name, *pairs = text.split()
    if given.get("paper"):
        how, _ = sort_options(given, [], {})
        own = []
        for one in paper_space(asked, name):
            epochs = how.get("epochs", one.settings.epochs)
            every = how.get("evaluate_every", max(1, epochs // EVALUATIONS))
            own.append(one.with_(epochs=epochs, evaluate_every=every))
    else:
        own = [asked.with_(sampler=one) for one in sampling_space(name, asked.options["layers"])]
    return [own[0].with_(sampler=hf.make_sampler(name, **p.parse_options(pairs)))] if pairs else own
