"""Predictions by the user's own ids: what the models of a run say of the nodes of a graph, and files of it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from handful.errors import HandfulError
from handful.files import write_aside
from handful.finding import Cell, Table
from handful.graph import MASKS, Graph
from handful.training.inference import infer

SPLITS = tuple(name.removesuffix("_mask") for name in MASKS)
CHOICES = ("all", "unlabelled", *SPLITS)
WRITE_ROWS = 65_536
SHOWN_ID = 36
"""The most letters of an id that a printed table shows."""


@dataclass(frozen=True)
class Prediction:
    """What is predicted for some nodes of a graph.

    Args:
        ids: ``(n,)``, the user's own ids, int64 or text.
        classes: the names of the classes.
        probabilities: float32 ``(n, classes)``: the mean over the models.
        labels: int64 ``(n,)``, the class that a node has, -1 where that is not known.
        splits: text ``(n,)``: train, val, test, or nothing.
        agree: float32 ``(n,)``, the share of the models that alone predict the same class; ``None`` for one model.
        spread: float32 ``(n,)``, the standard deviation over the models of the predicted class's probability; ``None``
            for one model.
        embeddings: float32 ``(n, width)``, where they were asked for.
    """

    ids: np.ndarray
    classes: tuple[str, ...]
    probabilities: np.ndarray
    labels: np.ndarray
    splits: np.ndarray
    agree: np.ndarray | None = None
    spread: np.ndarray | None = None
    embeddings: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def best(self) -> np.ndarray:
        """int64 ``(n,)``, the number of the predicted class."""
        return self.probabilities.argmax(1)  # type: ignore[no-any-return]

    @property
    def predicted(self) -> np.ndarray:
        """Text ``(n,)``, the name of the predicted class."""
        return np.array(self.classes)[self.best] if len(self) else np.array([], np.str_)

    @property
    def confidence(self) -> np.ndarray:
        """float32 ``(n,)``, the probability of the predicted class."""
        return self.probabilities.max(1, initial=0)  # type: ignore[no-any-return]

    def take(self, rows: np.ndarray) -> Prediction:
        """Some of the nodes, by place or mask."""
        arrays = {f.name: v[rows] for f in fields(self) if isinstance(v := getattr(self, f.name), np.ndarray)}
        return replace(self, **arrays)

    def changed(self) -> Prediction:
        """The nodes whose prediction is not their label, the most confident first."""
        other = np.flatnonzero((self.labels >= 0) & (self.best != self.labels))
        return self.take(other[np.argsort(-self.confidence[other], kind="stable")])

    def accuracy(self) -> dict[str, dict[str, float]]:
        """For each split and for nodes in none: how many have a label, and the share of those that is predicted."""
        found = {}
        for split in (*SPLITS, ""):
            mine = (self.splits == split) & (self.labels >= 0)
            if mine.any():
                right = float((self.best[mine] == self.labels[mine]).mean())
                found[split or "no split"] = {"nodes": int(mine.sum()), "accuracy": right}
        return found

    # -- for people and files -----------------------------------------------------------------------------------------

    def columns(self) -> dict[str, np.ndarray]:
        """Every column of a file, by name; embeddings are not among them."""
        names = np.array([*self.classes, ""])
        found = {"id": self.ids, "predicted": self.predicted, "probability": self.confidence}
        if self.agree is not None and self.spread is not None:
            found |= {"agree": self.agree, "spread": self.spread}
        found |= {"label": names[self.labels], "split": self.splits}
        return found | {f"p({name})": self.probabilities[:, i] for i, name in enumerate(self.classes)}

    def table(self, title: str, most: int = 10) -> Table:
        """The first nodes, for people."""
        some = self.take(np.arange(min(most, len(self))))
        shown: dict[str, Any] = {"Id": [_short(str(one)) for one in some.ids], "Predicted": some.predicted}
        shown["Probability"] = [f"{p:.1%}" for p in some.confidence]
        if some.spread is not None:
            shown["±"] = [f"{s:.1%}" for s in some.spread]
        if (some.labels >= 0).any():
            shown["Label"] = np.array([*self.classes, ""])[some.labels]
        if some.splits.any():
            shown["Split"] = some.splits
        rows = [[Cell(str(value)) for value in row] for row in zip(*shown.values(), strict=True)]
        return Table(title, list(shown), rows)

    def write(self, path: str | Path) -> Path:
        """Write a ``.csv``, ``.parquet`` or ``.npz`` file."""
        path = Path(path)
        write = {".csv": self._write_csv, ".parquet": self._write_parquet, ".npz": self._write_npz}.get(path.suffix)
        if write is None:
            raise HandfulError(f"{path} must end in .csv, .parquet or .npz")
        write_aside(path, write)
        return path

    def _all_columns(self) -> dict[str, np.ndarray]:
        width = 0 if self.embeddings is None else self.embeddings.shape[1]
        return self.columns() | {f"e{i}": self.embeddings[:, i] for i in range(width)}  # type: ignore[index]

    def _write_csv(self, path: Path) -> None:
        columns = self._all_columns()
        with path.open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file)
            out.writerow(columns)
            for start in range(0, len(self), WRITE_ROWS):
                block = (values[start : start + WRITE_ROWS] for values in columns.values())
                plain = [np.round(v.astype(float), 6).tolist() if v.dtype.kind == "f" else v.tolist() for v in block]
                out.writerows(zip(*plain, strict=True))

    def _write_parquet(self, path: Path) -> None:
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError:
            raise HandfulError("Parquet files are written by pyarrow: pip install 'handful[parquet]'") from None
        columns: dict[str, Any] = {
            name: values.tolist() if values.dtype.kind == "U" else values for name, values in self.columns().items()
        }
        if self.embeddings is not None:
            flat = pa.array(np.ascontiguousarray(self.embeddings).reshape(-1))
            columns["embedding"] = pa.FixedSizeListArray.from_arrays(flat, self.embeddings.shape[1])
        parquet.write_table(pa.table(columns), path)

    def _write_npz(self, path: Path) -> None:
        arrays: dict[str, Any] = {
            name: values for name, values in self.columns().items() if not name.startswith("p(")
        } | {"probabilities": self.probabilities, "classes": np.array(self.classes)}
        if self.embeddings is not None:
            arrays["embeddings"] = self.embeddings
        with path.open("wb") as file:
            np.savez(file, **arrays)


def predict(
    models: Iterable[nn.Module],
    graph: Graph,
    nodes: np.ndarray,
    class_names: Sequence[str] | None = None,
    device: str | torch.device = "cpu",
) -> Prediction:
    """What ``models`` say of ``nodes``: exactly, on the full graph, in bounded memory, one model after another.

    Args:
        models: one, or one for each seed: their probabilities are averaged.
        graph: with the features that the models were trained on.
        nodes: int64 ``(n,)``, the numbers of nodes; see ``chosen``.
        class_names: of the models' classes; their numbers when ``None``.
        device: where to compute.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4&classes=3&features=8")
    >>> found = predict([hf.SAGE(8, 3, hidden=4, layers=2)], graph, chosen(graph, "test"))
    >>> len(found), found.probabilities.shape
    (25, (25, 3))
    """
    placed = graph.to(device)
    count, total, squares = 0, np.zeros(0), np.zeros(0)
    votes: list[np.ndarray] = []
    for model in models:
        found = class_probabilities(infer(model.to(device), placed))[torch.from_numpy(nodes)].double().numpy()
        total = found if not count else total + found
        squares = found**2 if not count else squares + found**2
        votes.append(found.argmax(1))
        count += 1
    mean = total / count
    names = tuple(class_names) if class_names is not None else tuple(str(i) for i in range(mean.shape[1]))
    agree = spread = None
    if count > 1:
        best = mean.argmax(1)
        agree = np.mean([vote == best for vote in votes], axis=0).astype(np.float32)
        rows = np.arange(len(best))
        variance = np.maximum(squares[rows, best] / count - mean[rows, best] ** 2, 0) * count / (count - 1)
        spread = np.sqrt(variance).astype(np.float32)
    return Prediction(
        ids=node_ids(graph)[nodes],
        classes=names,
        probabilities=mean.astype(np.float32),
        labels=_labels(graph, names)[nodes],
        splits=node_splits(graph)[nodes],
        agree=agree,
        spread=spread,
    )


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_ID else f"{text[: SHOWN_ID - 1]}…"


def class_probabilities(logits: Tensor) -> Tensor:
    """float32 ``(n, classes)``, from logits ``(n, classes)``, or ``(n, 1)`` for two classes; on the CPU.

    >>> class_probabilities(torch.tensor([[0.0]]))
    tensor([[0.5000, 0.5000]])
    """
    logits = logits.cpu()
    if logits.shape[1] > 1:
        return logits.softmax(1)
    return torch.cat([(-logits).sigmoid(), logits.sigmoid()], 1)


def node_ids(graph: Graph) -> np.ndarray:
    """``(N,)``: the user's own ids, or the nodes' numbers where there are none."""
    return np.arange(graph.num_nodes) if graph.ids is None else graph.ids


def node_splits(graph: Graph) -> np.ndarray:
    """Text ``(N,)``: train, val, test or nothing."""
    out = np.zeros(graph.num_nodes, "U5")
    for name, split in zip(MASKS, SPLITS, strict=True):
        if (mask := getattr(graph, name)) is not None:
            out[mask.cpu().numpy()] = split
    return out


def _labels(graph: Graph, classes: tuple[str, ...]) -> np.ndarray:
    """int64 ``(N,)``: the labels of ``graph`` as places in ``classes``, by name; -1 where that is not known."""
    if graph.y is None:
        return np.full(graph.num_nodes, -1)
    own = graph.class_names or tuple(str(i) for i in range(graph.num_classes or 0))
    place = {name: i for i, name in enumerate(classes)}
    places = np.array([*(place.get(name, -1) for name in own), -1])
    return places[graph.y.cpu().numpy()]  # type: ignore[no-any-return]


def chosen(graph: Graph, which: str | Path | Sequence[Any] | np.ndarray) -> np.ndarray:
    """int64, the numbers of the nodes that ``which`` names.

    Args:
        graph: theirs.
        which: ``all``, ``unlabelled``, ``train``, ``val`` or ``test``; the path of a text file with an id on every
            line; or ids.

    >>> graph = Graph.from_edge_index([[0], [1]], ids=["a", "b", "c"], y=[0, -1, 1])
    >>> chosen(graph, "unlabelled"), chosen(graph, ["c", "a"])
    (array([1]), array([2, 0]))
    """
    if isinstance(which, str) and which in CHOICES:
        if which == "all":
            return np.arange(graph.num_nodes)
        if which == "unlabelled":
            unknown = np.ones(graph.num_nodes, bool) if graph.y is None else graph.y.cpu().numpy() < 0
            return np.flatnonzero(unknown)
        return np.flatnonzero(node_splits(graph) == which)
    if isinstance(which, str | Path):
        path = Path(which)
        if not path.is_file():
            raise HandfulError(f"nodes takes {', '.join(CHOICES)} or a file of ids, and {path} is no file")
        try:
            which = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        except UnicodeDecodeError:
            raise HandfulError(f"{path} is not a text file with an id on every line") from None
    return _places(node_ids(graph), which)


def _places(ids: np.ndarray, wanted: Sequence[Any] | np.ndarray) -> np.ndarray:
    place = {str(one): i for i, one in enumerate(ids.tolist())}
    found = [place.get(str(one), -1) for one in wanted]
    absent = [str(one) for one, at in zip(wanted, found, strict=True) if at < 0]
    if absent:
        raise HandfulError(f"{len(absent):,} of {len(found):,} ids are no nodes of the graph: {', '.join(absent[:3])}")
    return np.array(found, np.int64)
