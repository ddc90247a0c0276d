"""``handful study`` and ``tune``: the paper's experiments, and its tuning protocol, on any graph."""

from __future__ import annotations

from typing import Annotated

import typer

import handful as hf
from handful.cli import params as p
from handful.cli.app import Answer, note
from handful.errors import HandfulError
from handful.finding import text_table

OWN = {
    "graph": p.option(str, p.DATA, "Graph of the study, such as debian."),
    "budget": p.option(str, p.TRAINING, "Size of the study: smoke, laptop or paper. Default: laptop."),
    "tune_each": p.option(int, p.TRAINING, "Tuning trials per m or fanout (studies parts and fanout).", min=0),
    "resume": p.option(bool, p.RECORDS, "Continue the runs in --out. A study always does.", "--resume"),
    "epochs": p.option(int, p.TRAINING, "Epochs of each run, such as 20. Default: those of the study.", min=1),
    "optimizer": p.option(str, p.TRAINING, "Optimiser of the study backward-error: sgd, sgdm or adam."),
}


@p.command("split", "root", "seeds", "device", "threads", "jobs", "executor", "out", more=OWN)
def study(
    given: p.Given,
    name: Annotated[str | None, typer.Argument(help="Name of a study, or all. Default: list them.")] = None,
) -> Answer:
    """Run a study, or all studies: a table, a sentence and charts. The same command continues an interrupted one."""
    from handful.studies import STUDIES, study_names

    if name is None:
        known = study_names()
        listed = [{"name": key, "shows": text} for key, text in known.items()]
        return Answer({"studies": listed}, [text_table("studies", ["name", "what it shows"], known.items())])
    if name != "all":
        return run_one(name, given)
    answers = {}
    for one in STUDIES:
        own = {**given, "out": given["out"] / one} if "out" in given else given
        try:
            answers[one] = run_one(one, own)
        except HandfulError as error:
            note(f"left out: {one}: {error}")
    results = answers.values()
    tables, lines = ([part for answer in results for part in getattr(answer, key)] for key in ("tables", "lines"))
    payload = {one: answer.payload for one, answer in answers.items()}
    return Answer(payload, tables, lines, max((answer.code for answer in results), default=2))


def run_one(name: str, given: p.Given) -> Answer:
    """Run one study, and write its finding."""
    from handful.cli.progress import Bar
    from handful.studies import Request, run_study, study_folder

    asked = {one: value for one, value in given.items() if one not in ("threads", "resume")}
    graph, budget = given.get("graph"), given.get("budget", Request.budget)
    folder = asked.setdefault("out", study_folder(name, graph, budget))
    if graph is not None and "split" not in given:
        asked["split"] = p.with_split(hf.Experiment(graph, root=given.get("root"))).split
    with Bar("done", word=name) as bar:
        result = run_study(name, Request(**asked, report=bar.at))
    return p.make_answer(result, folder)


# -- tuning -----------------------------------------------------------------------------------------------------------

SEARCHED = ("lr", "dropout", "weight_decay")
TUNING = {
    "sampling": p.option(list[str], p.SAMPLER, "Sampler to tune, such as rns, or 'rns parts=4'; repeatable."),
    "paper": p.option(bool, None, "Use the paper's architecture and epochs; with --model those of Table 4.", "--paper"),
    "prune": p.option(bool, None, "Stop unpromising trials early. The paper does not.", "--prune"),
    "storage": p.option(str, None, "URL of an Optuna storage. Default: tune.db in --out."),
}


@p.command(*(name for name in p.OF_EXPERIMENT if name not in SEARCHED), "jobs", "executor", "out", more=TUNING)
def tune(
    given: p.Given,
    graph: p.Graph,
    trials: Annotated[int, typer.Option(help="Number of trials per sampling configuration.", min=1)] = 50,
    final: Annotated[bool, typer.Option(help="Train the best configuration of each sampler with all seeds.")] = True,
) -> Answer:
    """Tune learning rate, dropout and weight decay for each sampling configuration; then train the best with all seeds.

    Several of these commands may share one --storage, even on several machines. All but one then need --no-final.
    `optuna-dashboard` opens it.
    """
    from handful.cli.progress import Bar
    from handful.studies import study_folder
    from handful.studies.executors import make_executor
    from handful.studies.presets import GRAPHLAND, read_table
    from handful.studies.tuning import tune_samplers

    paper, prune = given.get("paper", False), given.get("prune", False)
    shape = [name for name in p.OF_MODEL if name in given and name != "model"]
    if paper and "model" in given and graph in GRAPHLAND:
        shape.append("model")  # it has one alone
    if paper and shape:
        raise HandfulError(f"--paper takes the paper's architecture: leave out --{shape[0]}, or --paper")
    for pair in given.get("set", []):
        name = pair.partition("=")[0]
        if name in SEARCHED or "=" not in pair or " " in name:
            raise HandfulError(f"--set {pair}: {', '.join(SEARCHED)} are searched; samplers are given by --sampling")
    asked = p.with_split(p.make_experiment(graph, given, p.DEFAULTS["tune"]))
    space = [one for text in given.get("sampling", ["rns"]) for one in list_configurations(asked, text, given)]
    folder = given.get("out") or study_folder("tune", graph, "paper" if paper else asked.model)
    where = given.get("storage") or f"sqlite:///{folder / 'tune.db'}"
    runs = make_executor(given.get("executor", "local"), given.get("jobs"))
    named = any(len(text.split()) > 1 for text in given.get("sampling", []))
    one = paper and graph in GRAPHLAND and not named
    parts = read_table("protocol", "app:graphland", "protocol", "parts") if one else ()
    with Bar("trials", trials * len(space)) as bar:
        result = tune_samplers(space, where, folder, trials, prune, final, bar.trial, bar.job, runs, parts)
    return p.make_answer(result, folder, f"storage: {where}")


def list_configurations(asked: hf.Experiment, text: str, given: p.Given) -> list[hf.Experiment]:
    """The experiments of one ``--sampling``."""
    from handful.studies.presets import GRAPHLAND
    from handful.studies.tuning import paper_space, sampling_space

    if not text.strip():
        raise HandfulError("--sampling takes a sampler, such as rns or 'rns parts=4'")
    name, *pairs = text.split()
    if given.get("paper"):
        how, _ = p.sort_options(given, [], {})
        space = paper_space(asked, name, given.get("model"))
        epochs = how.get("epochs", space[0].settings.epochs)
        usual = 1 if asked.graph in GRAPHLAND else max(1, epochs // p.RUNS["evaluations"])
        own = [one.with_(epochs=epochs, evaluate_every=how.get("evaluate_every", usual)) for one in space]
    else:
        own = [asked.with_(sampler=one) for one in sampling_space(name, asked.options["layers"])]
    kept = own[0].sampler.options() if given.get("paper") else {}
    return [own[0].with_(sampler=hf.make_sampler(name, **{**kept, **p.parse_options(pairs)}))] if pairs else own
