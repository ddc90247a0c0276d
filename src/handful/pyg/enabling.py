"""``enable`` adds the operators that a plain installation of PyG lacks; ``disable`` removes them."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from contextlib import suppress
from functools import wraps
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import torch
import torch_geometric
import torch_geometric.typing
from torch_geometric.loader import cluster, graph_saint
from torch_geometric.nn import Node2Vec
from torch_geometric.nn.models import node2vec
from torch_geometric.sampler import HGTSampler, NeighborSampler, hgt_sampler, neighbor_sampler
from torch_geometric.testing import decorators

from handful.errors import HandfulError
from handful.pyg import operators

TESTED = ("2.8", "2.9")
"""The versions of PyG whose own tests have been run with handful's operators."""

FLAGS = ("WITH_METIS", "WITH_EDGE_TIME_NEIGHBOR_SAMPLE", "WITH_WEIGHTED_NEIGHBOR_SAMPLE")
"""PyG's flags for the operators that ``enable`` adds. PyG's global flags for pyg-lib and torch-sparse do not change."""

SCHEMAS: dict[str, list[str]] = tomllib.loads((files("handful.pyg") / "schemas.toml").read_text(encoding="utf-8"))
"""The schemas of the operators that ``enable`` registers, by namespace."""

_undo: list[Any] = []
"""The functions that ``disable`` calls, last one first. The list is empty unless ``enable`` has added the operators."""


def enable(quiet: bool = False) -> None:
    """Make PyG's own loaders, samplers and Node2Vec run on handful's kernels, without pyg-lib or torch-sparse.

    The function registers ``torch.ops.pyg.{neighbor_sample, hetero_neighbor_sample, subgraph, random_walk, metis}`` and
    ``torch.ops.torch_sparse.{hgt_sample, partition}``, and sets the flags of the PyG modules that call these operators.
    All other functions of pyg-lib and torch-sparse remain unavailable. If pyg-lib is installed, nothing is registered.
    Whether or not it registers anything, the function prints one line to stderr.

    Args:
        quiet: if true, print nothing.

    Raises:
        HandfulError: this version of PyG has not been tested with these operators.

    >>> enable(quiet=True)
    >>> torch.ops.pyg.random_walk(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.tensor([0]), 2, 1.0, 1.0)
    tensor([[0, 1, 0]])
    """
    version = torch_geometric.__version__
    if not version.startswith(TESTED):
        known = " and ".join(f"{one}.*" for one in TESTED)
        raise HandfulError(f"PyG {version} has not been tested with handful's operators: use {known}, or pyg-lib")
    if _undo:
        return
    if importlib.util.find_spec("pyg_lib") is not None:
        _say(quiet, "pyg-lib is installed: PyG keeps its own operators")
        return
    _register("pyg")
    for name in FLAGS:
        _set(torch_geometric.typing, name, True)
    seen = {**vars(torch_geometric.typing), "WITH_PYG_LIB": True}
    _set(neighbor_sampler, "torch_geometric", SimpleNamespace(typing=SimpleNamespace(**seen)))
    _set(cluster, "pyg_lib", SimpleNamespace(partition=SimpleNamespace(metis=operators.metis)))
    for module in (node2vec, decorators):  # these use the flag only for walks and neighbour sampling
        _set(module, "WITH_PYG_LIB", True)
    _set(decorators, "WITH_METIS", True)
    _set(Node2Vec, "loader", _loading(Node2Vec.loader, lambda _, model, **__: model.sample([0])))
    for sampler in (NeighborSampler, HGTSampler):
        _set(sampler, "__init__", _loading(sampler.__init__, _draw))
        _set(sampler, "__reduce_ex__", _reduce)
    if not torch_geometric.typing.WITH_TORCH_SPARSE:
        _register("torch_sparse")
        _set(hgt_sampler, "WITH_TORCH_SPARSE", True)
        _set(graph_saint, "SparseTensor", _loading(operators.SparseTensor, _walk))
        _set(NeighborSampler, "_sample", _sample)
    _say(quiet, "PyG's neighbour sampling, HGT, METIS, GraphSAINT and random walks run on handful's kernels")


def disable() -> None:
    """Undo ``enable``; afterwards, existing loaders no longer work."""
    while _undo:
        _undo.pop()()


def enabled() -> bool:
    """Whether ``enable`` has added handful's operators to PyG."""
    return bool(_undo)


def _say(quiet: bool, words: str) -> None:
    if not quiet:
        print(f"handful: {words}", file=sys.stderr, flush=True)


