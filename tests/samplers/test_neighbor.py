from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import k_hop_subgraph

from handful import Batch, Graph, SamplerError, Settings
from handful.batch import Sample
from handful.convert import to_pyg
from handful.kernels.neighbors import Neighborhood, sample
from handful.kernels.threads import get_threads, set_threads
from handful.nn import make_model
from handful.pyg import NeighborLoader
from handful.samplers.neighbor import Neighbors, union
from handful.training.fit import begin
from handful.training.loop import train_epoch
from handful.trim import trim
from rounding import UNIT, assert_within, size, sum_bound


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


@settings(max_examples=150)
@given(data=st.data(), fanout=fanouts, key=st.integers(0, 2**62))
def test_a_sample_is_what_the_definition_says(
    graphs: st.SearchStrategy[Graph], data: st.DataObject, fanout: tuple[int, ...], key: int
) -> None:
    graph = data.draw(graphs)
    seeds = graph.train_nodes.numpy()[::-1]
    drawn = sample(*graph.topology, seeds, fanout, key)
    check_against_the_definition(graph, drawn, seeds, fanout)

    whole = union(graph, drawn)
    part = Sample(torch.from_numpy(drawn.nodes), (whole,), torch.arange(len(seeds)), hops=tuple(drawn.met))
    layers = trim(part, len(fanout)).layers
    assert [(a.num_targets, a.num_sources) for a in reversed(layers)] == list(pairwise(drawn.met.tolist()))
    dense = torch.zeros(len(drawn.nodes), len(drawn.nodes))
    values = torch.ones(whole.num_edges) if graph.edge_weight is None else graph.edge_weight[drawn.edges]
    dense.index_put_((whole.edge_index[1], whole.edge_index[0]), values, accumulate=True)
    has_own = torch.zeros(len(drawn.nodes), dtype=torch.bool)
    has_own[whole.indices[whole.indices == whole.edge_index[1]].long()] = True
    degree = dense.sum(1) + (~has_own).float()
    for layer in layers:
        own = layer.gcn_scale
        expected = torch.where(degree > 0, degree.clamp_min(1e-30).rsqrt(), 0.0)[: layer.num_sources]
        # A degree is a sum of as many positive terms in float32 as there are edges, in any order; then a square root.
        torch.testing.assert_close(own, expected, rtol=2 * (whole.num_edges + 3) * UNIT[torch.float32], atol=0)


@settings(max_examples=80)
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
        cut, by_option = trim(batch, depth), trim(batch, len(fanout))
        for small, stack in ((cut, cut.stack(depth)), (by_option, by_option.stack(depth))):
            x, everywhere = small.x[: stack[0].num_sources], batch.x
            for layer in stack:
                x = layer.mean(x) + x[: layer.num_targets]
                everywhere = batch.layers[0].mean(everywhere) + everywhere
            assert len(x) == len(batch.targets)
            # A mean is no larger than what it is of, so a layer doubles at most.
            terms = 2.0 ** len(stack) * batch.x.abs().max()
            assert_within(x, everywhere[: len(x)], len(stack) * sum_bound(x.dtype, terms, graph.num_edges))
    assert sorted(seen) == graph.train_nodes.tolist()


def test_all_neighbours_give_the_exact_result(medium: Graph) -> None:
    full = torch.zeros(300, 300)
    full.index_put_((medium.edge_index[1], medium.edge_index[0]), torch.ones(medium.num_edges), accumulate=True)
    full /= full.sum(1, keepdim=True).clamp_min(1)
    expected = full @ (full @ medium.x)
    for batch in Neighbors((-1, -1), 40).epoch(medium, 1, 2):
        inner, outer = trim(batch, 2).layers
        # Two means, each a sum of as many terms as a node has edges, of numbers no larger than the features.
        bound = 4 * (int(medium.in_degree.max()) + 3) * UNIT[torch.float32] * size(medium.x)
        assert_within(outer.mean(inner.mean(batch.x)), expected[batch.nodes[batch.targets]], bound)


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


