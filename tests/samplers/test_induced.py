"""Induced subgraphs against PyG's, for some nodes in any order and for every part of a partition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful import Graph
from handful.samplers.induced import induced_adjacency, induced_parts, part_dtype
from subgraphs import edges_of, induced_edges


@settings(max_examples=80)
@given(data=st.data())
def test_some_nodes_in_any_order(graphs: st.SearchStrategy[Graph], data: st.DataObject) -> None:
    graph = data.draw(graphs)
    nodes = data.draw(st.lists(st.integers(0, graph.num_nodes - 1), unique=True))
    found = induced_adjacency(graph, np.array(nodes, np.int64))
    assert (found.num_sources, found.num_targets) == (len(nodes), len(nodes))
    assert edges_of(found) == induced_edges(graph, torch.tensor(nodes, dtype=torch.int64))
    assert found.symmetric == graph.undirected


@settings(max_examples=80)
@given(data=st.data(), parts=st.integers(1, 5))
def test_every_part_is_what_its_nodes_induce(graphs: st.SearchStrategy[Graph], data: st.DataObject, parts: int) -> None:
    graph = data.draw(graphs)
    drawn = data.draw(st.lists(st.integers(0, parts), min_size=graph.num_nodes, max_size=graph.num_nodes))
    part = np.array(drawn, part_dtype(parts))
    found = list(induced_parts(graph, part, parts))
    assert len(found) == parts
    for p, (nodes, adjacency) in enumerate(found):
        assert nodes.tolist() == np.flatnonzero(part == p).tolist()  # and part `parts` is in none
        assert edges_of(adjacency) == edges_of(induced_adjacency(graph, nodes.numpy())) == induced_edges(graph, nodes)


@pytest.mark.parametrize("parts", [1, 254, 255, 256, 65_534, 65_535, 65_536, 10**6])
def test_the_type_tells_all_parts_and_one_more_apart(parts: int) -> None:
    kind = part_dtype(parts)
    assert np.iinfo(kind).max >= parts
    assert kind is np.uint8 or np.iinfo(np.uint8).max < parts + 1
