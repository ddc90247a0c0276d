"""``handful diagnose``: what does my sampler really optimise?"""

from __future__ import annotations

from typing import Annotated

import typer

from handful.cli import params as p
from handful.cli.app import Answer
from handful.errors import HandfulError


@p.command("split", "root", *p.OF_MODEL, "task", "set", "device", "threads", "out")
def diagnose(
    given: p.Given,
    graph: p.Graph,
    samplers: p.Samplers = "rns,rns-hubs,neighbor,cluster,saint",
    batches: Annotated[int, typer.Option(help="Batches of each sampler in a repeat.", min=1)] = 50,
    repeats: Annotated[int, typer.Option(help="Fresh initialisations and samples.", min=1)] = 100,
    weights: Annotated[str | None, typer.Option(help="A run or model.safetensors: its model, at its weights.")] = None,
    step: Annotated[float | None, typer.Option(help="A learning rate: also tell the modified loss for it.")] = None,
    momentum: Annotated[float, typer.Option(help="Momentum for the modified loss.", min=0.0, max=0.999)] = 0.0,
    seed: p.Seed = 42,
) -> Answer:
    """The implicit-regularisation terms of each sampler: bias, loss variance, R(w), gradient norm, and degrees kept."""
    from handful.cli.options import make_answer, make_comparison, read_defaults, with_split
    from handful.cli.progress import Bar
    from handful.studies.compare import chosen_samplers
    from handful.studies.diagnose import diagnose_samplers, saved_model
    from handful.vocabulary import TERMS

    shape = [name for name in p.OF_MODEL if name in given]
    if weights is not None and shape:
        raise HandfulError(f"--weights brings its own model: leave out --{', --'.join(shape)}")
    asked, options = make_comparison(graph, given, samplers, read_defaults("diagnose"), seeds=(seed,))
    asked = with_split(asked)
    depth = asked.options["layers"] if weights is None else saved_model(weights).options["layers"]
    chosen = chosen_samplers(list(options), options, depth)
    with Bar("repeats", repeats * len(chosen)) as bar:
        found = diagnose_samplers(
            asked, chosen, batches, repeats, weights, step, momentum, lambda sampler: bar.step(sampler.method)
        )
    rows = [{"name": row["name"], **{term: row[term] for term in TERMS}} for row in found.payload["samplers"]]
    return make_answer(found, given.get("out"))._replace(payload={"graph": found.payload["graph"], "samplers": rows})
