"""``Experiment``: model, graph, sampler and settings as one value. Two equal experiments describe the same run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from numbers import Integral
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any, Self

import torch

from handful import ranks
from handful.budget import require_memory
from handful.datasets import load, sources
from handful.datasets.splits import SPLIT
from handful.errors import HandfulError, RunError, require_kind, require_name
from handful.files import seal, write_json
from handful.graph import Graph
from handful.nn import MODELS, make_model, model_defaults, model_options, parameter_count
from handful.nn.network import Network
from handful.samplers import RandomNodes, Sampler, make_sampler
from handful.settings import RECOMMENDED, SETTING_NAMES, GraphOn, Settings, vary_settings
from handful.shuffle.shards import is_sharded
from handful.statistics import mean_ci95
from handful.training.callbacks import Callback
from handful.training.card import write_card
from handful.training.execution import GRAPH_ON
from handful.training.first_hop import check_first_hop, refusal
from handful.training.fit import adapt_sampler, begin, fit, make_seeded_model, with_task
from handful.training.label_features import settle
from handful.training.loop import Loop
from handful.training.record import Run, RunFolder
from handful.vocabulary import PAPER_SEEDS

SUMMARY = "summary.json"
MODEL = "sage"
"""The default model."""
VARIANTS: dict[str, dict[str, Any]] = {
    "rns-mean-field": {**RECOMMENDED, "first_hop": "sampled", "label_features": "no"},
    "rns-labels": {**RECOMMENDED, "first_hop": "sampled", "label_features": "yes"},
}
"""The settings of each variant of RNS."""


@dataclass(frozen=True, init=False)
class Experiment:
    """A complete description of a training run: model, graph, sampler and settings.

    Omitted options get the defaults of the model, the sampler and ``Settings``. So two experiments are equal if and
    only if they describe the same run. The file ``config.json`` in a run folder stores the experiment.

    Args:
        graph: the name of a data set, or the path of a graph; see ``handful.load``. It is not needed if a graph is
            passed to ``run``.
        split, root: as for ``handful.load``.
        model: ``gcn``, ``sage``, ``gat``, ``sgformer`` or ``graphland-sage``.
        options: the model's options; they can also be passed by name, such as ``hidden=64``.
        sampler: the source of batches: a sampler, or the name of one, which then has its default options.
        settings: the training settings; their fields can also be passed by name, such as ``epochs=10``.
        seeds: the random seeds, one run per seed. A seed determines the initial weights, the batches, the dropout and,
            for some data sets, the split.
        device: the device for training. If there are several names, separated by commas, the model's layers are
            distributed over these devices.

    Raises:
        HandfulError: a name does not exist, or a value is not valid.

    >>> import handful as hf
    >>> experiment = hf.Experiment("debian", sampler=hf.RandomNodes(parts=4), epochs=3, hidden=32, seeds=(1,))
    >>> experiment.settings.epochs, experiment.options["hidden"], experiment.options["layers"]
    (3, 32, 4)
    >>> experiment.with_(lr=0.01) == experiment
    False
    >>> Experiment.from_json(experiment.to_json()) == experiment
    True
    """

    graph: str
    split: str | None
    root: str | None
    model: str
    options: Mapping[str, Any]
    sampler: Sampler
    settings: Settings
    seeds: tuple[int, ...]
    device: str

    def __init__(
        self,
        graph: str | Path = "",
        *,
        split: str | None = None,
        root: str | Path | None = None,
        model: str = MODEL,
        options: Mapping[str, Any] | None = None,
        sampler: Sampler | str = RandomNodes(),  # noqa: B008  (frozen)
        settings: Settings = Settings(),  # noqa: B008  (frozen)
        seeds: Sequence[int] = PAPER_SEEDS,
        device: str | torch.device = "cpu",
        **fields: Any,
    ) -> None:
        if isinstance(graph, Graph):
            raise HandfulError(
                "an experiment names its graph: write handful.save(graph, path), and give it the path; "
                "or leave the graph out, and give it to run(graph=graph)"
            )
        require_kind("graph", graph, str | Path, "a name or a path")
        require_kind("split", split, str | None, "a text")
        require_kind("root", root, str | Path | None, "a path")
        require_kind("model", model, str, "a name")
        require_kind("options", options, Mapping | None, "options by name")
        require_kind("sampler", sampler, Sampler | str, "a sampler or its name")
        require_kind("settings", settings, Settings, "a Settings")
        require_kind("device", device, str | torch.device, "a name such as cpu or cuda:0")
        named = {name: value for name, value in fields.items() if name in SETTING_NAMES}
        what = {name: value for name, value in fields.items() if name not in SETTING_NAMES}
        known = [*self.__dataclass_fields__, *SETTING_NAMES, *model_defaults(model)]
        for name in what:
            require_name(f"setting, or option of {model},", name, known)
        complete = model_options(model, {**(options or {}), **what})
        network, how = MODELS[model], vary_settings(settings, named)
        source = make_sampler(sampler) if isinstance(sampler, str) else sampler
        source = adapt_sampler(source, network, network.hops(complete))
        check_first_hop(network.first_hop(complete), model, source, how)
        vars(self).update(
            graph=str(graph),
            split=split,
            root=None if root is None else str(root),
            model=model,
            options=MappingProxyType(complete),
            sampler=source,
            settings=how,
            seeds=_seeds(seeds),
            device=str(device),
        )

    def __hash__(self) -> int:
        return hash((self.graph, self.model, tuple(self.options.items()), self.sampler.name, self.settings, self.seeds))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.to_json(),)

    @property
    def epochs(self) -> int:
        """The total number of epochs over all seeds."""
        return self.settings.epochs * len(self.seeds)

    def with_(self, **changes: Any) -> Self:
        """This experiment with some arguments of ``Experiment`` replaced. If the model changes, the model options are
        reset to the new model's defaults.

        >>> Experiment("debian").with_(hidden=32, sampler="full").sampler.name
        'full'
        """
        kept = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if changes.get("model", self.model) != self.model:
            del kept["options"]
        elif "options" in changes:
            changes["options"] = {**self.options, **changes["options"]}
        return type(self)(**{**kept, **changes})

    @property
    def method(self) -> str:
        """The name of the method in tables, one of ``handful.vocabulary.METHODS``."""
        hop, how = MODELS[self.model].first_hop(self.options), self.settings.mean_field
        stands_in = self.sampler.method == "rns" and how and refusal(hop, self.model, self.sampler, how) is None
        variant = "rns-mean-field" if self.settings.label_features == "no" else "rns-labels"
        return variant if stands_in else self.sampler.method

    def with_method(self, method: str, **options: Any) -> Self:
        """This experiment with the sampler and the settings of ``method``. ``options`` are the options of the sampler.

        >>> Experiment("debian").with_method("rns-mean-field", parts=8).settings.mean_field
        3.0
        """
        return self.with_(sampler=sampler_of(method, **options), **VARIANTS.get(method, {}))

    def to_json(self) -> dict[str, Any]:
        """Convert the experiment to plain values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {
            "options": dict(self.options),
            "sampler": {"name": self.sampler.name, **self.sampler.options()},
            "settings": asdict(self.settings),
            "seeds": list(self.seeds),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of ``to_json``. Other entries of ``value``, such as those of a ``config.json``, are ignored.

        Raises:
            HandfulError: an entry is missing or not valid.
        """
        try:
            return cls(
                **{part: value[part] for part in ("graph", "split", "root", "model", "options", "device")},
                sampler=make_sampler(**value["sampler"]),
                settings=vary_settings(Settings(), value["settings"]),
                seeds=value["seeds"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise RunError(f"this is not an experiment of this version of handful: {error!r:.200}") from None

    # -- running ------------------------------------------------------------------------------------------------------

    def load(self, seed: int) -> Graph:
        """Load the graph, and set its task, metric and positive class from the settings. If the split is random, it is
        drawn with ``seed``.
        """
        if not self.graph:
            raise HandfulError("this experiment names no graph: name one, or give it to run(graph=graph)")
        graph = load(self.graph, split=self.split, root=self.root, seed=seed).require_training()
        return with_task(graph, self.settings)

    def with_split(self) -> Self:
        """A copy of this experiment in which each seed gets a random split, if the graph is a file without a split and
        ``split`` is not set. Otherwise, the result is this experiment itself.
        """
        named = self.graph.partition("?")[0].partition(":")[0] in ("", *sources())
        if self.split is not None or named or is_sharded(self.graph):  # only all ranks together can open shards
            return self
        graph = load(self.graph, root=self.root)
        return self.with_(split=SPLIT) if graph.train_mask is None and graph.y is not None else self

    def make_model(self, graph: Graph, seed: int) -> Network:
        """The model for ``graph``, with initial weights drawn with ``seed``."""
        if self.device == "cpu":
            with torch.device("meta"):
                size = parameter_count(make_model(self.model, graph.num_features, graph.num_outputs, **self.options))
            require_memory(8.0 * size, f"a model with {size:,} parameters and their gradients")
        return make_seeded_model(self.model, graph, seed, self.options)

    def begin(self, graph: Graph, seed: int, memory: int | str | None = None) -> Loop:
        """Prepare a run on ``graph``: everything before the first epoch."""
        model = self.make_model(graph, seed)
        return begin(model, graph, self.sampler, self.settings, seed, self.device, memory=memory)

    def fit(self, graph: Graph, seed: int, callbacks: Sequence[Callback] = (), **records: Any) -> Run:
        """Train one run on ``graph``. ``records`` are the arguments ``out``, ``resume``, ``record``, ``memory`` and
        ``graph_on`` of ``handful.fit``.
        """
        model = self.make_model(graph, seed)
        settings = {"seed": seed, "device": self.device, "callbacks": callbacks, **records}
        return fit(model, graph, self.sampler, self.settings, **settings)

    def run(
        self,
        out: str | Path | None = None,
        *,
        resume: bool = False,
        callbacks: Sequence[Callback] = (),
        graph: Graph | None = None,
        memory: int | str | None = None,
        graph_on: GraphOn = GRAPH_ON,
    ) -> Summary:
        """Train once for each seed. If ``out`` is given, each run is saved in ``out/seed-SEED``, and ``open_run(out)``
        opens the runs.

        Args:
            out: the folder for the runs; if ``None``, nothing is written. If there are several ranks, only rank 0
                writes.
            resume: continue the runs in ``out``. If the experiment in ``out`` differs in any field, an error is raised.
            callbacks: see ``Callback``.
            graph: a graph in memory, with a split, that is used instead of the experiment's graph.
            memory: a budget, as for ``handful.fit``. A budget does not change the result, so it is not part of the
                experiment, and you can resume a run with another budget.
            graph_on: as for ``handful.fit``.

        >>> import handful as hf
        >>> experiment = hf.Experiment("synthetic?nodes=200&degree=4", hidden=16, layers=2, epochs=2, seeds=(1, 2))
        >>> [run.epochs for run in experiment.run().runs]
        [2, 2]
        """
        folder = None if out is None or ranks.rank() > 0 else Path(out)
        runs: list[Run] = []
        with ExitStack() as stack:
            with ranks.agreed():
                self = self.settled(graph)
                if folder is not None:
                    stack.enter_context(RunFolder(folder).opened(self.to_json(), resume))
            for seed in self.seeds:
                with ranks.agreed():
                    data = self.load(seed) if graph is None else with_task(graph.require_training(), self.settings)
                own = None if folder is None else folder / f"seed-{seed}"
                records = {"out": own, "resume": resume, "record": self.with_(seeds=(seed,)).to_json()}
                run = self.fit(data, seed, callbacks, memory=memory, graph_on=graph_on, **records)
                # The models are in the folder, so they need not stay in memory.
                runs.append(run if out is None else replace(run, model=None))
        summary = Summary(self, data.name, runs)
        if folder is not None:
            with RunFolder(folder).written("the summary"):
                write_json(folder / SUMMARY, seal(summary.to_json()))
                write_card(folder)
        return summary

    def settled(self, graph: Graph | None = None) -> Experiment:
        """This experiment with `yes` or `no` in place of a ``label_features`` of `auto`, for its graph or ``graph``."""
        if self.settings.label_features != "auto":
            return self
        data = self.load(self.seeds[0]) if graph is None else with_task(graph, self.settings)
        return self.with_(settings=settle(self.settings, data, self.sampler))


def sampler_of(method: str, **options: Any) -> Sampler:
    """The sampler that ``method`` uses, with these ``options``.

    >>> str(sampler_of("rns-mean-field", parts=8))
    'rns(parts=8)'
    """
    return make_sampler("rns" if method in VARIANTS else method, **options)


@dataclass(frozen=True)
class Summary:
    """The results of an experiment, with one run per seed. Metrics are fractions."""

    experiment: Experiment
    graph: str
    """The name of the loaded graph; ``experiment.graph`` may be a path."""
    runs: list[Run]

    @property
    def metric(self) -> str:
        """The name of the metric that ``val`` and ``test`` measure."""
        return self.runs[0].metric

    @property
    def val(self) -> float:
        """The mean over seeds of the best validation metric."""
        return mean_ci95([run.val for run in self.runs])["mean"]

    @property
    def test(self) -> float:
        """The mean over seeds of the test metric at the epoch with the best ``val``."""
        return mean_ci95([run.test for run in self.runs])["mean"]

    def to_json(self) -> dict[str, Any]:
        """The means over the seeds, and the result for each seed, as plain values."""
        gpu = [run.peak_gpu_bytes for run in self.runs if run.peak_gpu_bytes is not None]
        times = ("seconds", "prepare_seconds", "epoch_seconds")
        kept = ("seed", "best_epoch", "epochs", "steps", "skipped", "diverged")
        measured = ("val", "test", "seconds", "prepare_seconds", "peak_ram_bytes", "dir")
        return {
            "graph": self.graph,
            "metric": self.metric,
            "model": self.experiment.model,
            "sampler": str(self.experiment.sampler),
            **{name: mean_ci95([getattr(run, name) for run in self.runs]) for name in ("val", "test")},
            **{name: {"mean": fmean(getattr(run, name) for run in self.runs)} for name in times},
            "peak_memory_bytes": {"ram": max(run.peak_ram_bytes for run in self.runs), "gpu": max(gpu, default=None)},
            "runs": [{name: getattr(run, name) for name in (*kept, *measured)} for run in self.runs],
        }


def _seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    """Check that there is at least one seed, and that the seeds are distinct non-negative integers."""
    given = tuple(seeds) if isinstance(seeds, Iterable) else ()
    whole = (seed for seed in given if isinstance(seed, Integral) and not isinstance(seed, bool))
    result = tuple(int(seed) for seed in whole if 0 <= seed < 2**63)
    if not result or len(set(result)) < len(given):
        raise HandfulError(f"seeds takes whole numbers from 0 on, each once, got {seeds!r}")
    return result
