"""Predict with trained models, and write the predictions to files, with the user's own node ids."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from handful.datasets.schema import Schema
from handful.datasets.tables import arrow
from handful.errors import HandfulError, RunError, explaining
from handful.files import write_aside
from handful.finding import Table, text_table
from handful.graph import MASKS, Graph, Kind, is_label
from handful.nn.network import usable_device
from handful.training.assessment import Decision
from handful.training.inference import infer
from handful.vocabulary import number

SPLITS = tuple(name.removesuffix("_mask") for name in MASKS)
CHOICES = ("all", "unlabelled", *SPLITS)
WRITE_ROWS = 65_536
SHOWN_ID = 36
"""The maximum length of a text in a printed table, such as an id."""


@dataclass(frozen=True)
class Prediction:
    """The predictions for some nodes of a graph.

    Args:
        decision: the rule that turns probabilities into a class.
        ids: ``(n,)``, the user's own ids, int64 or text.
        classes: the names of the classes or labels. For a regression with several targets, these are the indices of the
            targets. For a regression with one target, there are no entries.
        values: float32 ``(n, classes)``, the probabilities, averaged over the models. For a regression, these are the
            predicted values, ``(n, targets)``, averaged over the models.
        labels: the known labels. Classes are int64 ``(n,)``, and -1 if unknown. Other labels are float32, and NaN if
            unknown; the shape is ``(n,)`` for one regression target, and ``(n, classes)`` for several targets or for
            multi-label tasks.
        splits: text ``(n,)``, the split of each node: ``train``, ``val``, ``test`` or empty.
        agree: float32 ``(n,)``, the fraction of the models that predict the same class as the average of all models;
            ``None`` if there is only one model, or if nodes do not have exactly one class.
        spread: float32 ``(n,)``, the standard deviation, over the models, of the predicted value or of the probability
            of the predicted class; ``None`` if there is only one model. For several labels or targets, it is the mean
            of their standard deviations.
        embeddings: float32 ``(n, width)``, if requested.
        kept, kept_names: columns of the user's table that are copied to the predictions, text ``(n, K)``, and the names
            of these columns.
    """

    decision: Decision
    ids: np.ndarray
    classes: tuple[str, ...]
    values: np.ndarray
    labels: np.ndarray
    splits: np.ndarray
    agree: np.ndarray | None = None
    spread: np.ndarray | None = None
    embeddings: np.ndarray | None = None
    kept: np.ndarray | None = None
    kept_names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def kind(self) -> Kind:
        """The kind of labels: ``binary``, ``multiclass``, ``multilabel`` or ``regression``."""
        return self.decision.kind

    @property
    def threshold(self) -> float:
        """The decision threshold of the positive class. In a multi-label task, it applies to every label."""
        return self.decision.threshold

    @property
    def of_classes(self) -> bool:
        """Whether the task is classification with exactly one class per node."""
        return self.kind in ("binary", "multiclass")

    @property
    def probabilities(self) -> np.ndarray:
        """float32 ``(n, classes)``: the probability of every class or label, averaged over the models."""
        if self.kind == "regression":
            raise HandfulError("a regression predicts numbers: they have no probabilities")
        return self.values

    @property
    def best(self) -> np.ndarray:
        """int64 ``(n,)``, the index of the predicted class."""
        return self.decision.pick(self.values)

    @property
    def predicted(self) -> np.ndarray:
        """``(n,)``: depending on the kind of labels, the name of the predicted class, the names of all predicted
        labels, or the predicted value of each node.

        For several regression targets, the shape is ``(n, targets)``.
        """
        if self.kind == "regression":
            return self.values if self.classes else np.asarray(self.values[:, 0])
        if self.kind == "multilabel":
            return _joined(self.values >= self.threshold, self.classes)
        return np.asarray(np.array(self.classes)[self.best])

    @property
    def confidence(self) -> np.ndarray:
        """float32 ``(n,)``, the probability of the predicted class."""
        return np.asarray(self.values[np.arange(len(self)), self.best])

    @property
    def known(self) -> np.ndarray:
        """bool ``(n,)``: whether each node has a label."""
        return is_label(torch.from_numpy(self.labels)).numpy()

    def take(self, rows: np.ndarray) -> Prediction:
        """The predictions for the nodes that ``rows`` selects, by index or by mask."""
        arrays = {f.name: v[rows] for f in fields(self) if isinstance(v := getattr(self, f.name), np.ndarray)}
        return replace(self, **arrays)

    def changed(self) -> Prediction:
        """The predictions that differ from the known class, sorted by confidence, highest first."""
        if not self.of_classes:
            raise HandfulError(f"only classes can differ from a label, and this is a {self.kind} task")
        other = np.flatnonzero(self.known & (self.best != self.labels))
        return self.take(other[np.argsort(-self.confidence[other], kind="stable")])

    def judged(self) -> dict[str, dict[str, float]]:
        """For each split, and for the nodes in no split: the number of labelled nodes, and their ``accuracy``. In a
        multi-label task, the accuracy is the fraction of correct labels. For a regression, the mean absolute ``error``
        replaces the accuracy. For classes, ``majority`` is the share of the most frequent class.
        """
        measure = "error" if self.kind == "regression" else "accuracy"
        if self.kind == "regression":
            scores = np.abs(self.predicted - self.labels)
        elif self.kind == "multilabel":
            scores = np.where(np.isnan(self.labels), np.nan, (self.values >= self.threshold) == self.labels)
        else:
            scores = self.best == self.labels
        result = {}
        for split in (*SPLITS, ""):
            mine = (self.splits == split) & self.known
            if mine.any():
                one = {"nodes": int(mine.sum()), measure: float(np.nanmean(scores[mine]))}
                if self.of_classes:
                    one["majority"] = float(np.bincount(self.labels[mine]).max() / mine.sum())
                result[split or "no split"] = one
        return result

    # -- for people and files -----------------------------------------------------------------------------------------

    def columns(self) -> dict[str, np.ndarray]:
        """The columns of an output file by name, without the embeddings."""
        result = {"id": self.ids, **self._named("predicted", self.predicted)}
        if self.of_classes:
            result["probability"] = self.confidence
        if self.kind == "binary":
            result["threshold"] = np.full(len(self), self.threshold, np.float32)
        result |= {name: one for name in ("agree", "spread") if (one := getattr(self, name)) is not None}
        result |= {**self._named("label", self._label_column()), "split": self.splits}
        result |= {} if self.kind == "regression" else self._named("p", self.values)
        return result | {f"{name} (kept)" if name in result else name: column for name, column in self._kept()}

    def _kept(self) -> list[tuple[str, np.ndarray]]:
        return [] if self.kept is None else list(zip(self.kept_names, self.kept.T, strict=True))

    def _named(self, name: str, values: np.ndarray) -> dict[str, np.ndarray]:
        """Name the columns of ``values``: one column, or one for each class or regression target."""
        if values.ndim == 1:
            return {name: values}
        return {f"{name}({one})": column for one, column in zip(self.classes, values.T, strict=True)}

    def _label_column(self) -> np.ndarray:
        if self.kind == "regression":
            return self.labels
        if self.kind == "multilabel":
            return _joined(self.labels == 1, self.classes)
        return np.asarray(np.array([*self.classes, ""])[self.labels])

    def table(self, title: str, most: int = 10) -> Table:
        """A table of the first ``most`` nodes."""
        some = self.take(np.arange(min(most, len(self))))
        shown: dict[str, Any] = {"Id": [_short(str(one)) for one in some.ids]}
        shown |= {name: [_short(one) for one in column] for name, column in some._kept()}
        numbers = self.kind == "regression"
        shown["Predicted"] = map(_numbers, some.predicted) if numbers else some.predicted
        if self.of_classes:
            shown["Probability"] = [f"{p:.1%}" for p in some.confidence]
        if some.spread is not None:
            shown["±"] = [number(s) if numbers else f"{s:.1%}" for s in some.spread]
        if some.known.any():
            labels = some._label_column()
            shown["Label"] = map(_numbers, labels) if numbers else labels
        if (some.splits != "").any():
            shown["Split"] = some.splits
        return text_table(title, list(shown), (map(str, row) for row in zip(*shown.values(), strict=True)))

    def write(self, path: str | Path) -> Path:
        """Write a ``.csv``, ``.parquet`` or ``.npz`` file."""
        path = Path(path)
        write = {".csv": self._write_csv, ".parquet": self._write_parquet, ".npz": self._write_npz}.get(path.suffix)
        if write is None:
            raise HandfulError(f"{path} must end in .csv, .parquet or .npz")
        write_aside(path, write)
        return path

    def _write_csv(self, path: Path) -> None:
        columns = self.columns()
        if self.embeddings is not None:
            columns |= {f"e{i}": column for i, column in enumerate(self.embeddings.T)}
        with path.open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file)
            out.writerow(columns)
            for start in range(0, len(self), WRITE_ROWS):
                block = (values[start : start + WRITE_ROWS] for values in columns.values())
                plain = [np.round(v.astype(float), 6).tolist() if v.dtype.kind == "f" else v.tolist() for v in block]
                out.writerows(zip(*plain, strict=True))

    def _write_parquet(self, path: Path) -> None:
        pa = arrow()
        columns: dict[str, Any] = dict(self.columns())
        columns |= {name: values.tolist() for name, values in columns.items() if values.dtype.kind == "U"}
        if self.embeddings is not None:
            flat = pa.array(np.ascontiguousarray(self.embeddings).reshape(-1))
            columns["embedding"] = pa.FixedSizeListArray.from_arrays(flat, self.embeddings.shape[1])
        pa.parquet.write_table(pa.table(columns), path)

    def _write_npz(self, path: Path) -> None:
        arrays: dict[str, Any] = {n: values for n, values in self.columns().items() if not n.startswith("p(")}
        arrays |= {"values": self.values, "classes": np.array(self.classes)}  # not a kept column of these names
        if self.embeddings is not None:
            arrays["embeddings"] = self.embeddings
        with path.open("wb") as file:
            np.savez(file, **arrays)


def predict(
    models: Iterable[nn.Module],
    graph: Graph,
    nodes: np.ndarray,
    decision: Decision,
    class_names: Sequence[str] | None = None,
    device: str | torch.device = "cpu",
    **how: Any,
) -> Prediction:
    """Predict ``nodes`` with each of ``models``, and average the predictions. The inference is exact, on the full
    graph, and in bounded memory.

    Args:
        models: the models, such as one per seed.
        graph: a graph with the features that the models were trained on.
        nodes: int64 ``(n,)``, the indices of the nodes; see ``choose_nodes``.
        decision: the rule that turns outputs into probabilities, and probabilities into a class.
        class_names: the names of the models' classes or labels; ``None`` for their indices.
        device: the device for the computation.
        how: the arguments ``sampler``, ``memory``, ``scratch`` and ``progress`` of ``infer``. The budget ``memory``
            does not include the result.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4&classes=3&features=8")
    >>> nodes, decision = choose_nodes(graph, "test"), Decision("multiclass")
    >>> found = predict([hf.SAGE(8, 3, hidden=4, layers=2)], graph, nodes, decision)
    >>> len(found), found.probabilities.shape
    (25, (25, 3))
    """
    device = usable_device(device)
    placed = graph.to(device)
    chosen = torch.from_numpy(nodes).to(device)
    outputs = (infer(model.to(device), placed, **how)[chosen].cpu() for model in models)
    found = np.stack([decision.values(one).numpy() for one in outputs]).astype(np.float64)
    mean = np.asarray(found.mean(0))
    count = 0 if decision.kind == "regression" and mean.shape[1] == 1 else mean.shape[1]
    names = tuple(map(str, range(count)) if class_names is None else class_names)
    made = Prediction(
        decision,
        ids=nodes if graph.ids is None else graph.ids[nodes],
        classes=names,
        values=mean.astype(np.float32),
        labels=_labels(graph, nodes, names, decision.kind),
        splits=node_splits(graph, nodes),
        kept=None if graph.kept is None else graph.kept[nodes],
        kept_names=tuple((graph.schema or {}).get("kept", ())),
    )
    if len(found) < 2:
        return made
    deviation = found.std(0, ddof=1)
    if not made.of_classes:
        return replace(made, spread=deviation.mean(1).astype(np.float32))
    best = made.best
    alike = np.stack([decision.pick(one) == best for one in found])
    spread = deviation[np.arange(len(best)), best].astype(np.float32)
    return replace(made, agree=alike.mean(0).astype(np.float32), spread=spread)


def check_features(graph: Graph, width: int, schema: Schema | None) -> None:
    """Raise an error if ``graph`` does not have the ``width`` features that the model was trained on.

    Raises:
        RunError: the features differ. If ``schema``, the schema of the training data, is given, the message names the
            differing columns.
    """
    features = f"graph '{graph.name}' has {graph.num_features} features"
    if schema is not None:
        advice = "predict from its tables, or import them with the schema of the training"
        if graph.schema is None:
            raise RunError(f"{features} without names, and the training had named columns: {advice}")
        if differ := schema.differences(Schema.from_json(graph.schema)):
            more = " …" if len(differ) > 6 else ""
            raise RunError(f"graph '{graph.name}' is not as in training ({'; '.join(differ[:6])}{more}): {advice}")
    if graph.num_features != width:
        raise RunError(f"{features}, and the training had {width}")


def _joined(there: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Text ``(n,)``: the names of the labels that are true in ``there``, separated by semicolons."""
    return np.array([";".join(np.array(names)[row]) for row in there], np.str_)


