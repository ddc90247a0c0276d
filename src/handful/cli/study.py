"""``handful compare``, ``demo``, ``parts``, ``diagnose``, ``study``, ``tune``: compare samplers, and run the paper's
studies.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import handful as hf
from handful.cli import params as p
from handful.cli.app import Answer, note
from handful.errors import HandfulError
from handful.finding import text_table
from handful.vocabulary import METHODS

# -- samplers and numbers of parts, compared on one graph ---------------------------------------------------------

ALL = ",".join(METHODS)
DEMO = "full,rns,rns-mean-field,rns-labels"
COMPARED = p.read_options("compare", equal=p.choice("way to compare", ("epochs", "steps", "seconds")))


@p.command(*p.OF_EXPERIMENT, "jobs", "executor", "out", more=COMPARED)
def compare(given: p.Given, graph: p.Graph, samplers: p.Samplers = ALL) -> Answer:
    """Compare full-graph training with every sampler: accuracy ± 95% CI, time and peak memory."""
    from handful.cli.progress import Bar
    from handful.studies.compare import choose_methods, compare_samplers, trainable
    from handful.studies.executors import make_executor

    asked, options = p.make_comparison(graph, given, samplers, p.DEFAULTS["compare"])
    depth = asked.options["layers"]
    choose_methods(options, depth)  # raise errors about options before the graph is loaded
    asked = p.with_split(asked)
    data = asked.load(asked.seeds[0])
    chosen = trainable(asked, choose_methods(options, depth, data), note, data)
    folder = p.choose_folder(given.get("out"), f"compare-{graph}")
    equal = given.get("equal", "epochs")
    with Bar("epochs", asked.epochs * len(chosen) if equal == "epochs" else None) as bar:
        executor = make_executor(given.get("executor", "local"), given.get("jobs"))
        result = compare_samplers(chosen, folder, executor, bar.job, equal, "no_baselines" not in given)
    pictures = [f"picture: {folder / 'curves.svg'}"] if result.charts else []
    return p.make_answer(result, folder, f"table: {folder / 'table.md'}", *pictures)


@p.command("out")
def demo(given: p.Given) -> Answer:
    """Compare full-graph training with random node sampling on bundled data, which takes about three minutes."""
    options = {"split": "rh", "epochs": 25, "seeds": (42,), "set": ["rns.parts=4"], "out": Path("runs/demo"), **given}
    note(f"handful compare debian --split rh --samplers {DEMO} --set rns.parts=4 --epochs 25 --seeds 42")
    answer = compare(given=options, graph="debian", samplers=DEMO)
    assert answer is not None
    return answer._replace(lines=[*answer.lines, "next:", "  handful train debian   one model in detail"])


Most = Annotated[int, typer.Option(help="Maximum number of parts.", min=2)]


@p.command(*p.OF_EXPERIMENT, "memory", "out")
def parts(given: p.Given, graph: p.Graph, most: Most = 64) -> Answer:
    """Choose m, the number of parts: train with m = 2, 1, 4, 8, … until the validation metric no longer improves.

    If --memory is given, an m that needs more memory is not chosen.
    """
    from handful.cli.progress import Bar
    from handful.studies import study_folder
    from handful.studies.parts import choose_parts

    asked = p.with_split(p.make_experiment(graph, given, p.train_defaults(given, "parts")))
    folder = given.get("out") or study_folder("parts", graph, "auto")
    with Bar("epochs") as bar:
        result = choose_parts(asked, folder, most, given.get("memory"), bar.job)
    return p.make_answer(result, folder, f"runs: {folder}")


@p.command("split", "root", *p.OF_MODEL, "task", "set", "device", "threads", "out")
def diagnose(
    given: p.Given,
    graph: p.Graph,
    samplers: p.Samplers = "rns,rns-mean-field,neighbor,cluster,saint",
    batches: Annotated[int, typer.Option(help="Number of batches of each sampler per repeat.", min=1)] = 50,
    repeats: Annotated[int, typer.Option(help="Number of repeats; each has a new initialisation.", min=1)] = 100,
    weights: Annotated[
        str | None, typer.Option(help="Run or `model.safetensors` whose weights are measured. Default: random weights.")
    ] = None,
    step: Annotated[float | None, typer.Option(help="Also print the modified loss for this learning rate.")] = None,
    momentum: Annotated[float, typer.Option(help="Momentum for the modified loss.", min=0.0, max=0.999)] = 0.0,
    seed: p.Seed = 42,
) -> Answer:
    """Measure the implicit-regularisation terms of each sampler: bias, loss variance, R(w), gradient norm, degrees."""
    from handful.cli.progress import Bar
    from handful.studies.compare import choose_methods, trainable
    from handful.studies.diagnose import diagnose_samplers, read_saved_model

    shape = [name for name in p.OF_MODEL if name in given]
    if weights is not None and shape:
        raise HandfulError(f"--weights has its own model: leave out --{', --'.join(shape)}")
    asked, options = p.make_comparison(graph, given, samplers, p.DEFAULTS["diagnose"], seeds=(seed,))
    asked = p.with_split(asked)
    depth = asked.options["layers"] if weights is None else read_saved_model(weights).options["layers"]
    chosen = trainable(asked, choose_methods(options, depth), note)
    with Bar("repeats", repeats * len(chosen)) as bar:
        result = diagnose_samplers(
            [*chosen.values()], batches, repeats, weights, step, momentum, lambda sampler: bar.step(sampler.method)
        )
    return p.make_answer(result, given.get("out"))


# -- the paper's experiments, on any graph ------------------------------------------------------------------------

Name = Annotated[str | None, typer.Argument(help="Name of a study, or `all`. Default: list the studies.")]


@p.command("split", "root", "seeds", "device", "threads", "jobs", "executor", "out", more=p.read_options("study"))
def study(given: p.Given, name: Name = None) -> Answer:
    """Run a study, or all studies. The result is a table, a sentence and charts. The same command continues an
    interrupted study.
    """
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

    asked = {one: value for one, value in given.items() if one != "threads"}
    graph, budget = given.get("graph"), given.get("budget", Request.budget)
    folder = asked.setdefault("out", study_folder(name, graph, budget))
    if graph is not None and "split" not in given:
        asked["split"] = p.with_split(hf.Experiment(graph, root=given.get("root"))).split
    with Bar("done", word=name) as bar:
        result = run_study(name, Request(**asked, report=bar.at))
    return p.make_answer(result, folder)


# -- tuning -------------------------------------------------------------------------------------------------------

SEARCHED = ("lr", "dropout", "weight_decay")


@p.command(
    *(name for name in p.OF_EXPERIMENT if name not in SEARCHED), "jobs", "executor", "out", more=p.read_options("tune")
)
def tune(
    given: p.Given,
    graph: p.Graph,
    trials: Annotated[int, typer.Option(help="Number of trials per sampling configuration.", min=1)] = 50,
    final: Annotated[bool, typer.Option(help="Train the best configuration of each sampler with all seeds.")] = True,
) -> Answer:
    """Tune learning rate, dropout and weight decay for each sampling configuration; then train with the best values and
    all seeds.

    Several `handful tune` commands may share one --storage, even on several machines. In that case, pass --no-final to
    all commands but one. `optuna-dashboard` shows the trials of a storage.
    """
    from handful.cli.progress import Bar
    from handful.studies import study_folder
    from handful.studies.executors import make_executor
    from handful.studies.presets import GRAPHLAND, read_table
    from handful.studies.tuning import tune_samplers

    paper, graphland, sampling = "paper" in given, graph in GRAPHLAND, given.get("sampling", ["rns"])
    shape = [name for name in p.OF_MODEL if name in given and (name != "model" or graphland)]  # GraphLand has one model
    if paper and shape:
        raise HandfulError(f"--paper takes the paper's architecture: leave out --{shape[0]}, or --paper")
    for pair in given.get("set", []):
        name = pair.partition("=")[0]
        if name in SEARCHED or "=" not in pair or " " in name:
            raise HandfulError(f"--set {pair}: {', '.join(SEARCHED)} are searched; samplers are given by --sampling")
    asked = p.with_split(p.make_experiment(graph, given, p.DEFAULTS["tune"]))
    space = [one for text in sampling for one in list_configurations(asked, text, given)]
    folder = given.get("out") or study_folder("tune", graph, "paper" if paper else asked.model)
    where = given.get("storage") or f"sqlite:///{folder / 'tune.db'}"
    runs = make_executor(given.get("executor", "local"), given.get("jobs"))
    free = paper and graphland and all(len(text.split()) == 1 for text in sampling)
    parts = read_table("protocol", "app:graphland", "protocol", "parts") if free else ()
    with Bar("trials", trials * len(space)) as bar:
        result = tune_samplers(space, where, folder, trials, "prune" in given, final, bar.trial, bar.job, runs, parts)
    return p.make_answer(result, folder, f"storage: {where}")


def list_configurations(asked: hf.Experiment, text: str, given: p.Given) -> list[hf.Experiment]:
    """The experiments for one value of ``--sampling``."""
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
