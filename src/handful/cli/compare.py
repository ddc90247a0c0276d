"""``handful compare``: the paper's main table on any graph."""

from __future__ import annotations

from typing import Annotated

import typer

from handful.cli.app import (
    PAPER_SEEDS,
    DeviceOption,
    DropoutOption,
    EpochsOption,
    GraphArgument,
    HiddenOption,
    JsonOption,
    LayersOption,
    LrOption,
    ModelOption,
    NormOption,
    OptimizerOption,
    ResidualOption,
    RootOption,
    SamplerOptionsOption,
    SeedsOption,
    SplitOption,
    ThreadsOption,
    TwentyEvaluationsOption,
    WeightDecayOption,
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
    option: SamplerOptionsOption = None,
    model: ModelOption = "sage",
    hidden: HiddenOption = 256,
    layers: LayersOption = 4,
    norm: NormOption = "bn",
    residual: ResidualOption = True,
    dropout: DropoutOption = 0.5,
    epochs: EpochsOption = 100,
    lr: LrOption = 1e-3,
    weight_decay: WeightDecayOption = 0.0,
    optimizer: OptimizerOption = "adam",
    evaluate_every: TwentyEvaluationsOption = None,
    seeds: SeedsOption = PAPER_SEEDS,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    jobs: Annotated[int, typer.Option(help="Samplers to run at once; timings are fair only with 1.", min=1)] = 1,
    out_dir: Annotated[
        str | None, typer.Option("--out", help="Folder for records, table and picture; finished runs in it are kept.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Full-graph training against every sampler: accuracy ± 95% CI, time and peak memory, each in its own process."""
    from handful.cli.options import chosen_samplers, run_folder
    from handful.cli.progress import JobProgress
    from handful.datasets import load
    from handful.nn import make_model
    from handful.report.tables import rich_table
    from handful.studies.compare import compare as run_compare
    from handful.studies.compare import compare_jobs, even_batches, table_cells

    chosen_samplers(samplers, option or [], layers)  # a mistake in them shows before anything is loaded
    data = load(graph, split=split, root=root).require_training()
    even = even_batches(data, samplers.split(","))
    chosen = chosen_samplers(samplers, [*even, *(option or [])], layers)
    architecture = {"hidden": hidden, "layers": layers, "norm": norm, "residual": residual, "dropout": dropout}
    make_model(model, data.num_features, data.num_outputs, **architecture)
    plan = compare_jobs(
        chosen,
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
