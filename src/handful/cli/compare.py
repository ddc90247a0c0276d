"""``handful compare``, ``demo``, ``parts`` and ``diagnose``: samplers and numbers of parts, compared on one graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli import params as p
from handful.cli.app import Answer, note
from handful.errors import HandfulError
from handful.vocabulary import METHODS

ALL = ",".join(METHODS)
DEMO = "full,rns,rns-mean-field"
WAYS = ("epochs", "steps", "seconds")
OWN = {
    "equal": p.choice("way to compare", WAYS, p.TRAINING, "What is equal for all: epochs (default), steps or seconds."),
    "no_baselines": p.option(bool, p.EVALUATION, "Skip the baselines without a GNN.", "--no-baselines"),
}


@p.command(*p.OF_EXPERIMENT, "jobs", "executor", "out", more=OWN)
def compare(given: p.Given, graph: p.Graph, samplers: p.Samplers = ALL) -> Answer:
    """Compare full-graph training with every sampler: accuracy ± 95% CI, time and peak memory."""
    from handful.cli.progress import Bar
    from handful.studies.compare import choose_methods, compare_samplers, trainable
    from handful.studies.executors import make_executor

    asked, options = p.make_comparison(graph, given, samplers, p.DEFAULTS["compare"])
    depth = asked.options["layers"]
    choose_methods(list(options), options, depth)  # raise errors about options before the graph is loaded
    asked = p.with_split(asked)
    methods = choose_methods(list(options), options, depth, asked.load(asked.seeds[0]))
    chosen, left_out = trainable(asked, methods)
    for why in left_out:
        note(f"left out: {why}")
    folder = p.choose_folder(given.get("out"), f"compare-{graph}")
    equal = given.get("equal", "epochs")
    with Bar("epochs", asked.epochs * len(chosen) if equal == "epochs" else None) as bar:
        executor = make_executor(given.get("executor", "local"), given.get("jobs"))
        result = compare_samplers(chosen, folder, executor, bar.job, equal, "no_baselines" not in given)
    pictures = [f"picture: {folder / 'curves.svg'}"] if result.charts else []
    return p.make_answer(result, folder, f"table: {folder / 'table.md'}", *pictures)


@p.command("out")
def demo(given: p.Given) -> Answer:
    """Compare full-graph training with random node sampling on embedded data, in about three minutes."""
    options = {"split": "rh", "epochs": 25, "seeds": (42,), "set": ["rns.parts=4"], "out": Path("runs/demo"), **given}
    note(f"handful compare debian --split rh --samplers {DEMO} --set rns.parts=4 --epochs 25 --seeds 42")
    answer = compare(given=options, graph="debian", samplers=DEMO)
    assert answer is not None
    return answer._replace(lines=[*answer.lines, "next:", "  handful train debian   one model in detail"])


@p.command(*p.OF_EXPERIMENT, "memory", "out")
def parts(
    given: p.Given,
    graph: p.Graph,
    most: Annotated[int, typer.Option(help="Maximum number of parts.", min=2)] = 64,
) -> Answer:
    """Choose m, the number of parts: train with m = 2, 1, 4, 8, … until the validation metric no longer improves.

    With --memory, an m that needs more memory is not chosen.
    """
    from handful.cli.progress import Bar
    from handful.studies import study_folder
    from handful.studies.parts import choose_parts

    asked = p.with_split(p.make_experiment(graph, given, p.DEFAULTS["parts"]))
    folder = given.get("out") or study_folder("parts", graph, "auto")
    with Bar("epochs") as bar:
        result = choose_parts(asked, folder, most, given.get("memory"), bar.job)
    return p.make_answer(result, folder, f"runs: {folder}")


@p.command("split", "root", *p.OF_MODEL, "task", "set", "device", "threads", "out")
def diagnose(
    given: p.Given,
    graph: p.Graph,
    samplers: p.Samplers = "rns,rns-mean-field,neighbor,cluster,saint",
    batches: Annotated[int, typer.Option(help="Batches of each sampler per repeat.", min=1)] = 50,
    repeats: Annotated[int, typer.Option(help="Number of random initialisations.", min=1)] = 100,
    weights: Annotated[str | None, typer.Option(help="Run or model.safetensors to measure. Default: none.")] = None,
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
    chosen, left_out = trainable(asked, choose_methods(list(options), options, depth))
    for why in left_out:
        note(f"left out: {why}")
    with Bar("repeats", repeats * len(chosen)) as bar:
        result = diagnose_samplers(
            [*chosen.values()], batches, repeats, weights, step, momentum, lambda sampler: bar.step(sampler.method)
        )
    return p.make_answer(result, given.get("out"))
