"""Call any model: models of handful with a ``Batch``, PyG modules with ``(x, edge_index)`` and edge weights or
features.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from handful.adjacency import Adjacency
from handful.batch import Batch
from handful.errors import HandfulError
from handful.kernels.sparse import dense
from handful.training.label_features import add_label_logits


def logits_of(model: nn.Module, batch: Batch) -> Tensor:
    """The model's output for the batch. The first rows of the output belong to the targets of the last layer, and more
    rows may follow.

    If ``model.takes_batch`` is true, as in models of handful, the model is called with the batch itself.
    """
    if getattr(model, "takes_batch", False):
        return add_label_logits(model, batch, model(batch))
    edges = all_edges(model, batch)
    x, given = dense(batch.x).to(torch.float32), arguments(model, batch, edges)
    edges = edges.square()
    with _as_products(model, edges):
        if _takes_data(model):
            from torch_geometric.data import Data

            out = model(Data(x=x, edge_index=edges.edge_index, **given))
        else:
            out = model(x, edges.edge_index, **given)
    if not isinstance(out, Tensor):
        name = type(_plain(model)).__name__
        raise HandfulError(f"{name}.forward gives a {type(out).__name__}: it must give one tensor of outputs")
    return out


def _plain(model: Any) -> Any:
    """The original module, if ``model`` is a result of ``torch.compile``; otherwise ``model`` itself."""
    return getattr(model, "_orig_mod", model)


PRODUCTS = {"SAGEConv": ("mean", "add", "sum"), "GINConv": ("add", "sum"), "GraphConv": ("mean", "add", "sum")}
"""PyG convolutions, and their aggregations, whose outputs are the same for a sparse matrix as for an ``edge_index``. On
a graph without self-loops, this also holds for ``GCNConv``. With a sparse matrix, the convolution is one matrix
product, and no message per edge is stored.
"""


@contextmanager
def _as_products(model: nn.Module, edges: Adjacency) -> Iterator[None]:
    """A context in which the convolutions of ``model`` that ``PRODUCTS`` lists get a sparse matrix instead of
    ``edges.edge_index``.
    """
    known = {**PRODUCTS, **({} if edges.has_loops else {"GCNConv": ("add",)})}
    layers = [
        layer
        for layer in model.modules()
        if type(layer).__module__.startswith("torch_geometric.nn.conv.")
        and getattr(layer, "aggr", None) in known.get(type(layer).__name__, ())
    ]
    if not layers or edges.weight is not None or edges.device.type != "cpu" or hasattr(model, "_orig_mod"):
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that its sparse matrices are in beta
        size = (edges.num_targets, edges.num_sources)
        matrix = torch.sparse_csr_tensor(edges.indptr, edges.indices.long(), torch.ones(edges.num_edges), size)

    def exchange(layer: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if sum(value is not None for value in (*args, *named.values())) > 2:
            return args, named  # with a third argument, such as edge weights, it is no plain product

        def instead(value: Any) -> Any:
            return matrix if value is edges.edge_index else value

        return tuple(map(instead, args)), {name: instead(value) for name, value in named.items()}

    hooks = [layer.register_forward_pre_hook(exchange, with_kwargs=True) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def arguments(model: nn.Module, batch: Batch, edges: Adjacency) -> dict[str, Tensor]:
    """The keyword arguments for ``model``, in addition to features and edges: edge weights, edge features, and
    ``batch`` if ``model`` requires it.

    Raises:
        HandfulError: the result would be wrong on this batch, or a required argument is not available.
    """
    for layer in model.modules():
        kind = type(layer).__name__
        if getattr(layer, "cached", False) is True:
            raise HandfulError(f"{kind} keeps the edges of its first batch for all others: make it with cached=False")
        nodes = getattr(layer, "num_nodes", None)
        if isinstance(nodes, int) and nodes != batch.num_nodes:
            what = f"{kind} has weights for each of {nodes} nodes, and this batch has {batch.num_nodes}, numbered anew"
            raise HandfulError(f"{what}: train it on the full graph")
    given = edge_arguments(model, batch, edges)
    if _takes_data(model):
        return given
    places = [p for p in _parameters(model).values() if p.kind < 2]
    needed = {p.name for p in places[2:] if p.default is p.empty or p.name == "edge_type"} - {*given}
    if needed == {"batch"}:  # all nodes belong to one graph
        return given | {"batch": torch.zeros(batch.num_nodes, dtype=torch.int64, device=edges.device)}
    if needed or len(places) == 1:
        asked = f"{type(_plain(model)).__name__}.forward asks for ({', '.join(p.name for p in places)})"
        raise HandfulError(f"{asked}, and fit gives it x, edge_index, and the edge_weight and edge_attr of the graph")
    return given


def _parameters(model: nn.Module) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(_plain(model).forward).parameters


def _takes_data(model: nn.Module) -> bool:
    """Whether ``forward`` takes a ``Data`` as its only argument."""
    return [p.name for p in _parameters(model).values() if p.default is p.empty] == ["data"]


def _names_of_edges(model: nn.Module) -> list[str]:
    """The names of the edge arguments of ``forward`` (weights, features, types) that the model's layers use."""
    called, known = _plain(model), ("edge_weight", "edge_attr", "edge_type")
    # PyG's ready-made models take edge_weight and edge_attr, and have flags for the ones that their layers use.
    names = [name for name in known if name in _parameters(model) and getattr(called, f"supports_{name}", True)]
    widths = [layer.edge_dim for layer in called.modules() if hasattr(layer, "edge_dim")]
    if type(called).__module__.startswith("torch_geometric.") and widths and not any(widths):
        names = [name for name in names if name != "edge_attr"]  # without edge_dim, these layers ignore edge_attr
    return names