def _register(namespace: str) -> None:
    """Register the function of ``operators`` for each schema of a namespace."""
    library: Any = torch.library.Library(namespace, "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema in SCHEMAS[namespace]:
        name = library.define(schema)
        library.impl(name, getattr(operators, name), "CompositeExplicitAutograd")
    _undo.append(library._destroy)


def _set(owner: Any, name: str, value: Any) -> None:
    inherited, before = name not in vars(owner), getattr(owner, name)
    setattr(owner, name, value)
    _undo.append(lambda: delattr(owner, name) if inherited else setattr(owner, name, before))


# -- kernels are loaded before workers are forked; otherwise each worker would load them in every epoch --------------


def _loading(function: Any, sample: Any) -> Any:
    """Wrap ``function``, so that each call also loads the kernels: it calls ``sample`` with the result and the same
    arguments. An error of ``sample`` is ignored, since the loader raises it later.
    """

    @wraps(function)
    def made(*args: Any, **options: Any) -> Any:
        result = function(*args, **options)
        with suppress(Exception), torch.random.fork_rng(devices=[]):
            sample(result, *args, **options)
        return result

    return made


def _draw(_: None, sampler: Any, *args: Any, **options: Any) -> None:
    """Sample around one node of each type, to load the kernels."""
    pointers = sampler.colptr_dict if hasattr(sampler, "colptr_dict") else {"": sampler.colptr}
    for name, colptr in pointers.items():
        node = (colptr.diff() > 0).int().argmax().view(1)  # the first node with an edge
        seed = neighbor_sampler.NodeSamplerInput(None, node, torch.tensor([2**62]), name.split("__")[-1] or None)
        sampler.sample_from_nodes(seed)


def _walk(matrix: operators.SparseTensor, row: torch.Tensor, **fields: Any) -> None:
    """Take one step of a random walk in the matrix of a GraphSAINT sampler, to load the kernels."""
    matrix.saint_subgraph(torch.unique(matrix.random_walk(row[:1].long(), 1)))


# -- sampling ----------------------------------------------------------------------------------------------------------


def _reduce(self: Any, protocol: Any) -> Any:
    """The ``__reduce_ex__`` of a sampler: a spawned worker that unpickles the sampler enables the operators first."""
    made: Any = object.__reduce_ex__(self, protocol)
    return _remade, made[:2], *made[2:]


def _remade(make: Any, args: Any) -> Any:
    enable(quiet=True)
    return make(*args)


_pyg_sample = NeighborSampler._sample


def _sample(self: Any, seed: Any, seed_time: Any = None, **options: Any) -> Any:
    """``NeighborSampler._sample`` with support for induced subgraphs, which PyG itself supports only with
    torch-sparse.
    """
    if self.subgraph_type != neighbor_sampler.SubgraphType.induced:
        return _pyg_sample(self, seed, seed_time, **options)
    if self.disjoint:
        raise ValueError("'disjoint' sampling not supported for neighbor sampling with `subgraph_type='induced'`")
    how = {"csc": True, "replace": self.replace, "directed": False}
    if isinstance(seed, dict):
        dtype = next((colptr.dtype for colptr in self.colptr_dict.values()), torch.int64)
        seeds = {kind: ids.to(dtype) for kind, ids in seed.items()}
        counts = self.num_neighbors.get_mapped_values(self.edge_types)
        given = self.node_types, self.edge_types, self.colptr_dict, self.row_dict, seeds, counts
        result: Any = operators.hetero_neighbor_sample(*given, edge_weight_dict=self.edge_weight, **how)
    else:
        seeds, counts = seed.to(self.colptr.dtype), self.num_neighbors.get_mapped_values()
        result = operators.neighbor_sample(self.colptr, self.row, seeds, counts, edge_weight=self.edge_weight, **how)
    row, col, node, edge, *_ = result
    backward = self.sample_direction == "backward"
    if backward:
        row, col = col, row
    if not isinstance(seed, dict):
        return neighbor_sampler.SamplerOutput(node=node, row=row, col=col, edge=edge, batch=None)
    for to_type in (self.to_edge_type, self.to_restored_edge_type) if backward else (self.to_edge_type,):
        row, col, edge = (neighbor_sampler.remap_keys(one, to_type) for one in (row, col, edge))
    return neighbor_sampler.HeteroSamplerOutput(node=node, row=row, col=col, edge=edge, batch=None)
