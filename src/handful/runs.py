"""``open_run`` opens a folder of runs, and gives access to their models, results and predictions."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import torch

from handful.datasets import load
from handful.datasets.files import is_tables, read_graph
from handful.datasets.importer import import_tables
from handful.datasets.schema import Say, Schema
from handful.datasets.splits import draw_split
from handful.datasets.tables import Source
from handful.errors import HandfulError, RunError, explaining, needing, readable
from handful.experiment import SUMMARY, Experiment
from handful.finding import decode
from handful.graph import Graph
from handful.nn.network import Network
from handful.predict import Prediction, check_features, choose_nodes, node_splits, predict
from handful.samplers import FullGraph, Sampler
from handful.storage import is_saved, open_graph
from handful.training.assessment import Decision
from handful.training.fit import with_task
from handful.training.inference import embed
from handful.training.metrics import metric_of_record
from handful.training.record import Run, RunFolder, differences, load_model, read_config, read_encoding, read_json
from handful.training.streamed import Progress

DECISION = "decision.json"
REFIT = "refit"
"""The subfolder of a run for the models that were trained again on all labels."""


@dataclass(frozen=True)
class OpenedRun:
    """A trained experiment, opened from its folder.

    Args:
        path: the folder.
        experiment: the experiment; ``None`` if the run was made by ``fit``, which does not record the name of the
            graph.
        folders: the run folders of all seeds whose training has finished.
    """

    path: Path
    experiment: Experiment | None
    folders: tuple[RunFolder, ...]

    @cached_property
    def results(self) -> list[Run]:
        """The result of every seed."""
        return [folder.run() for folder in self.folders]

    @cached_property
    def best(self) -> int:
        """The index of the seed with the best validation metric."""
        metric = metric_of_record(self.results[0].metric, self.results[0].higher_is_better)
        values = [run.val for run in self.results]
        return reduce(lambda best, i: i if metric.better(values[i], than=values[best]) else best, range(len(values)))

    @property
    def result(self) -> Run:
        """The result of the seed with the best validation metric."""
        return self.results[self.best]

    @property
    def history(self) -> list[dict[str, Any]]:
        """The evaluations during training, for the seed with the best validation metric."""
        return self.result.history

    @cached_property
    def model(self) -> Network:
        """The model of the seed with the best validation metric, with its best weights and in evaluation mode."""
        return load_model(self.folders[self.best].path)

    def models(self) -> list[Network]:
        """The models of all seeds."""
        return [load_model(folder.path) for folder in self.folders]

    @property
    def deployed(self) -> tuple[RunFolder, ...]:
        """The folders of the models that make predictions: the models that were trained again on all labels, if all of
        them have finished; otherwise the models of all seeds.
        """
        again = self.path / REFIT
        return open_run(again).folders if (again / SUMMARY).exists() else self.folders

    def seen(self, graph: Graph) -> Graph:
        """``graph`` with the labels that the models of ``deployed`` use as features: all labels after a refit, or if
        the graph has no split. The label of a node is never a feature of the node itself.
        """
        every = self.deployed != self.folders or graph.train_mask is None
        uses = self.model.label_head is not None and bool(graph.labelled.any())
        return training_on_all(graph) if uses and every else graph

    # -- predicting ---------------------------------------------------------------------------------------------------

    @property
    def decision(self) -> Decision:
        """The decision rule for the predictions averaged over the seeds.

        If the assessment after training saved a rule, that rule is used. If no rule was saved, the rule uses the mean
        of the thresholds of the seeds, and the class weights of the loss. After a refit, the models have class weights
        of their own, and the rule has no bias: it was fitted to models that had not learned from the validation nodes.
        """
        kind, positive = self.encoding["kind"], int(self.encoding.get("positive") or 0)
        own = Decision(kind, positive, 0.5, class_weights(self.deployed[0])).unweighted()
        if (self.path / DECISION).exists():
            kept = {"threshold": None, **read_json(self.path / DECISION), "kind": kind, "positive": positive}
            wanted = f"{self.path / DECISION} holds no decision rule: delete it"
            with explaining(wanted, TypeError, KeyError, HandfulError, kind=RunError):
                rule: Decision = decode(Decision, kept)
            if self.deployed == self.folders:
                return rule
            by_f1 = self.experiment is not None and self.experiment.settings.threshold == "f1"
            return replace(own, scale=rule.scale, threshold=rule.threshold if by_f1 else own.threshold)
        thresholds = [run.threshold for run in self.results if run.threshold is not None]
        return replace(own, threshold=fmean(thresholds or [0.5])).unweighted()

    @cached_property
    def encoding(self) -> dict[str, Any]:
        """A description of the features and labels of the run's graph, with entries such as ``kind``, ``features``,
        ``class_names`` and ``schema``.
        """
        result = read_encoding(self.folders[0])
        kind, names, outputs = result.get("kind"), result.get("class_names"), self.model.out_features
        classes = max(2, outputs) if kind in ("binary", "multiclass") else outputs
        wrong = (kind == "regression" and names) or (kind == "binary" and outputs > 2)
        if wrong or (kind != "regression" and names is not None and len(names) != classes):
            raise RunError(f"{self.folders[0].encoding} is not of this run: its classes are not those of the model")
        return result

    @property
    def sampler(self) -> Sampler:
        """The sampler that was used in training; ``FullGraph`` if the run was made by ``fit``."""
        return FullGraph() if self.experiment is None else self.experiment.sampler

    @cached_property
    def schema(self) -> Schema | None:
        """The schema of the tables of the run's graph; ``None`` if the graph was not made from tables."""
        result = self.encoding.get("schema")
        if result is None:
            return None
        schema = Schema.from_json(result)
        numbers = self.encoding.get("kind") == "regression"  # classes may have been read as numbers
        return replace(schema, task="regression", classes=()) if numbers else schema

    def load(
        self, graph: Source | None = None, nodes: Source | None = None, say: Say = warnings.warn, **options: Any
    ) -> Graph:
        """Load a graph to predict on. If the graph consists of tables, the schema of the run encodes them.

        Args:
            graph: a name or a path, as for ``handful.load``, or an edge list in memory, such as a table of pandas;
                ``None`` for the graph of the run.
            nodes: the node table, if ``graph`` is an edge list.
            say: called with each warning, for example about unknown categories, or about columns that differ from those
                in training.
            options: ``strict``: whether to raise an error for such columns; ``unknown``: how to treat unknown ids in
                edges.
        """
        asked = self.experiment
        if graph is None:
            if asked is None or not asked.graph:
                raise RunError(f"{self.path} does not name its graph: give the graph to predict for")
            return self._own(asked, say)
        if not isinstance(graph, str | Path):
            return import_tables(graph, nodes, schema=self.schema, say=say, **options)
        path = Path(graph).expanduser()
        if nodes is not None or (path.exists() and is_tables(path)):
            return read_graph(path, nodes, schema=self.schema, say=say, **options)
        return load(graph, root=None if asked is None else asked.root)

    def _own(self, asked: Experiment, say: Say) -> Graph:
        """The graph of the run, with the split of the best seed. If the graph has changed since training, ``say`` is
        called with a warning.
        """
        path = Path(asked.graph).expanduser()
        if self.schema is not None and is_tables(path):
            own = read_graph(path, schema=self.schema, say=say)
            if asked.split is not None and own.y is not None:
                own = own.replace(**draw_split(own, asked.split, self.seed))
        else:
            own = load(asked.graph, split=asked.split, root=asked.root, seed=self.seed)
        was = self.identities[self.best]
        if was and (changed := differences(was, with_task(own, asked.settings).identity())):
            say(f"graph '{own.name}' has changed since the run was trained on it: {', '.join(changed)}")
        return own

    @property
    def seed(self) -> int:
        """The seed with the best validation metric."""
        return self.result.seed

    @cached_property
    def identities(self) -> list[dict[str, Any]]:
        """For each seed, the ``Graph.identity()`` of its graph; empty if it was not saved."""
        return [read_config(folder.config).get("data") or {} for folder in self.folders]

    @property
    def own_splits(self) -> bool:
        """Whether each seed has its own split."""
        return len({str(one.get("split nodes")) for one in self.identities}) > 1

    def check(self, graph: Graph) -> Graph:
        """Check that ``graph`` has the features that the model was trained on, and return the graph for prediction.

        Raises:
            RunError: the features differ, or the model uses labels as features and the classes differ.
        """
        check_features(graph, self.model.in_features, self.schema)
        names, own = graph.class_names, self.encoding.get("class_names")
        if self.model.label_head is not None and names and own and list(names) != own and graph.y is not None:
            raise RunError(f"graph '{graph.name}' has other classes than the labels in training: leave out its labels")
        numbers = self.encoding.get("kind") == "regression" and graph.y is not None
        return graph.replace(task="regression") if numbers else graph

    def prediction(
        self,
        graph: Graph | str | Path | None = None,
        nodes: str | Sequence[Any] | np.ndarray = "all",
        device: str = "cpu",
        memory: int | str | None = None,
        *,
        threshold: float | None = None,
        embeddings: bool = False,
        scratch: Path | None = None,
        progress: Progress | None = None,
    ) -> Prediction:
        """Predict ``nodes``: the mean and the spread of the predictions over the seeds.

        Args:
            graph: a graph, its name or its path; ``None`` for the graph of the run.
            nodes: ``all``, ``unlabelled``, ``train``, ``val`` or ``test``; the path of a file with one id per line; or
                a sequence of ids.
            device: the device for the computation.
            memory: the maximum anonymous memory of this process; see ``handful.infer``.
            threshold: the decision threshold of the positive class; ``None`` for the threshold that was chosen in
                training.
            embeddings: whether to add the embeddings; see ``embed``.
            scratch, progress: see ``handful.infer``.
        """
        if self.encoding["kind"] == "links":
            raise RunError(f"{self.path} predicts links: the dot products of hf.infer(run.model, graph) score them")
        data = self.check(graph if isinstance(graph, Graph) else self.load(graph))
        models = (load_model(folder.path) for folder in self.deployed)
        picked = choose_nodes(data, nodes)
        decision = self.decision if threshold is None else replace(self.decision, threshold=threshold)
        how: dict[str, Any] = {"sampler": self.sampler, "memory": memory, "scratch": scratch, "progress": progress}
        result = predict(models, self.seen(data), picked, decision, self.encoding.get("class_names"), device, **how)
        result = replace(result, splits=node_splits(data, picked))
        return replace(result, embeddings=self.embed(data)[picked]) if embeddings else result

    def predict(self, graph: Graph | str | Path | None = None) -> np.ndarray:
        """The predicted class name of every node, ``(N,)``, from the probabilities averaged over the seeds. In a
        multi-label task, the result contains the names of all predicted labels of each node. For a regression, it
        contains the predicted values.

        >>> import handful as hf
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = hf.Experiment("debian", hidden=8, layers=2, epochs=1, seeds=(1,)).run(folder)
        ...     hf.open_run(folder).predict().shape
        (63436,)
        """
        return self.prediction(graph).predicted

    def predict_proba(self, graph: Graph | str | Path | None = None) -> np.ndarray:
        """float32 ``(N, classes)``: the probability of every class, averaged over the seeds."""
        return self.prediction(graph).probabilities

    def embed(self, graph: Graph | str | Path | None = None) -> np.ndarray:
        """The embedding of every node, float32 ``(N, width)``: the input of the last layer in the model of the best
        seed.
        """
        data = self.check(graph if isinstance(graph, Graph) else self.load(graph))
        return embed(self.model, data, sampler=self.sampler).numpy()


