"""``handful diagnose``: what does my sampler really optimise?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from handful.cli.app import (
    DeviceOption,
    GraphArgument,
    HiddenOption,
    JsonOption,
    LayersOption,
    ModelOption,
    NormOption,
    ResidualOption,
    RootOption,
    SamplerOptionsOption,
    SplitOption,
    ThreadsOption,
    app,
    emit_json,
    out,
)

if TYPE_CHECKING:
    from handful.samplers import Sampler
    from handful.theory.diagnosis import Diagnosis

TITLES = {
    "bias": "bias |L_full − L̄|",
    "loss_variance": "Var of losses",
    "R": "R(w)",
    "grad_norm_sq": "‖∇L̄‖²",
    "alpha_error": "|α − α_full|",
}


@app.command()
def diagnose(
    graph: GraphArgument,
    split: SplitOption = None,
    root: RootOption = None,
    samplers: Annotated[str, typer.Option(help="Which samplers, separated by commas.")] = "rns,neighbor,cluster,saint",
    option: SamplerOptionsOption = None,
    batches: Annotated[int, typer.Option(help="Batches of each sampler in a repeat.", min=1)] = 50,
    repeats: Annotated[int, typer.Option(help="Fresh initialisations and samples.", min=1)] = 100,
    model: ModelOption = "sage",
    hidden: HiddenOption = 128,
    layers: LayersOption = 3,
    norm: NormOption = "bn",
    residual: ResidualOption = False,
    weights: Annotated[
        str | None, typer.Option(help="A run folder or model.safetensors to measure at, not a random initialisation.")
    ] = None,
    step: Annotated[float | None, typer.Option(help="A step size: also tell the modified loss for it.")] = None,
    momentum: Annotated[float, typer.Option(help="Momentum for the modified loss.", min=0.0, max=0.999)] = 0.0,
    seed: Annotated[int, typer.Option(help="Of initialisations and samples.")] = 42,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    out_dir: Annotated[str | None, typer.Option("--out", help="Folder for the record and the pictures.")] = None,
    as_json: JsonOption = False,
) -> None:
    """The implicit-regularisation terms of each sampler: bias, loss variance, R(w), gradient norm, and degrees kept."""
    from handful.cli.options import chosen_samplers
    from handful.cli.progress import progress_bar
    from handful.datasets import load
    from handful.nn import make_model
    from handful.theory import diagnosis
    from handful.training import load_weights

    chosen = chosen_samplers(samplers, option or [], layers)
    data = load(graph, split=split, root=root, seed=seed).require_training().to(device)
    architecture = {"hidden": hidden, "layers": layers, "norm": norm, "residual": residual}

    def network() -> Any:
        fresh = make_model(model, data.num_features, data.num_outputs, **architecture)
        if weights is not None:
            load_weights(fresh, weights)
        return fresh

    network()  # a mistake in the architecture shows before anything runs
    with progress_bar("repeats") as bar:
        task = bar.add_task("", total=repeats * len(chosen))

        def report(sampler: Sampler) -> None:
            bar.update(task, advance=1, description=sampler.name)

        bar.update(task, description=chosen[0].name)
        found = diagnosis.diagnose(data, chosen, network, batches, repeats, seed, report)
    result = {"graph": data.name, "samplers": [d.to_json() for d in found]}
    if out_dir is not None:
        settings = {"model": model, **architecture, "weights": weights, "batches": batches, "repeats": repeats}
        write(found, data.name, {**settings, "seed": seed}, Path(out_dir))
    if as_json:
        emit_json(result)
        return
    where = "the weights given" if weights is not None else "random initialisation"
    title = f"{data.name} · {model} {layers}×{hidden} · {batches} batches × {repeats} repeats at {where}"
    show(found, title, step, momentum)
    if out_dir is not None:
        names = ", ".join(sorted(path.name for path in Path(out_dir).iterdir()))
        out.print(f"in {out_dir}: {names}")


def write(found: list[Diagnosis], graph: str, settings: dict[str, Any], folder: Path) -> None:
    """The record, repeat by repeat, and the two pictures."""
    from handful.files import write_json
    from handful.theory import diagnosis, pictures

    record = {
        "graph": graph,
        "settings": settings,
        "samplers": [d.record() for d in found],
        "alpha_R_rank_correlation": diagnosis.relation(found),
        "words": diagnosis.in_words(found),
    }
    write_json(folder / "diagnose.json", record)
    pictures.save(pictures.term_bars(found, graph), folder / "terms.svg")
    pictures.save(pictures.alpha_plane(found, graph), folder / "alpha-R.svg")


def show(found: list[Diagnosis], heading: str, step: float | None, momentum: float) -> None:
    """The result for people."""
    import numpy as np

    from handful.report.tables import Cell, best_two, rich_table
    from handful.statistics import mean_ci95
    from handful.theory import diagnosis
    from handful.theory.hubs import HUBS
    from handful.theory.implicit import modified_loss

    rows = [[Cell("targets of a batch"), *(Cell(f"{d.mean('targets'):,.0f}") for d in found)]]
    for term, title in TITLES.items():
        means = [d.mean(term) for d in found]
        # A small gradient is no merit: all other terms are distances from the full graph.
        ranks = best_two(means, highest=False) if term != "grad_norm_sq" else [0] * len(found)
        texts = [_text(mean_ci95(d.values(term))) for d in found]
        rows.append([Cell(title), *(Cell(text, rank) for text, rank in zip(texts, ranks, strict=True))])
        if term == "R":
            each = [d.variance_per_target for d in found]
            ranks = best_two(each, highest=False)
            cells = (Cell(f"{value:.3g}", rank) for value, rank in zip(each, ranks, strict=True))
            rows.append([Cell("R × targets"), *cells])
            rows.append([Cell(f"R due to {HUBS} hubs"), *(Cell(_share(d.hub_share)) for d in found)])
    if step is not None:
        modified = ([modified_loss(t, step, momentum) for t in d.terms] for d in found)
        rows.append([Cell(f"L̃ at α = {step:g}"), *(Cell(f"{np.mean(values):.4g}") for values in modified)])
    out.print(rich_table(heading, ["", *(d.name for d in found)], rows))
    rho = diagnosis.relation(found)
    if np.isfinite(rho):
        out.print(f"rank correlation of |α error| and R over these samplers: {rho:.2f}")
    out.print(diagnosis.in_words(found))


def _text(value: dict[str, float]) -> str:
    interval = value["ci95"]
    return f"{value['mean']:.3g}" + ("" if interval != interval else f" ± {interval:.1g}")


def _share(value: float) -> str:
    return "–" if value != value else f"{100 * value:.0f}%"