def all_edges(model: nn.Module, batch: Batch) -> Adjacency:
    """The edges that all layers of ``batch`` share, for a module that takes one ``edge_index`` for all its layers.

    Raises:
        HandfulError: the layers have different edges, as in LADIES.
    """
    first, *others = batch.layers
    for layer in others:
        rows, edges = layer.num_targets, layer.num_edges
        same = rows <= first.num_targets and torch.equal(layer.indptr, first.indptr[: rows + 1])
        if layer.normalized or not same or not torch.equal(layer.indices, first.indices[:edges]):
            what = f"each layer of this batch has edges of its own, and {type(model).__name__} takes one edge_index"
            advice = "use another sampler, or a module with `takes_batch = True`, which is called with the batch"
            raise HandfulError(f"{what}: {advice}")
    return first


def edge_arguments(model: nn.Module, batch: Batch, edges: Adjacency) -> dict[str, Tensor]:
    """The edge features and edge weights, as keyword arguments of ``model``.

    Edge features are passed as ``edge_attr``. If the module has no such argument and each edge has a single feature,
    this feature is passed as the integer ``edge_type``. Edge weights are passed as ``edge_weight``. If the module has
    no such argument, the weights are passed as ``edge_attr``. The weights of normalised GraphSAINT and LADIES define
    the aggregation and are not edge features, so they can be passed only as ``edge_weight``. If the graph has no
    weights, a module that requires them gets ones.

    Raises:
        HandfulError: there are edge features or weights, and the module has no argument for them.
    """
    name, attr, weight, given = type(_plain(model)).__name__, batch.edge_attr, edges.weight, dict[str, Tensor]()
    names = ["edge_weight", "edge_attr"] if _takes_data(model) else _names_of_edges(model)
    if attr is not None and "edge_attr" in names:
        given["edge_attr"] = attr
    elif attr is not None and "edge_type" in names and attr.shape[1] == 1:
        given["edge_type"] = attr[:, 0].long()
    elif attr is not None:
        advice = "give it that argument (GAT: edge_dim), or leave it out, graph.replace(edge_attr=None)"
        raise HandfulError(f"the edges of this graph have edge_attr, and {name}.forward takes none: {advice}")
    places = [one for one in ("edge_weight", "edge_attr") if one in names and one not in given]
    if weight is None:
        known = _parameters(model)
        places = [one for one in places if one in known and known[one].default is inspect.Parameter.empty]
        weight = torch.ones(edges.num_edges, device=edges.device)
    elif not places or (edges.normalized and places[0] != "edge_weight"):
        why = f"the edges of this batch have weights, and {name}.forward takes no edge_weight"
        advice = "Give it that argument (GAT: edge_dim=1), or use no weights"
        raise HandfulError(f"{why}: it would train on another graph. {advice}")
    for place in places[:1]:
        given[place] = weight.to(torch.float32).view((-1, 1) if place == "edge_attr" else (-1,))
    return given


def average_edges(batch: Batch) -> Batch:
    """Set the edge weights to a_vu / d_v, with d_v = Σ_u a_vu. The weighted sum is then the mean that GraphSAINT
    estimates.
    """
    return replace(batch, layers=(batch.layers[0].operator("mean")[0],))


def seed_step(model: nn.Module, seed: int) -> None:
    """Seed the random numbers of a step (dropout) with ``seed``."""
    on_host = all(parameter.device.type == "cpu" for parameter in model.parameters())
    # torch.manual_seed formats the call stack for each kind of device that is not in use: 0.16 ms or more per step.
    (torch.default_generator.manual_seed if on_host else torch.manual_seed)(seed)
    if hasattr(model, "step_seed"):
        setattr(model, "step_seed", seed)  # noqa: B010  (mypy takes module attributes for tensors)


def in_units(model: nn.Module, outputs: Tensor) -> Tensor:
    """For a regression, convert standardised outputs to the unit of the labels; for other tasks, return the outputs
    unchanged.
    """
    if (units := getattr(model, "units", None)) is None:
        return outputs
    mean, spread = (torch.tensor(one).to(outputs) for one in units)
    return outputs * spread + mean
