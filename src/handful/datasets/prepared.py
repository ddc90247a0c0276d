"""Data sets that are converted once: a memory-mapped graph, and beside it each split, with one byte per node."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from handful.datasets.splits import Masks
from handful.errors import DatasetError
from handful.files import write_aside
from handful.graph import MASKS, Graph
from handful.storage import is_saved, open_graph, save

Built = tuple[Graph, dict[str, Masks]]
"""A graph without masks, and its splits by name."""


def is_prepared(folder: Path) -> bool:
    """Whether the graph is in ``folder`` already, so that ``prepared`` need not build it."""
    return is_saved(folder / "graph")


def prepared(folder: Path, build: Callable[[], Built], split: str | None) -> Graph:
    """The graph kept in ``folder``, with the masks of ``split``; built and kept there if this is the first time.

    In a folder that cannot be written to the graph is built each time.
    """
    if not is_prepared(folder):
        graph, splits = build()
        try:
            for name, masks in splits.items():
                _write_split(folder / "splits" / f"{name}.npy", masks)
            save(graph, folder / "graph")
        except OSError:
            return graph if split is None else graph.replace(**splits[split])
    graph = open_graph(folder / "graph")
    return graph if split is None else graph.replace(**_read_split(folder / "splits" / f"{split}.npy"))


def prepared_splits(folder: Path) -> list[str]:
    """The names of the splits kept in ``folder``."""
    return sorted(path.stem for path in (folder / "splits").glob("*.npy"))


def _write_split(path: Path, masks: Masks) -> None:
    codes = sum((masks[name].numpy() * np.uint8(i + 1) for i, name in enumerate(MASKS)), np.uint8(0))
    buffer = io.BytesIO()
    np.save(buffer, codes, allow_pickle=False)
    write_aside(path, lambda aside: aside.write_bytes(buffer.getvalue()))


def _read_split(path: Path) -> Masks:
    try:
        codes = np.load(path, mmap_mode="r", allow_pickle=False)  # a map is never longer than its file
        if codes.ndim != 1 or codes.dtype != np.uint8:
            raise ValueError("other codes")
    except Exception:  # numpy raises many kinds here, and all mean the same to the user.
        raise DatasetError(
            f"{path} is missing or broken: remove {path.parent.parent} and load the data again"
        ) from None
    return {name: torch.from_numpy(np.asarray(codes == i + 1)) for i, name in enumerate(MASKS)}