def _numbers(row: Any) -> str:
    return ", ".join("" if one != one else number(one) for one in np.atleast_1d(row))


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_ID else f"{text[: SHOWN_ID - 1]}…"


def node_splits(graph: Graph, nodes: np.ndarray) -> np.ndarray:
    """Text ``(n,)``, the split of each node: ``train``, ``val``, ``test`` or empty."""
    out = np.zeros(len(nodes), "U5")
    for name, split in zip(MASKS, SPLITS, strict=True):
        if (mask := getattr(graph, name)) is not None:
            out[mask.cpu().numpy()[nodes]] = split
    return out


def _labels(graph: Graph, nodes: np.ndarray, classes: tuple[str, ...], kind: Kind) -> np.ndarray:
    """The labels of ``nodes``, in the form of ``Prediction.labels``. Class names in ``graph`` are matched with
    ``classes``.
    """
    names = graph.class_names or tuple(str(i) for i in range(graph.num_classes or 0))
    y = None if graph.y is None else graph.y.cpu().numpy()[nodes]
    if kind == "regression":
        shape = (len(nodes), len(classes)) if classes else (len(nodes),)
        return y if y is not None and y.shape == shape and graph.kind == kind else np.full(shape, np.nan, np.float32)
    if kind == "multilabel":
        out = np.full((len(nodes), len(classes)), np.nan, np.float32)
        for i, name in enumerate(classes):
            if y is not None and graph.kind == kind and name in names:
                out[:, i] = y[:, names.index(name)]
        return out
    if y is None or y.dtype.kind == "f":
        return np.full(len(nodes), -1)
    place = {name: i for i, name in enumerate(classes)}
    return np.array([*(place.get(name, -1) for name in names), -1])[y]  # type: ignore[no-any-return]


