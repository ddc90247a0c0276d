from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import handful as hf
from graphs import make_graph
from handful.adjacency import Adjacency
from handful.batch import Sample, batch_checksum, make_batch, training_sample
from handful.errors import SamplerError
from handful.graph import Graph
from handful.samplers.full import FullGraph


def a_graph() -> Graph:
    edges = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    return Graph.from_edge_index(edges, x=x, y=[0, 1, 2, 1], train_mask=[1, 3], val_mask=[0], test_mask=[2])


def stack_of(*sizes: int) -> Sample:
    """A sample whose layers lead from ``sizes[0]`` nodes to ``sizes[1]`` nodes and so on, target v hearing the last."""
    layers = tuple(
        Adjacency(torch.arange(targets + 1), torch.full((targets,), sources - 1), sources)
        for sources, targets in pairwise(sizes)
    )
    return Sample(torch.arange(sizes[0]), layers, torch.tensor([0]))


def sizes(layers: tuple[Adjacency, ...]) -> list[tuple[int, int]]:
    return [(layer.num_sources, layer.num_targets) for layer in layers]


def test_one_square_serves_every_layer() -> None:
    batch = next(FullGraph().epoch(a_graph(), seed=0, epoch=0))
    assert batch.shared
    assert batch.stack(3) == batch.layers * 3
    assert (batch.num_nodes, batch.num_edges) == (4, 4)
    assert batch.targets.tolist() == [1, 3]
    assert batch.y.tolist() == [1, 1]


def test_a_stack_of_rectangles_fits_any_depth() -> None:
    batch = stack_of(7, 4, 2)
    assert not batch.shared
    assert sizes(batch.stack(2)) == [(7, 4), (4, 2)]
    assert sizes(batch.stack(4)) == [(7, 7), (7, 7), (7, 4), (4, 2)]
    deep = batch.stack(4)
    assert deep[0].edge_index.tolist() == batch.layers[0].edge_index.tolist()
    assert sizes(batch.stack(1)) == [(4, 2)]


def test_a_single_rectangle_is_not_shared() -> None:
    batch = stack_of(5, 3)
    assert not batch.shared
    assert sizes(batch.stack(2)) == [(5, 5), (5, 3)]


def test_normalised_layers_cannot_be_stretched() -> None:
    batch = stack_of(7, 4, 2)
    batch = replace(batch, layers=tuple(replace(layer, normalized=True) for layer in batch.layers))
    assert sizes(batch.stack(2)) == [(7, 4), (4, 2)]
    with pytest.raises(SamplerError, match="draws 2 layers and the model has 3"):
        batch.stack(3)


def test_make_batch_takes_what_the_graph_knows() -> None:
    nodes = torch.tensor([3, 0, 1])
    layer = Adjacency(torch.tensor([0, 0, 1, 1]), torch.tensor([0]), 3)
    batch = make_batch(a_graph(), training_sample(a_graph(), nodes, (layer,)))
    assert batch.x.tolist() == [[6, 7], [0, 1], [2, 3]]
    assert batch.targets.tolist() == [0, 2]
    assert batch.y.tolist() == [1, 1]
    chosen = make_batch(a_graph(), Sample(nodes, (layer,), torch.tensor([1]), torch.tensor([2.0])))
    assert chosen.y.tolist() == [0]
    moved = chosen.to("cpu")
    assert moved.target_weight is not None
    assert moved.target_weight.tolist() == [2]


def test_a_batch_says_what_it_is_and_not_all_its_numbers() -> None:
    graph = make_graph(60)
    assert repr(next(hf.FullGraph().epoch(graph, 0, 0))).startswith(f"Batch(60 nodes, {graph.num_edges:,} edges, ")
    assert repr(next(hf.Neighbors((2, 2), 5, trimmed=True).sample(graph, 0, 0))).endswith("5 targets, 2 layers)")


def test_the_checksum_of_a_batch_tells_every_array() -> None:
    graph = make_graph(60, undirected=False, weighted=True)
    batch = next(hf.RandomNodes(2).epoch(graph, 0, 0))
    (layer,) = batch.layers
    same = replace(batch, nodes=batch.nodes.clone(), layers=(replace(layer, indices=layer.indices.clone()),))
    assert batch_checksum(same) == batch_checksum(batch)
    others = [replace(batch, **{name: getattr(batch, name).flip(0)}) for name in ("nodes", "targets", "x", "y")]
    others += [
        replace(batch, layers=(replace(layer, **{name: getattr(layer, name).flip(0)}),))
        for name in ("indptr", "indices", "weight")
    ]
    assert len({batch_checksum(one) for one in (batch, *others)}) == 8