def open_run(path: str | Path) -> OpenedRun:
    """Open the folder of an experiment or of a single run, or a repository ``USER/NAME`` on the Hugging Face Hub.

    Raises:
        RunError: there is no run, no seed of the run has finished, or the run was written by an incompatible version of
            handful.

    >>> import handful as hf
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     summary = hf.Experiment("debian", hidden=8, layers=2, epochs=2, seeds=(1,)).run(folder)
    ...     opened = hf.open_run(folder)
    ...     opened.result.test == summary.test, opened.model.options["hidden"], len(opened.history)
    (True, 8, 2)
    """
    folder = Path(path) if Path(path).exists() else download_run(str(path))
    if not (folder / "config.json").exists():
        raise RunError(f"{folder} holds no run: give the folder that a training was written to")
    config = read_config(folder / "config.json")
    experiment = Experiment.from_json(config) if "split" in config else None
    ended = [run for run in run_folders(folder) if run.result.exists()]
    if not ended:
        raise RunError(f"no run in {folder} has ended: resume it first")
    return OpenedRun(folder, experiment, tuple(ended))


def download_run(name: str) -> Path:
    """The local folder of a repository ``USER/NAME`` on the Hugging Face Hub. The repository is downloaded unless it is
    in the local cache.

    Raises:
        RunError: there is no such repository, or ``huggingface_hub`` is not installed.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name) or Path(name).parent.exists():  # a folder here, such as runs/
        return Path(name)
    advice = "give the folder of a training; for a repository of the Hugging Face Hub, pip install 'handful[hub]'"
    with needing(f"{name} holds no run: {advice}", RunError):
        from huggingface_hub import snapshot_download
    with readable(f"repository {name}", "check its name, your connection and your token", RunError):
        return Path(snapshot_download(name))


def class_weights(folder: RunFolder) -> tuple[float, ...] | None:
    """The class weights of the loss of a run; ``None`` if the classes had no weights."""
    config, own = read_config(folder.config), None
    if config.get("settings", {}).get("class_weight") == "balanced":
        own = read_encoding(folder).get("balanced")
    return tuple(config.get("own", {}).get("class_weight") or own or ()) or None


def training_on_all(graph: Graph) -> Graph:
    """``graph`` with all labelled nodes as training nodes."""
    nobody = torch.zeros_like(graph.labelled)
    return graph.replace(train_mask=graph.labelled, val_mask=nobody, test_mask=nobody)


def refit(opened: OpenedRun, resume: bool = False, **how: Any) -> str:
    """Train the experiment of a run again, on all labelled nodes. The number of epochs is the median of the seeds' best
    epochs.

    Args:
        opened: the run; the new models are saved in its subfolder ``refit``, and later predictions use them.
        resume: whether to continue an interrupted training run.
        how: the arguments ``memory``, ``graph_on`` and ``callbacks`` of ``Experiment.run``.

    Returns:
        A sentence that describes the new training run.
    """
    asked = opened.experiment
    if asked is None:
        raise RunError(f"{opened.path} does not name its graph: a run of `handful train` or of an experiment does")
    whole = training_on_all(asked.load(opened.seed))
    epochs = max(1, round(median(run.best_epoch for run in opened.results)))
    again = asked.with_(epochs=epochs, evaluate_every=epochs, patience=None)
    again.run(opened.path / REFIT, resume=resume, graph=whole, **how)
    labels = f"all {int(whole.labelled.sum()):,} labelled nodes"
    trained = f"trained again on {labels} for {epochs} epoch{'s' * (epochs > 1)}"
    return f"Predictions are by models that were {trained}; all figures here are of the models before that."


def run_folders(folder: Path) -> Sequence[RunFolder]:
    """The run folders of an experiment, in the order of its seeds. If ``folder`` is itself a run folder, the result is
    only this folder.
    """
    own = RunFolder(folder)
    if own.metrics.exists() or own.result.exists():
        return [own]
    return [RunFolder(folder / f"seed-{seed}") for seed in read_config(own.config).get("seeds", ())]


def find_schema(path: str | Path) -> Schema:
    """The schema of the run or the saved graph at ``path``.

    Raises:
        RunError: ``path`` has no schema.
    """
    path = Path(path)
    result = open_graph(path).schema if is_saved(path) else open_run(path).encoding.get("schema")
    if result is None:
        raise RunError(f"{path} has no schema: it was not made from tables")
    return Schema.from_json(result)
