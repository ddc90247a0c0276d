"""``enable`` gives PyG the operators that a plain install lacks; ``disable`` takes them away again."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import types
from importlib.machinery import ModuleSpec
from typing import Any

import torch
import torch_geometric
import torch_geometric.loader.graph_saint
import torch_geometric.sampler.hgt_sampler
import torch_geometric.typing
from torch_geometric.sampler import HeteroSamplerOutput, HGTSampler, NeighborSampler, SamplerOutput
from torch_geometric.sampler.base import SubgraphType
from torch_geometric.sampler.utils import remap_keys

from handful.errors import HandfulError
from handful.pyg import operators
from handful.pyg.sparse import SparseTensor

TESTED = ("2.8", "2.9")
"""The versions of PyG whose own tests have been run with our operators."""

FLAGS = ("WITH_PYG_LIB", "WITH_METIS", "WITH_EDGE_TIME_NEIGHBOR_SAMPLE", "WITH_WEIGHTED_NEIGHBOR_SAMPLE")
"""What PyG asks before it calls them. Its flags for other operators of pyg-lib stay as they are."""

_undo: list[Any] = []
"""What ``disable`` calls, the last first; empty unless PyG has our operators."""


def enable(quiet: bool = False) -> None:
    """Let PyG's own loaders, samplers and Node2Vec run without pyg-lib or torch-sparse, on handful's kernels.

    It registers ``torch.ops.pyg.{neighbor_sample, hetero_neighbor_sample, subgraph, random_walk, metis}`` and those
    operators of torch-sparse that PyG's loaders call, sets PyG's flags for them, and puts a stand-in for the package
    ``pyg_lib`` into ``sys.modules``. It says in one line what it did. If pyg-lib is installed, it does nothing.

    Args:
        quiet: say nothing.

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
    _register("pyg", operators.PYG)
    package = _package()
    sys.modules.update(package)
    _undo.append(lambda: [sys.modules.pop(name, None) for name in package])
    for name in FLAGS:
        _flag(name, True)
    _flag("pyg_lib", package["pyg_lib"])
    for sampler in (NeighborSampler, HGTSampler):
        _set(sampler, "__reduce_ex__", _reduce)
    if not torch_geometric.typing.WITH_TORCH_SPARSE:
        _register("torch_sparse", operators.TORCH_SPARSE)
        _set(torch_geometric.sampler.hgt_sampler, "WITH_TORCH_SPARSE", True)
        _set(torch_geometric.loader.graph_saint, "SparseTensor", SparseTensor)
        _set(torch_geometric.typing, "SparseTensor", SparseTensor)
        _set(NeighborSampler, "_sample", _sample)
    _say(quiet, "PyG's neighbour sampling, HGT, METIS, GraphSAINT and random walks run on handful's kernels")


def disable() -> None:
    """Undo ``enable``. Loaders that were made before cannot be used any more."""
    while _undo:
        _undo.pop()()


def enabled() -> bool:
    """Whether PyG has our operators."""
    return bool(_undo)


def _say(quiet: bool, words: str) -> None:
    if not quiet:
        print(f"handful: {words}", file=sys.stderr, flush=True)


def _register(namespace: str, schemas: dict[str, Any]) -> None:
    library: Any = torch.library.Library(namespace, "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema, function in schemas.items():
        library.define(schema)
        library.impl(schema.partition("(")[0], function, "CompositeExplicitAutograd")
    _undo.append(library._destroy)


def _set(owner: Any, name: str, value: Any) -> None:
    inherited, before = name not in vars(owner), getattr(owner, name)
    setattr(owner, name, value)
    _undo.append(lambda: delattr(owner, name) if inherited else setattr(owner, name, before))


def _flag(name: str, value: Any) -> None:
    """Set a name of ``torch_geometric.typing`` there and in every module of PyG that has imported it."""
    before = getattr(torch_geometric.typing, name)
    _everywhere(name, value)
    _undo.append(lambda: _everywhere(name, before))


def _everywhere(name: str, value: Any) -> None:
    for key, module in list(sys.modules.items()):
        if key.partition(".")[0] == "torch_geometric" and name in vars(module):
            setattr(module, name, value)


def _package() -> dict[str, types.ModuleType]:
    """A stand-in for pyg-lib: the modules of it that have operators of ours. It has no version: it is not pyg-lib."""
    functions: dict[str, dict[str, Any]] = {
        "pyg_lib": {"__path__": []},
        "pyg_lib.ops": {},
        "pyg_lib.partition": {"metis": operators.metis},
        "pyg_lib.sampler": {
            "neighbor_sample": operators.neighbor_sample,
            "hetero_neighbor_sample": _hetero_neighbor_sample,
            "subgraph": operators.subgraph,
            "random_walk": operators.random_walk,
        },
    }
    modules = {name: types.ModuleType(name, "A stand-in by handful; see handful.pyg.enable.") for name in functions}
    for name, module in modules.items():
        vars(module).update(functions[name], __spec__=ModuleSpec(name, None))
        package, _, own_name = name.rpartition(".")
        if package:
            setattr(modules[package], own_name, module)
    return modules


def _hetero_neighbor_sample(*args: Any, **options: Any) -> Any:
    """The operator with edge types in place of their names, as the Python function of pyg-lib has it."""
    given = inspect.signature(operators.hetero_neighbor_sample).bind([], [], *args, **options).arguments
    to_name = {edge_type: "__".join(edge_type) for edge_type in given["rowptr_dict"]}
    to_type = {name: edge_type for edge_type, name in to_name.items()}
    given["node_types"] = sorted({kind for edge_type in to_name for kind in (edge_type[0], edge_type[2])})
    given["edge_types"] = list(to_name)
    for name in ("rowptr_dict", "col_dict", "num_neighbors_dict", "edge_time_dict", "edge_weight_dict"):
        if given.get(name) is not None:
            given[name] = remap_keys(given[name], to_name)
    rows, cols, nodes, places, per_node, per_edge = operators.hetero_neighbor_sample(**given)
    rows, cols, per_edge = (remap_keys(result, to_type) for result in (rows, cols, per_edge))
    return rows, cols, nodes, places and remap_keys(places, to_type), per_node, per_edge


def _reduce(self: Any, protocol: Any) -> Any:
    """``__reduce_ex__`` of a sampler: a worker that is spawned has the operators before it has the sampler."""
    made: Any = object.__reduce_ex__(self, protocol)
    return _remade, made[:2], *made[2:]


def _remade(make: Any, args: Any) -> Any:
    enable(quiet=True)
    return make(*args)


_pyg_sample = NeighborSampler._sample


def _sample(self: Any, seed: Any, seed_time: Any = None, **options: Any) -> Any:
    """``NeighborSampler._sample``, whose induced subgraphs PyG has from torch-sparse alone."""
    if self.subgraph_type != SubgraphType.induced:
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
        return SamplerOutput(node=node, row=row, col=col, edge=edge, batch=None)
    for to_type in (self.to_edge_type, self.to_restored_edge_type) if backward else (self.to_edge_type,):
        row, col, edge = (remap_keys(one, to_type) for one in (row, col, edge))
    return HeteroSamplerOutput(node=node, row=row, col=col, edge=edge, batch=None)
