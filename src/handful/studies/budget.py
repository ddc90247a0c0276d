"""The options of a study (``Request``), the amount of training for each budget, and the experiments that studies run.

The budget ``paper`` uses the settings of the paper's tables. ``laptop`` and ``smoke`` work for any graph, with a small
model, few epochs, and the same learning rate and dropout for all methods. These two budgets make the same comparisons
as ``paper``, but do not reach the accuracies of ``paper``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from handful.errors import HandfulError, require_name
from handful.experiment import VARIANTS, Experiment
from handful.samplers import Sampler
from handful.studies import presets
from handful.studies.executors import make_executor
from handful.studies.jobs import Outcome, run_jobs
from handful.studies.tuning import search
from handful.vocabulary import PAPER_SEEDS

T = TypeVar("T")
BUDGETS = {"smoke": PAPER_SEEDS[:1], "laptop": PAPER_SEEDS[:3], "paper": PAPER_SEEDS}
"""The budgets, and their default seeds."""


@dataclass(frozen=True)
class Request:
    """The options of a study.

    Args:
        graph: the name or path of a graph; by default, the study chooses the graph.
        split, root: as for ``handful.load``.
        budget: the amount of computation: ``smoke``, ``laptop`` or ``paper``.
        seeds: the seeds; by default the seeds of the budget.
        epochs: the number of epochs per run, for ``laptop`` and ``smoke``; by default, the study chooses the number.
        device: the device on which the runs train.
        out: the folder for the runs. Finished runs are not repeated.
        jobs: the number of parallel runs; by default 1 on this machine, or the capacity of a cluster.
        executor: ``local`` for this machine, or ``ray`` for a cluster.
        tune_each: the number of trials that tune the learning rate, dropout and weight decay of each configuration
            before it is trained; 0 for no tuning. Only for the studies ``parts``, ``fanout`` and ``survey``.
        optimizer: the optimiser for the study ``backward-error``: ``sgd``, ``sgdm`` or ``adam``.
        report: a progress function; it is called with the number of finished units, the total number, and the name of
            the current item.

    ``seeds_given`` is true if the caller has set ``seeds``.

    >>> Request(budget="smoke").seeds
    (42,)
    """

    graph: str | None = None
    split: str | None = None
    root: str | None = None
    budget: str = "laptop"
    seeds: tuple[int, ...] = ()
    device: str = "cpu"
    out: Path = Path("runs")
    jobs: int | None = None
    executor: str = "local"
    tune_each: int = 0
    optimizer: str = "sgd"
    epochs: int | None = None
    report: Callable[[int, int, str], None] = lambda done, total, word: None
    seeds_given: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        require_name("budget", self.budget, BUDGETS)
        if self.epochs is not None and self.budget == "paper":
            raise HandfulError("budget 'paper' has the epochs of the paper: use epochs with 'laptop' or 'smoke'")
        object.__setattr__(self, "seeds_given", bool(self.seeds))
        if not self.seeds:
            object.__setattr__(self, "seeds", BUDGETS[self.budget])

    def graph_or(self, paper: str) -> str:
        """The graph of the request. If the request has none, the result is ``debian``, or the graph ``paper`` if the
        budget is ``paper``.
        """
        return self.graph or (paper if self.budget == "paper" else "debian")

    def each(self, items: Sequence[T], word: Callable[[T], str] = str) -> Iterator[T]:
        """Report each item of ``items``, and then yield it."""
        for done, item in enumerate(items):
            self.report(done, len(items), word(item))
            yield item
        self.report(len(items), len(items), "done")


def study_folder(name: str, graph: str | None, budget: str) -> Path:
    """The default folder of a study. The same arguments give the same folder, so that a second call continues the
    first.

    >>> study_folder("parts", "data/my graph.npz", "auto").name
    'study-parts-my-graph.npz-auto'
    """
    words = [name, *([Path(graph).name] if graph else []), budget]
    return Path("runs") / ("study-" + re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(words)))


# -- experiments -------------------------------------------------------------------------------------------------------

EVALUATIONS = {"smoke": 20, "laptop": 20, "paper": 200}
"""The number of evaluations per run, for each budget. The paper does not state this number."""
PARTS = 4
SAMPLERS = ("rns", "neighbor", "cluster", "saint")
"""The samplers whose batches are compared without training."""
SLOWER = 4
"""Neighbour sampling has many batches per epoch, so its number of epochs is divided by this number. The paper trains
neighbour sampling for 20 epochs, and other samplers for 1000.
"""


@dataclass(frozen=True)
class Scale:
    """The size of the model and the number of epochs of a study, for the budget ``laptop``."""

    hidden: int
    layers: int
    epochs: int


SMOKE = Scale(hidden=16, layers=3, epochs=2)


def scaled(request: Request, laptop: Scale) -> Scale:
    """The scale for the budget of the request: ``SMOKE`` or ``laptop``, with the epochs of the request, if the request
    sets them.
    """
    scale = SMOKE if request.budget == "smoke" else laptop
    return replace(scale, epochs=request.epochs or scale.epochs)


def small(graph: str, sampler: str, scale: Scale, model: str = "sage") -> Experiment:
    """The experiment that trains a model with a sampler at this scale. Neighbour sampling gets fewer epochs
    (``SLOWER``) than all other samplers.

    For SGFormer, ``scale.layers`` is the number of GCN layers, and there is one attention layer.
    """
    depth = {"layers": 1, "gnn_layers": scale.layers} if model == "sgformer" else {"layers": scale.layers}
    base = Experiment(
        graph,
        model=model,
        options={"hidden": scale.hidden, **depth, "dropout": 0.5},
        lr=0.01,
        epochs=max(1, scale.epochs // SLOWER) if sampler == "neighbor" else scale.epochs,
        evaluation="sampled" if sampler == "neighbor" else "exact",
    )
    return base.with_method(sampler, **({"parts": PARTS} if sampler.startswith("rns") else {}))


def benchmark(request: Request, graph: str, sampler: str, laptop: Scale) -> Experiment:
    """The experiment for ``sampler`` in the sampling benchmark. The model is a GCN for LADIES, and GraphSAGE for all
    other samplers. The variants of RNS are not in the paper: for the budget ``paper``, they have the settings of RNS.
    """
    if request.budget == "paper":
        preset = presets.sampling(graph, "rns" if sampler in VARIANTS else sampler)
        return adapt(request, preset.with_method(sampler, **preset.sampler.options()))
    return adapt(request, small(graph, sampler, scaled(request, laptop), "gcn" if sampler == "ladies" else "sage"))


def adapt(request: Request, experiment: Experiment) -> Experiment:
    """``experiment`` with the root, the seeds and the device of the request. The budget of the request determines how
    often the model is evaluated. The split of the request applies only if ``experiment`` has none. If the device is a
    GPU and the paper split the layers over several GPUs, this experiment does so too.
    """
    return experiment.with_(
        split=experiment.split or request.split,
        root=request.root,
        seeds=request.seeds,
        device=presets.device_for(experiment, request.device),
        evaluate_every=max(1, experiment.settings.epochs // EVALUATIONS[request.budget]),
    )


def tune_jobs(
    request: Request, jobs: Mapping[str, Experiment], samplers: Mapping[str, Sequence[Sampler]] | None = None
) -> dict[str, Experiment]:
    """Tune the learning rate, dropout and weight decay of each job with ``request.tune_each`` trials, and return the
    tuned jobs. If ``samplers`` has a list for a job, the search also chooses one of these samplers.

    The trials are stored in ``tune.db`` in ``request.out``.
    """
    if not request.tune_each:
        return dict(jobs)
    total, result = request.tune_each * len(jobs), {}
    storage, executor = f"sqlite:///{request.out / 'tune.db'}", make_executor(request.executor, request.jobs)
    for i, (name, job) in enumerate(jobs.items()):

        def report(_: str, done: int, trials: int, before: int = i, name: str = name) -> None:
            request.report(before * trials + done, total, f"{name}: trials")

        tried, folder = (samplers or {}).get(name, ()), request.out / "trials"
        result[name] = search(job, storage, request.tune_each, False, report, executor, folder, tried).experiment
    return result


def train_jobs(request: Request, jobs: Mapping[str, Experiment]) -> dict[str, Outcome]:
    """Run the unfinished jobs in ``request.out``, and return the outcomes of all jobs by name."""
    total, done = sum(job.epochs for job in jobs.values()), dict.fromkeys(jobs, 0)

    def progress(name: str, epochs: int, word: str) -> None:
        done[name] = epochs
        request.report(sum(done.values()), total, f"{name}: {word}")

    return run_jobs(jobs, request.out, make_executor(request.executor, request.jobs), progress)
