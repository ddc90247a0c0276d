"""``handful compare``: the paper's main table on any graph."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from handful.cli.app import (
    DeviceOption,
    GraphArgument,
    JsonOption,
    RootOption,
    SeedsOption,
    SplitOption,
    ThreadsOption,
    app,
    console,
    emit_json,
    integers,
    out,
)


@app.command()
def compare(
    graph: GraphArgument,
    split: SplitOption = None,
    root: RootOption = None,
    samplers: Annotated[
        str, typer.Option(help="Which samplers, separated by commas.")
    ] = "full,neighbor,cluster,saint,ladies,rns",
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-s", help="An option of one sampler, as sampler.name=value (rns.parts=8)."),
    ] = None,
    model: Annotated[str, typer.Option(help="gcn, sage or gat; the same for every sampler.")] = "sage",
    hidden: Annotated[int, typer.Option(help="Width of the layers.", min=1)] = 256,
    layers: Annotated[int, typer.Option(help="Number of convolutions.", min=1)] = 4,
    norm: Annotated[str, typer.Option(help="bn, ln or none.")] = "bn",
    residual: Annotated[bool, typer.Option(help="Add a Linear of each layer's input to its output.")] = True,
    dropout: Annotated[float, typer.Option(help="Share of activations dropped in training.")] = 0.5,
    epochs: Annotated[int, typer.Option(help="Passes over the batches, the same for every sampler.", min=1)] = 100,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 1e-3,
    weight_decay: Annotated[float, typer.Option(help="Weight decay.")] = 0.0,
    optimizer: Annotated[str, typer.Option(help="adam, adamw, sgd or sgdm.")] = "adam",
    evaluate_every: Annotated[int | None, typer.Option(help="Epochs between evaluations (else 20 in all).")] = None,
    seeds: SeedsOption = "42,123,456,789,101112",
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    jobs: Annotated[int, typer.Option(help="Samplers to run at once; timings are fair only with 1.", min=1)] = 1,
    out_dir: Annotated[
        str | None, typer.Option("--out", help="Folder for records, table and picture; finished runs in it are kept.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Full-graph training against every sampler: accuracy ± 95% CI, time and peak memory, each in its own process."""
    from handful.cli.options import parse_options, run_folder
    from handful.cli.progress import JobProgress
    from handful.datasets import load
    from handful.errors import HandfulError
    from handful.kernels.threads import set_threads
    from handful.nn import make_model
    from handful.report.tables import rich_table
    from handful.samplers import sampler_class
    from handful.studies.compare import compare as run_compare
    from handful.studies.compare import compare_jobs, table_cells

    if threads is not None:
        set_threads(threads)
    names = [name.strip() for name in samplers.split(",") if name.strip()]
    overrides: dict[str, dict[str, Any]] = {}
    for key, value in parse_options(option or []).items():
        sampler, dot, field = key.partition(".")
        if not dot:
            raise HandfulError(f"--option is sampler.name=value, such as rns.parts=8; got '{key}'")
        sampler_class(sampler)
        overrides.setdefault(sampler, {})[field] = value
    data = load(graph, split=split, root=root).require_training()
    architecture = {"hidden": hidden, "layers": layers, "norm": norm, "residual": residual, "dropout": dropout}
    make_model(model, data.num_features, data.num_outputs, **architecture)
    plan = compare_jobs(
        names,
        overrides,
        graph=graph,
        split=split,
        root=root,
        model=model,
        architecture=architecture,
        settings={
            "epochs": epochs,
            "lr": lr,
            "weight_decay": weight_decay,
            "optimizer": optimizer,
            "evaluate_every": evaluate_every or max(1, epochs // 20),
        },
        seeds=tuple(integers(seeds, "--seeds")),
        device=device,
    )
    folder = run_folder(out_dir, f"compare-{graph}")
    del data
    with JobProgress(plan) as progress:
        result, _ = run_compare(plan, folder, jobs, progress)
    if as_json:
        emit_json(result)
    else:
        out.print(rich_table(f"{result['graph']} · {model} {layers}×{hidden} · {epochs} epochs", *table_cells(result)))
        out.print(f"report: {folder / 'report.html'}\ntable: {folder / 'table.md'}\npicture: {folder / 'curves.svg'}")
    if any("error" in row for row in result["rows"]):
        console.print("some samplers failed; see the rows above and the stderr.txt beside their records")
        raise typer.Exit(1)
