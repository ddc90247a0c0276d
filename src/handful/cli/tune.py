"""``handful tune``: the paper's tuning protocol on any graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from handful.cli.app import (
    PAPER_SEEDS,
    DeviceOption,
    EpochsOption,
    GraphArgument,
    HiddenOption,
    JsonOption,
    LayersOption,
    ModelOption,
    RootOption,
    SeedsOption,
    SplitOption,
    ThreadsOption,
    TwentyEvaluationsOption,
    app,
    emit_json,
    integers,
    out,
)

if TYPE_CHECKING:
    from handful.studies.tuning import Best, Plan


@app.command()
def tune(
    graph: GraphArgument,
    split: SplitOption = None,
    root: RootOption = None,
    sampling: Annotated[
        list[str] | None,
        typer.Option(
            "--sampling",
            "-s",
            help="A sampler with the paper's search space (rns), or one configuration ('rns parts=4'); repeatable.",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(help="Trials of each sampling configuration.", min=1)] = 50,
    model: ModelOption = "sage",
    hidden: HiddenOption = 256,
    layers: LayersOption = 4,
    epochs: EpochsOption = 100,
    evaluate_every: TwentyEvaluationsOption = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Architecture and epochs of the paper for this data set.")
    ] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Stop trials that fall behind; off in the paper.")] = False,
    storage: Annotated[
        str | None, typer.Option(help="URL of any Optuna storage, which others may share (else tune.db in --out).")
    ] = None,
    final: Annotated[bool, typer.Option(help="Train the best of each sampler with all seeds at the end.")] = True,
    seeds: SeedsOption = PAPER_SEEDS,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    out_dir: Annotated[
        str | None, typer.Option("--out", help="Folder (else one under runs/); asked again, the search goes on there.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Learning rate, dropout and weight decay by Bayesian trials, apart for every sampling configuration; then seeds.

    Several of these commands may share one --storage, also from other machines; give all but one --no-final.
    `optuna-dashboard` opens it.
    """
    from handful.cli.options import parse_options
    from handful.cli.progress import JobProgress, progress_bar
    from handful.datasets import load
    from handful.errors import HandfulError
    from handful.samplers import make_sampler
    from handful.studies import presets, study_folder
    from handful.studies.jobs import run_jobs
    from handful.studies.tuning import Plan, final_job, sampling_space, search

    seed_list = integers(seeds, "--seeds")
    folder = Path(out_dir) if out_dir else study_folder("tune", graph, "paper" if paper else model)
    where = storage or f"sqlite:///{folder / 'tune.db'}"

    def plan_for(sampler: str) -> Plan:
        length = presets.epochs(graph, sampler) if paper else epochs
        name, options = (
            presets.benchmark_model(graph, sampler) if paper else (model, _architecture(model, hidden, layers))
        )
        settings: dict[str, Any] = {"epochs": length, "evaluate_every": evaluate_every or max(1, length // 20)}
        if paper and sampler == "neighbor":
            settings["evaluation"] = "sampled"
        return Plan(graph, name, options, settings, split, root, device, seed_list[0])

    space = []
    for text in sampling or ["rns"]:
        if not text.strip():
            raise HandfulError("--sampling takes a sampler, such as rns or 'rns parts=4'")
        name, *pairs = text.split()
        plan = plan_for(name)
        choices = [parse_options(pairs)] if pairs else sampling_space(name, plan.architecture["layers"])
        space += [(plan, make_sampler(name, **options)) for options in choices]
    data = load(graph, split=split, root=root, seed=seed_list[0]).require_training()
    called, metric = data.name, data.metric
    del data
    found: list[tuple[Plan, Best]] = []
    with progress_bar("trials") as bar:
        task = bar.add_task("", total=len(space) * trials)
        for i, (plan, sampler) in enumerate(space):

            def report(study: str, done: int, of: int, before: int = i) -> None:
                bar.update(task, completed=before * of + done, description=study)

            found.append((plan, search(plan, sampler, where, trials, prune, report)))
    best: dict[str, tuple[Plan, Best]] = {}
    for plan, one in found:
        if one.sampler not in best or one.val > best[one.sampler][1].val:
            best[one.sampler] = plan, one
    result: dict[str, Any] = {
        "graph": called,
        "metric": metric,
        "storage": where,
        "searches": [one.to_json() for _, one in found],
        "final": [],
    }
    if final:
        jobs = [final_job(plan, one, seed_list) for plan, one in best.values()]
        with JobProgress(jobs) as progress:
            outcomes = run_jobs(jobs, folder / "final", 1, progress)
        for outcome, (_, one) in zip(outcomes, best.values(), strict=True):
            if outcome.summary is None:
                raise HandfulError(f"training the best of {one.sampler} failed: {outcome.error}")
            result["final"].append({**one.to_json(), "val": outcome.summary["val"], "test": outcome.summary["test"]})
    if as_json:
        emit_json(result)
    else:
        show(result)


def _architecture(model: str, hidden: int, layers: int) -> dict[str, Any]:
    from handful.nn import model_options

    return {"hidden": hidden, "layers": layers, **({"residual": True} if "residual" in model_options(model) else {})}


def show(result: dict[str, Any]) -> None:
    """The result for people."""
    from handful.report.tables import Cell, best_two, percent, rich_table
    from handful.samplers import make_sampler

    def described(row: dict[str, Any]) -> list[Cell]:
        chosen = (f"{row[name]:g}" for name in ("lr", "dropout", "weight_decay"))
        return [Cell(str(make_sampler(row["sampler"], **row["options"]))), *map(Cell, chosen)]

    head = ["sampling", "lr", "dropout", "weight decay"]
    searches = result["searches"]
    ranks = best_two([row["val"] for row in searches], highest=True)
    rows = [
        [*described(row), Cell(f"{100 * row['val']:.2f}", rank), Cell(str(row["trials"]))]
        for row, rank in zip(searches, ranks, strict=True)
    ]
    out.print(rich_table(f"{result['graph']} · best trials", [*head, "validation (%)", "trials"], rows))
    if result["final"]:
        rows = [[*described(row), Cell(percent(row["val"])), Cell(percent(row["test"]))] for row in result["final"]]
        title = f"{result['graph']} · the best of each sampler over the seeds"
        out.print(rich_table(title, [*head, "validation (%)", "test (%)"], rows))
    out.print(f"storage: {result['storage']}", soft_wrap=True)
