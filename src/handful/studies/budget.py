"""How much a study trains under each budget, and the jobs that come of it.

``paper`` is what the paper's tables say. ``laptop`` and ``smoke`` take any graph: a small model, few epochs, and one
learning rate and dropout for all. They keep what a study compares, and make no claim on the accuracies of the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from handful.errors import HandfulError
from handful.nn import model_options
from handful.samplers import make_sampler
from handful.studies import Request, presets
from handful.studies.jobs import Job, Outcome, run_jobs
from handful.studies.presets import Recipe

EVALUATIONS = {"smoke": 20, "laptop": 20, "paper": 200}
"""How often a run is evaluated; the paper does not tell."""
PARTS = 4
LR, DROPOUT = 0.01, 0.5
SLOWER = 4
"""Neighbour sampling gets this many times fewer epochs: its batches are many, and the paper gives it 20 for 1000."""


@dataclass(frozen=True)
class Scale:
    """The model and the epochs of a study under ``laptop``."""

    hidden: int
    layers: int
    epochs: int


SMOKE = Scale(hidden=16, layers=3, epochs=2)


def scaled(request: Request, laptop: Scale) -> Scale:
    """The scale for this budget, which is not ``paper``."""
    return SMOKE if request.budget == "smoke" else laptop


def graph_of(request: Request, paper: str) -> str:
    """The graph asked for, else debian, or ``paper`` under that budget."""
    return request.graph or (paper if request.budget == "paper" else "debian")


def small_model(model: str, scale: Scale) -> dict[str, Any]:
    """The options of a model of this scale; SGFormer's layers are those of its GCN, beside one of attention."""
    layers = {"layers": 1, "gnn_layers": scale.layers} if model == "sgformer" else {"layers": scale.layers}
    return {"hidden": scale.hidden, **layers, **({"residual": True} if "residual" in model_options(model) else {})}


def small_recipe(sampler: str, scale: Scale) -> Recipe:
    """How a sampler trains at this scale: all alike, but for the epochs of neighbour sampling."""
    options: dict[str, dict[str, Any]] = {"rns": {"parts": PARTS}, "ladies": {"budget": [8192] * scale.layers}}
    epochs = max(1, scale.epochs // SLOWER) if sampler == "neighbor" else scale.epochs
    return Recipe("", sampler, LR, DROPOUT, 0.0, epochs, options.get(sampler, {}))


def benchmark(request: Request, graph: str, sampler: str, laptop: Scale) -> tuple[Recipe, str, dict[str, Any]]:
    """Recipe, model and its options in the sampling benchmark: GraphSAGE, and a GCN for LADIES."""
    if request.budget == "paper":
        return presets.sampling(graph, sampler), *presets.benchmark_model(graph, sampler)
    scale = scaled(request, laptop)
    model = "gcn" if sampler == "ladies" else "sage"
    return small_recipe(sampler, scale), model, small_model(model, scale)


def job(
    request: Request,
    name: str,
    graph: str,
    recipe: Recipe,
    model: str,
    options: dict[str, Any],
    split: str | None = None,
    **settings: Any,
) -> Job:
    """The job of a recipe; ``settings`` win over the recipe's."""
    how = recipe.settings() | settings
    how.setdefault("evaluate_every", max(1, how["epochs"] // EVALUATIONS[request.budget]))
    if recipe.devices > 1 and request.device.startswith("cuda"):
        how["devices"] = [f"cuda:{i}" for i in range(recipe.devices)]
    make_sampler(recipe.sampler, **recipe.options)  # a mistake shows before anything runs
    return Job(
        name=name,
        graph=graph,
        sampler=recipe.sampler,
        sampler_options=recipe.options,
        model=model,
        architecture=options | {"dropout": recipe.dropout},
        settings=how,
        seeds=request.seeds,
        split=split or request.split,
        root=request.root,
        device=request.device,
    )


def pair(request: Request, graph: str, laptop: Scale, **settings: Any) -> list[Job]:
    """Full-graph training and RNS, as in the sampling benchmark."""
    return [job(request, s, graph, *benchmark(request, graph, s, laptop), **settings) for s in ("full", "rns")]


def train(request: Request, jobs: Sequence[Job]) -> list[Outcome]:
    """Run the jobs that are not done, below ``request.out``."""
    total, done = sum(job.epochs for job in jobs), dict.fromkeys((job.name for job in jobs), 0)

    def progress(name: str, epochs: int, word: str) -> None:
        done[name] = epochs
        request.report(sum(done.values()), total, f"{name}: {word}")

    return run_jobs(jobs, request.out, request.jobs, progress)


def failures(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Why each job failed that did."""
    return {o.job.name: o.error or "it did not finish" for o in outcomes if o.summary is None}


def graph_and_metric(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    """The graph's own name and its metric, from the first job that is done."""
    for outcome in outcomes:
        if outcome.summary is not None:
            return str(outcome.summary["graph"]), str(outcome.summary["metric"])
    return outcomes[0].job.graph, "accuracy"


def setting(jobs: Sequence[Job]) -> str:
    """What all jobs have in common, for a title."""
    epochs = sorted({job.settings["epochs"] for job in jobs})
    seeds = ", ".join(map(str, jobs[0].seeds))
    return f"{' or '.join(map(str, epochs))} epochs · seed{'s' * (len(jobs[0].seeds) > 1)} {seeds}"


def printed(table: str, *row: str) -> Any:
    """What the paper has in this place of a table; ``None`` where it has nothing, as for graphs of others."""
    try:
        return presets.paper_result(table, *row)
    except HandfulError:
        return None