def choose_nodes(graph: Graph, which: str | Path | Sequence[Any] | np.ndarray) -> np.ndarray:
    """The indices of the selected nodes, int64.

    Args:
        graph: the graph that contains the nodes.
        which: ``all``, ``unlabelled``, ``train``, ``val`` or ``test``; the path of a text file with one id per line; or
            a sequence of ids.

    >>> graph = Graph.from_edge_index([[0], [1]], ids=["a", "b", "c"], y=[0, -1, 1])
    >>> choose_nodes(graph, "unlabelled"), choose_nodes(graph, ["c", "a"])
    (array([1]), array([2, 0]))
    """
    if isinstance(which, str) and which in CHOICES:
        if which == "all":
            return np.arange(graph.num_nodes)
        if which == "unlabelled":
            return np.flatnonzero(~graph.labelled.cpu().numpy())
        mask = getattr(graph, f"{which}_mask")
        return np.arange(0) if mask is None else np.flatnonzero(mask.cpu().numpy())
    if isinstance(which, str | Path):
        path = Path(which)
        if not path.is_file():
            raise HandfulError(f"nodes takes {', '.join(CHOICES)} or a file of ids, and {path} is no file")
        with explaining(f"{path} is not a text file with an id on every line", UnicodeDecodeError):
            which = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    ids = range(graph.num_nodes) if graph.ids is None else graph.ids.tolist()
    place = {str(one): i for i, one in enumerate(ids)}
    if len(place) < len(ids):
        raise HandfulError("some nodes of the graph have the same id: choose others than by ids")
    result = [place.get(str(one), -1) for one in which]
    absent = [str(one) for one, at in zip(which, result, strict=True) if at < 0]
    if absent:
        raise HandfulError(f"{len(absent):,} of {len(result):,} ids are no nodes of the graph: {', '.join(absent[:3])}")
    return np.array(result, np.int64)
