import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful import Batch, Graph, SamplerError
from handful.samplers.full import full_adjacency
from handful.samplers.saint import Counts, RandomWalks, normalized, presample
from rounding import assert_within, size, sum_bound


@settings(max_examples=80)
@given(data=st.data(), roots=st.integers(1, 6), length=st.integers(1, 4), seed=st.integers(0, 99))
def test_a_batch_is_the_subgraph_that_the_visited_nodes_induce(
    graphs: st.SearchStrategy[Graph], data: st.DataObject, roots: int, length: int, seed: int
) -> None:
    graph = data.draw(graphs)
    sampler = RandomWalks(roots, length)
    batches = list(sampler.epoch(graph, seed, 3))
    assert len(batches) == max(1, graph.num_nodes // (roots * length))
    sources, targets = graph.edge_index
    for step, batch in enumerate(batches):
        assert 1 <= batch.num_nodes <= roots * (length + 1)
        assert batch.nodes.tolist() == sampler.visited(graph, seed, 3, step).tolist()
        assert batch.nodes[batch.targets].tolist() == [v for v in batch.nodes.tolist() if graph.train_mask[v]]
        among = torch.isin(sources, batch.nodes) & torch.isin(targets, batch.nodes)
        layer = batch.layers[0]
        assert torch.equal(batch.nodes[layer.edge_index], torch.stack([sources[among], targets[among]]))
        assert layer.symmetric == graph.undirected
        assert layer.weight is None or torch.equal(layer.weight, graph.edge_weight[among])


def test_roots_are_uniform() -> None:
    lonely = Graph.from_edge_index(
        np.zeros((2, 0), int), 10, x=np.zeros((10, 1)), y=np.zeros(10), num_classes=2, train_mask=np.ones(10, bool)
    )
    sampler = RandomWalks(roots=1, length=1)
    visits = np.zeros(10)
    for epoch in range(400):
        for batch in sampler.epoch(lonely, 0, epoch):
            visits[batch.nodes] += 1
    assert visits.sum() == 4000
    assert ((visits - 400) ** 2 / 400).sum() < 30  # chi square, 9 degrees of freedom


def linear_loss(batch: Batch, z: torch.Tensor, c: torch.Tensor) -> float:
    """Σ_v weight_v · c_v · (aggregated z)_v: a loss that is linear in the aggregation."""
    out = batch.layers[0].mean(z[batch.nodes][:, None])[:, 0] * c[batch.nodes]
    out = out[batch.targets]
    return float(out.mean() if batch.target_weight is None else (batch.target_weight * out).sum())


def full_loss(graph: Graph, z: torch.Tensor, c: torch.Tensor) -> float:
    sources, targets = graph.edge_index
    value = z[sources] if graph.edge_weight is None else z[sources] * graph.edge_weight
    mean = torch.zeros(graph.num_nodes).index_add_(0, targets, value) / graph.in_weight.clamp_min(1e-9)
    return float((c * mean)[graph.train_mask].mean())


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data(), roots=st.integers(1, 4), length=st.integers(1, 3))
def test_the_normalised_loss_averages_to_the_full_loss_over_what_was_pre_sampled(
    graphs: st.SearchStrategy[Graph], data: st.DataObject, roots: int, length: int
) -> None:
    """Over the very subgraphs that were counted the identity is exact, if all nodes and edges were among them."""
    graph = data.draw(graphs)
    sampler = RandomWalks(roots, length, normalize=True, coverage=25)
    counts = presample(graph, sampler, 1)
    if counts.nodes.min() == 0 or (len(counts.edges) and counts.edges.min() == 0):
        return
    rng = torch.Generator().manual_seed(0)
    z, c = torch.randn(graph.num_nodes, generator=rng), torch.randn(graph.num_nodes, generator=rng)
    drawn = (sampler.visited(graph, 1, k, 0, 1) for k in range(counts.subgraphs))
    losses = [linear_loss(normalized(graph, nodes, counts), z, c) for nodes in drawn]
    assert np.mean(losses) == pytest.approx(full_loss(graph, z, c), abs=1e-4)


def test_the_normalised_loss_is_unbiased_on_fresh_batches(medium: Graph) -> None:
    z = medium.in_degree.float().log1p()  # hubs stand out, and walks visit hubs most: without weights it shows
    c = 1 + 0.1 * z
    expected = full_loss(medium, z, c)

    def mean_and_error(sampler: RandomWalks) -> tuple[float, float]:
        losses = [linear_loss(b, z, c) for epoch in range(150) for b in sampler.epoch(medium, 0, epoch)]
        assert len(losses) == 150 * 7
        return float(np.mean(losses)), float(np.std(losses) / np.sqrt(len(losses)))

    mean, error = mean_and_error(RandomWalks(20, 2, normalize=True, coverage=160))
    assert abs(mean - expected) < 4 * np.sqrt(2) * error  # counts and batches are equally many draws
    assert error < 0.03 * expected
    biased, error = mean_and_error(RandomWalks(20, 2))
    assert abs(biased - expected) > 10 * error


def test_what_was_never_seen_counts_as_seen_once(medium: Graph) -> None:
    nothing = Counts(1, np.zeros(300, np.int32), np.zeros(medium.num_edges, np.int32))
    batch = normalized(medium, np.arange(300), nothing)
    adjacency = batch.layers[0]
    assert adjacency.normalized
    assert not adjacency.symmetric
    bound = sum_bound(torch.float32, torch.tensor(size(medium.x)), int(medium.in_degree.max()))
    assert_within(adjacency.mean(medium.x), full_adjacency(medium).mean(medium.x), bound)
    assert torch.allclose(batch.target_weight, torch.tensor(1 / len(medium.train_nodes)))


def test_batches_depend_on_seed_epoch_and_step(medium: Graph) -> None:
    sampler = RandomWalks(10, 2, normalize=True, coverage=2)
    drawn = [[b.nodes.tolist() for b in sampler.epoch(medium, s, e)] for s, e in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert drawn[0] == drawn[1]
    assert len({str(d) for d in drawn}) == 3
    assert len({str(nodes) for nodes in drawn[0]}) == len(drawn[0])


@pytest.mark.parametrize("wrong", [{"roots": 0}, {"length": 0}, {"coverage": 0}, {"roots": 1.5}])
def test_wrong_options_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SamplerError, match=next(iter(wrong))):
        RandomWalks(**wrong)
