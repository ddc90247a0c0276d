"""``handful diagnose``: what does my sampler really optimise?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli import params as p
from handful.cli.app import app, emit, given


@app.command()
def diagnose(
    ctx: typer.Context,
    graph: p.Graph,
    split: p.Split = None,
    root: p.Root = None,
    samplers: p.Samplers = "rns,rns-hubs,neighbor,cluster,saint",
    option: p.SamplerOptions = None,
    batches: Annotated[int, typer.Option(help="Batches of each sampler in a repeat.", min=1)] = 50,
    repeats: Annotated[int, typer.Option(help="Fresh initialisations and samples.", min=1)] = 100,
    model: p.Model = None,
    hidden: Annotated[int | None, typer.Option(help="Width of the layers (else 128).")] = None,
    layers: Annotated[int | None, typer.Option(help="Number of layers (else 3).")] = None,
    norm: p.Norm = None,
    residual: Annotated[
        bool | None, typer.Option(help="Add a Linear of each layer's input to its output (else not).")
    ] = None,
    task: p.Task = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="What `handful train` wrote, or a model.safetensors, to measure at with the model that is saved there."
        ),
    ] = None,
    step: Annotated[float | None, typer.Option(help="A learning rate: also tell the modified loss for it.")] = None,
    momentum: Annotated[float, typer.Option(help="Momentum for the modified loss.", min=0.0, max=0.999)] = 0.0,
    seed: Annotated[int, typer.Option(help="Of initialisations and samples.", min=0)] = 42,
    device: p.Device = None,
    threads: p.Threads = None,
    out_dir: Annotated[str | None, typer.Option("--out", help="Folder for the record and the pictures.")] = None,
    as_json: p.Json = False,
) -> None:
    """The implicit-regularisation terms of each sampler: bias, loss variance, R(w), gradient norm, and degrees kept."""
    from handful.cli.options import experiment, publish, sampler_options, with_split
    from handful.cli.progress import Bar
    from handful.errors import HandfulError
    from handful.studies.compare import chosen_samplers
    from handful.studies.diagnose import BASE, diagnose_samplers, saved_model
    from handful.theory.diagnosis import TERMS

    shape = given(model=model, hidden=hidden, layers=layers, norm=norm, residual=residual)
    if weights is not None and shape:
        raise HandfulError(f"--weights brings its own model: leave out --{', --'.join(shape)}")
    asked = with_split(experiment(ctx.params, BASE, seeds=(seed,)))
    names, options = sampler_options(samplers, option or [])
    depth = asked.options["layers"] if weights is None else saved_model(weights).options["layers"]
    chosen = chosen_samplers(names, options, depth)
    with Bar("repeats", repeats * len(chosen)) as bar:
        found = diagnose_samplers(
            asked, chosen, batches, repeats, weights, step, momentum, lambda sampler: bar.step(sampler.method)
        )
    told = [{"name": row["name"], **{term: row[term] for term in TERMS}} for row in found.payload["samplers"]]
    where = [] if out_dir is None else [f"report: {publish(found, Path(out_dir)).path}"]
    emit({"graph": found.payload["graph"], "samplers": told}, as_json, found.tables, found.words, *where)