class PlainPyG(nn.Module):
    """GraphSAGE as anybody writes it: BatchNorm over whatever the loader gives."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(features, hidden), SAGEConv(hidden, hidden), SAGEConv(hidden, classes)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(hidden), nn.BatchNorm1d(hidden)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=False):
            x = norm(conv(x, edge_index)).relu()
        return self.convs[-1](x, edge_index)  # type: ignore[no-any-return]


def twins(graph: Graph) -> tuple[nn.Module, PlainPyG]:
    """handful's GraphSAGE and PyG's with the same weights."""
    torch.manual_seed(3)
    ours = make_model("sage", graph.num_features, 5, hidden=8, layers=3, dropout=0.0, residual=False)
    theirs = PlainPyG(graph.num_features, 8, 5)
    with torch.no_grad():
        for mine, other in zip(ours.convs, theirs.convs, strict=True):
            other.lin_l.weight.copy_(mine.neighbor.weight)
            other.lin_l.bias.copy_(mine.neighbor.bias)
            other.lin_r.weight.copy_(mine.own.weight)
    return ours, theirs


def statistics(model: nn.Module) -> list[Tensor]:
    return [getattr(m, name) for m in model.modules() if isinstance(m, nn.BatchNorm1d) for name in STATISTICS]


STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
LAYER_ROUNDING = 2 * 3 * 300 * UNIT[torch.float32]
"""Two computations of three layers, whose sums have at most 300 terms: one for each node."""
STEPS = 4


def test_batch_norm_sees_what_pygs_loader_gives_a_plain_pyg_model(medium: Graph) -> None:
    """Every layer runs on all nodes that were sampled; trimmed on request, and then BatchNorm sees others."""
    ours, theirs = twins(medium)
    order = torch.cat([b.nodes[b.targets] for b in Neighbors((-1, -1), 40).epoch(medium, 7, 0)])
    theirs.train()
    for seeds in order.split(40):
        nodes, edges, mapping, _ = k_hop_subgraph(seeds, 2, medium.edge_index, True, 300, directed=True)
        loss = nn.functional.cross_entropy(theirs(medium.x[nodes], edges)[mapping], medium.y[seeds])
        theirs.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in theirs.parameters():
                p -= 0.1 * p.grad
    train_epoch(begin(ours, medium, Neighbors((-1, -1), 40), Settings(optimizer="sgd", lr=0.1), seed=7))
    for a, b in zip(statistics(ours), statistics(theirs), strict=True):
        assert_within(a, b, STEPS * LAYER_ROUNDING * (1 + size(b)))

    other, _ = twins(medium)
    train_epoch(begin(other, medium, Neighbors((-1, -1), 40, trimmed=True), Settings(optimizer="sgd", lr=0.1), seed=7))
    assert not torch.allclose(statistics(other)[3], statistics(theirs)[3], rtol=1e-3)


def test_batch_norm_sees_what_the_drop_in_loader_gives(medium: Graph) -> None:
    ours, theirs = twins(medium)
    # One batch of all that any hop reaches: nothing is drawn, so both see the same nodes and edges.
    seeds = int(medium.train_mask.sum())
    loader = NeighborLoader(to_pyg(medium), [-1, -1], input_nodes=medium.train_mask, batch_size=seeds)
    theirs.train()
    for data in loader:
        theirs(data.x, data.edge_index)
    ours.train()
    for batch in Neighbors((-1, -1), seeds).epoch(medium, 7, 0):
        ours(batch)
    for a, b in zip(statistics(ours), statistics(theirs), strict=True):
        assert_within(a, b, LAYER_ROUNDING * (1 + size(b)))


@pytest.mark.parametrize("wrong", [(), 0, (0,), (-2,), (2.5,), 2.5, "ten"])
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
