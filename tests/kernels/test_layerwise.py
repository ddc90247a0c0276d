import numpy as np
import torch

from handful import Graph
from handful.kernels.layerwise import layer, transition
from handful.samplers.induced import weighted_csr


def hub(leaves: int, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """Node 0 receives from ``leaves`` others, each with a weight of its own; and the row of P that it has."""
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.3, 2.0, leaves).astype(np.float32)
    edges = np.stack([np.arange(1, leaves + 1), np.zeros(leaves, int)])
    p = np.concatenate([[1.0], weight])
    return Graph.from_edge_index(edges, leaves + 1, edge_weight=weight), p / p.sum()


def test_nodes_are_drawn_one_after_another_without_replacement() -> None:
    graph, row = hub(4)
    p = row**2 / (row**2).sum()
    # With a budget of 2: i comes first, or j comes first and i is the next of what is left.
    expected = np.array([p[i] + sum(p[j] * p[i] / (1 - p[j]) for j in range(5) if j != i) for i in range(5)])
    draws = 20_000
    seen = np.zeros(5)
    for key in range(draws):
        drawn = layer(weighted_csr(graph), np.array([0]), 1, 2, key)
        seen[drawn.nodes] += 1
    sigma = np.sqrt(expected * (1 - expected) / draws)
    assert seen[0] == draws  # the target itself is always kept
    assert (np.abs(seen / draws - expected) < 4.5 * sigma)[1:].all()


def test_the_estimate_approaches_the_full_aggregation() -> None:
    """Importance weights undo the bias of the draw, as long as the budget is small beside the choice."""
    graph, row = hub(10_000)
    x = np.concatenate([[0.0], graph.edge_weight.numpy()])  # heavy edges lead to large values: p alone would overrate
    exact = x[0] = float(row[1:] @ x[1:] / row[1:].sum())  # the target is always kept: here it changes nothing
    estimates, plain = [], []
    for key in range(200):
        drawn = layer(weighted_csr(graph), np.array([0]), 1, 200, key)
        values = torch.from_numpy(x)[drawn.nodes[drawn.indices.long()]]
        estimates.append(float(drawn.weight.double() @ values))
        plain.append(float(values.mean()))
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert error < 0.005 * exact
    assert abs(np.mean(estimates) - exact) < 4 * error + 0.005 * exact  # a ratio is unbiased up to O(1/budget)
    assert abs(np.mean(plain) - exact) > 0.05 * exact


def test_with_equal_importance_and_budget_for_all_it_is_the_full_aggregation() -> None:
    ring = np.arange(12)
    edges = np.concatenate([np.stack([(ring + k) % 12, ring]) for k in (1, 2, 11, 10)], axis=1)
    graph = Graph.from_edge_index(edges)
    drawn = layer(weighted_csr(graph), np.arange(12), 12, 12, 0)
    assert drawn.nodes.tolist() == list(range(12))
    assert torch.allclose(drawn.weight, torch.tensor(0.2))
    assert drawn.indptr.diff().tolist() == [5] * 12


def test_a_node_above_that_is_not_drawn_is_no_source_and_may_have_an_empty_row() -> None:
    """0 is the batch; 1 above it hears of 2 alone, and one node is drawn: 0 or 1 or 2."""
    graph = Graph.from_edge_index([[2], [1]], 3)
    kinds = set()
    for key in range(200):
        drawn = layer(weighted_csr(graph), np.array([0, 1]), 1, 1, key)
        kinds.add(tuple(drawn.nodes.tolist()))
        place = {v: i for i, v in enumerate(drawn.nodes.tolist())}
        assert drawn.own.tolist() == [0, place.get(1, -1)]
        assert drawn.indices[:1].tolist() == [0]  # the batch's own column
        assert drawn.indptr.diff().tolist() == [1, int(1 in place) + int(2 in place)]
        assert torch.allclose(drawn.weight, torch.tensor(1.0))
    assert kinds == {(0,), (0, 1), (0, 2)}


def test_the_transition_is_the_row_normalised_adjacency_with_loops() -> None:
    graph = Graph.from_edge_index([[1, 1, 0, 2, 2], [0, 0, 1, 2, 1]], 4, edge_weight=[1.0, 2.0, 0.5, 3.0, 0.25])
    indptr, indices, weight = transition(weighted_csr(graph))
    a = torch.eye(4)
    a.index_put_((graph.edge_index[1], graph.edge_index[0]), graph.edge_weight, accumulate=True)
    dense = torch.zeros(4, 4)
    rows = torch.repeat_interleave(torch.arange(4), indptr.diff())
    dense.index_put_((rows, indices.long()), weight, accumulate=True)
    torch.testing.assert_close(dense, a / a.sum(1, keepdim=True))
