from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful import Batch, Graph, SamplerError
from handful.kernels.neighbors import Neighborhood, sample
from handful.kernels.threads import get_threads, set_threads
from handful.samplers.neighbor import Neighbors, rectangles


@pytest.fixture
def threads() -> Iterator[None]:
    before = get_threads()
    yield
    set_threads(before)


def same(a: Batch, b: Batch) -> bool:
    pairs = [(a.nodes, b.nodes), (a.targets, b.targets)]
    pairs += [
        (x, y)
        for one, other in zip(a.layers, b.layers, strict=True)
        for x, y in ((one.indptr, other.indptr), (one.indices, other.indices))
    ]
    return all(torch.equal(x, y) for x, y in pairs)


def check_against_the_definition(graph: Graph, drawn: Neighborhood, seeds: np.ndarray, fanout: tuple[int, ...]) -> None:
    """Walk the hops again, in plain Python, from the edges that were kept."""
    indptr, indices = graph.topology
    assert list(drawn.nodes[: drawn.met[0]]) == list(seeds)
    assert len(set(drawn.nodes.tolist())) == len(drawn.nodes)
    known, row = len(seeds), 0
    for f in fanout:
        new = row, known
        discovered: list[int] = []
        for i in range(*new):
            v = int(drawn.nodes[i])
            mine = slice(drawn.indptr[i], drawn.indptr[i + 1])
            edges, degree = drawn.edges[mine].tolist(), int(indptr[v + 1] - indptr[v])
            assert len(edges) == (degree if f == -1 else min(f, degree))
            assert len(set(edges)) == len(edges)
            assert all(indptr[v] <= e < indptr[v + 1] for e in edges)
            assert drawn.nodes[drawn.indices[mine]].tolist() == indices[edges].tolist()
            discovered += [u for u in indices[edges].tolist() if u not in drawn.nodes[:known]]
        row, known = known, known + len(set(discovered))
        assert list(dict.fromkeys(discovered)) == drawn.nodes[row:known].tolist()
    assert len(drawn.indptr) == row + 1
    assert known == len(drawn.nodes)


fanouts = st.lists(st.sampled_from([1, 2, 3, -1]), min_size=1, max_size=3).map(tuple)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), fanout=fanouts, key=st.integers(0, 2**62))
def test_a_sample_is_what_the_definition_says(
    graphs: st.SearchStrategy[Graph], data: st.DataObject, fanout: tuple[int, ...], key: int
) -> None:
    graph = data.draw(graphs)
    seeds = graph.train_nodes.numpy()[::-1]
    drawn = sample(*graph.topology, seeds, fanout, key)
    check_against_the_definition(graph, drawn, seeds, fanout)

    layers = rectangles(graph, drawn)
    assert [(a.num_targets, a.num_sources) for a in reversed(layers)] == list(pairwise(drawn.met.tolist()))
    union = layers[0].square()
    dense = torch.zeros(len(drawn.nodes), len(drawn.nodes))
    values = torch.ones(union.num_edges) if graph.edge_weight is None else graph.edge_weight[drawn.edges]
    dense.index_put_((union.edge_index[1], union.edge_index[0]), values, accumulate=True)
    has_own = torch.zeros(len(drawn.nodes), dtype=torch.bool)
    has_own[union.indices[union.indices == union.edge_index[1]].long()] = True
    degree = dense.sum(1) + (~has_own).float()
    for layer in layers:
        own = layer.gcn_scale
        expected = torch.where(degree > 0, degree.clamp_min(1e-30).rsqrt(), 0.0)[: layer.num_sources]
        # Weights may cancel: where the true degree is about zero, rounding decides, and nobody should care.
        clear = degree[: layer.num_sources].abs() > 1e-4
        assert torch.allclose(own[clear], expected[clear], rtol=1e-3)


@settings(max_examples=80, deadline=None)
@given(data=st.data(), fanout=fanouts, batch_size=st.integers(1, 5), depth=st.integers(1, 4))
def test_rectangles_compute_what_the_whole_sample_would(
    graphs: st.SearchStrategy[Graph], data: st.DataObject, fanout: tuple[int, ...], batch_size: int, depth: int
) -> None:
    graph = data.draw(graphs)
    seen = []
    for batch in Neighbors(fanout, batch_size).epoch(graph, 0, 0):
        assert 1 <= len(batch.targets) <= batch_size
        assert torch.equal(batch.y, graph.y[batch.nodes[batch.targets]])
        seen += batch.nodes[batch.targets].tolist()
        stack = batch.stack(depth)
        x = batch.x[: stack[0].num_sources]
        union, everywhere = batch.layers[0].square(), batch.x
        for layer in stack:
            x = layer.mean(x) + x[: layer.num_targets]
            everywhere = union.mean(everywhere) + everywhere
        assert torch.allclose(x, everywhere[: len(x)], atol=1e-5)
    assert sorted(seen) == graph.train_nodes.tolist()


def test_all_neighbours_give_the_exact_result(medium: Graph) -> None:
    full = torch.zeros(300, 300)
    full.index_put_((medium.edge_index[1], medium.edge_index[0]), torch.ones(medium.num_edges), accumulate=True)
    full /= full.sum(1, keepdim=True).clamp_min(1)
    expected = full @ (full @ medium.x)
    for batch in Neighbors((-1, -1), 40).epoch(medium, 1, 2):
        inner, outer = batch.layers
        assert torch.allclose(outer.mean(inner.mean(batch.x)), expected[batch.nodes[batch.targets]], atol=1e-5)


def test_batches_depend_on_seed_and_epoch_and_not_on_threads(medium: Graph, threads: None) -> None:
    sampler = Neighbors((3, 2), 16)
    batches = list(sampler.epoch(medium, 5, 1))
    assert len(batches) == -(-len(medium.train_nodes) // 16)
    for count in (1, 3):
        set_threads(count)
        assert all(same(a, b) for a, b in zip(batches, sampler.epoch(medium, 5, 1), strict=True))
    assert not same(batches[0], next(sampler.epoch(medium, 5, 2)))
    assert not same(batches[0], next(sampler.epoch(medium, 6, 1)))


def test_evaluation_visits_the_given_nodes_in_order(medium: Graph) -> None:
    nodes = torch.tensor([7, 3, 299, 150, 0])
    batches = list(Neighbors((4,), 2).evaluation(medium, nodes, 3))
    assert torch.cat([b.nodes[b.targets] for b in batches]).tolist() == nodes.tolist()
    assert all(same(a, b) for a, b in zip(batches, Neighbors((4,), 2).evaluation(medium, nodes, 3), strict=True))
    for wrong in ([3, 3], [300], [-1]):
        with pytest.raises(SamplerError, match="node to evaluate"):
            Neighbors().evaluation(medium, torch.tensor(wrong), 0)


@pytest.mark.parametrize("wrong", [(), 0, (0,), (-2,), (2.5,), 2.5, "10"])
def test_a_wrong_fanout_is_refused(wrong: object) -> None:
    with pytest.raises(SamplerError, match="fanout"):
        Neighbors(fanout=wrong)  # type: ignore[arg-type]


def test_a_list_is_as_good_as_a_tuple_and_so_is_one_number() -> None:
    assert Neighbors(fanout=5) == Neighbors(fanout=(5,))  # type: ignore[arg-type]
    assert Neighbors(fanout=[5, 5]) == Neighbors(fanout=(5, 5))  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "many"])
def test_a_wrong_batch_size_is_refused(wrong: object) -> None:
    with pytest.raises(SamplerError, match="batch_size"):
        Neighbors(batch_size=wrong)  # type: ignore[arg-type]
