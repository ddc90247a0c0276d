"""``debian``: the packages of Debian 12 main as nodes, their dependencies as edges, and their sections as classes.

A node is a binary package. An edge joins two packages if one package lists the other in Depends, Pre-Depends,
Recommends, Suggests or Enhances, even as an alternative. Versions and architectures are ignored. Edges have no
direction, and there are no self-loops. Virtual packages, which other packages provide, are not nodes and have no edges.
A package with several versions is one node, which has the relations of all versions.

The label is the section. The features are computed only from the words of the short description: x = Σ_w idf(w)·p(w)
over its distinct words w, scaled to mean square 1. The function p projects onto the 128 leading right singular vectors
of the TF-IDF matrix. The file contains the package names, the vocabulary and numbers, but not the descriptions.

``examples/build_debian.py`` builds the file from any package index in Debian's format, and
``load("debian?file=OUT.npz")`` reads it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.datasets.arrays import ArrayFile
from handful.datasets.registry import Query, Source
from handful.datasets.splits import NAMED
from handful.errors import readable
from handful.graph import MASKS, Graph
from handful.kernels.aggregate import Scaled, spmm
from handful.kernels.csr import first_outside

FEATURES = 128


# -- from arrays to the graph ---------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str], split: str) -> Graph:
    """Read the graph from a file that ``examples/build_debian.py`` wrote."""
    with readable(path, "build it with examples/build_debian.py"):
        return assemble(ArrayFile(Path(path).expanduser()), split)


def assemble(arrays: Mapping[str, np.ndarray], split: str) -> Graph:
    """Make the graph from the arrays of a file, with the masks of ``split``."""
    label = _integers(arrays, "label")
    larger_ptr, larger = _unpack_rows(arrays, "neighbour")
    smaller = np.repeat(np.arange(len(label)), np.diff(larger_ptr))
    group = arrays[f"split_{split}"]
    fields: dict[str, Any] = {name: torch.from_numpy(group == k) for k, name in enumerate(MASKS)}
    fields |= {"x": description_features(arrays), "y": torch.from_numpy(label), "name": "debian"}
    names, sections = (arrays[name].tobytes().decode().split("\n") for name in ("names", "sections"))
    edges = np.stack([np.concatenate([smaller, larger]), np.concatenate([larger, smaller])])
    return Graph.from_edge_index(edges, class_names=tuple(sections), ids=np.array(names), **fields)


def description_features(arrays: Mapping[str, np.ndarray]) -> Tensor:
    """The features, float32 ``(packages, 128)``; a row is zero if the description of the package has no word of the
    vocabulary.
    """
    indptr, indices = _unpack_rows(arrays, "word")
    projection, scale = torch.from_numpy(arrays["projection"]), torch.from_numpy(arrays["scale"])
    fits = projection.ndim == 2 and scale.shape == projection.shape[:1] and len(indptr) == len(arrays["label"]) + 1
    if not fits or (projection.dtype, scale.dtype) != (torch.int8, torch.float32):
        raise ValueError("its arrays do not belong together")
    if first_outside(indices, len(projection)) >= 0:
        raise ValueError("it uses a word that is not in its vocabulary")
    x = spmm(Scaled(torch.from_numpy(indptr), torch.from_numpy(indices), right=scale), projection.float())
    return x / x.square().mean(1, keepdim=True).sqrt().clamp_min(1e-12)


def _unpack_rows(arrays: Mapping[str, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray]:
    counts, gaps = _integers(arrays, f"{name}_counts"), _integers(arrays, f"{name}_gaps")
    indptr = np.concatenate([[0], np.cumsum(counts)])
    if (counts < 0).any() or indptr[-1] != len(gaps):
        raise ValueError(f"its {name}s do not add up")
    total = np.concatenate([[0], np.cumsum(gaps)])
    return indptr, total[1:] - np.repeat(total[indptr[:-1]], counts)


def _integers(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    array = arrays[name]
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"its {name} are no integers")
    return array.astype(np.int64)


# -- the source -----------------------------------------------------------------------------------------------------

EMBEDDED = files("handful.datasets") / "data" / "debian.npz"


@dataclass(frozen=True)
class DebianOptions:
    """The options of ``debian``: ``debian?file=OUT.npz`` reads a graph that was built from another index."""

    file: str | None = None


def _load(query: Query) -> Graph:
    """Load the bundled graph, or the graph in ``query.options.file``."""
    with as_file(EMBEDDED) as embedded:
        return read(query.options.file or embedded, query.split or "rh")


ABOUT = "packages of Debian 12 main, joined by dependencies; the class is the section (bundled)"
KNOWN: dict[str, Any] = {"task": "58 classes", "nodes": 63_436, "edges": 590_600, "features": FEATURES, "classes": 58}
SOURCES = (Source("debian", ABOUT, _load, tuple(NAMED), options=DebianOptions, **KNOWN),)
