"""The operators by brute force: what they sample, what they return, what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from handful.errors import HandfulError
from handful.pyg import operators
from handful.pyg.operators import OperatorError, hetero_neighbor_sample, metis, neighbor_sample, random_walk, subgraph


def csr(n: int = 60, edges: int = 600, seed: int = 0, dtype: torch.dtype = torch.int64) -> tuple[Tensor, Tensor]:
    """A random graph with loops and repeated edges."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.integers(0, n, edges))
    rowptr = np.searchsorted(rows, np.arange(n + 1))
    return torch.from_numpy(rowptr).to(dtype), torch.from_numpy(rng.integers(0, n, edges)).to(dtype)


def by_hand(rowptr: Tensor, col: Tensor, seed: Tensor, hops: int) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Nodes and (row, column, edge) of the whole neighbourhood, in the order of meeting."""
    nodes = seed.tolist()
    first, edges = 0, []
    for _ in range(hops):
        end = len(nodes)
        for i in range(first, end):
            for e in range(int(rowptr[nodes[i]]), int(rowptr[nodes[i] + 1])):
                v = int(col[e])
                if v not in nodes:
                    nodes.append(v)
                edges.append((i, nodes.index(v), e))
        first = end
    return nodes, edges


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("csc", [False, True])
def test_the_whole_neighbourhood_is_that_of_a_loop_by_hand(dtype: torch.dtype, csc: bool) -> None:
    rowptr, col = csr(dtype=dtype)
    seed = torch.tensor([5, 1, 40], dtype=dtype)
    rows, cols, nodes, ids, per_node, per_edge = neighbor_sample(rowptr, col, seed, [-1, -1], csc=csc)
    wanted_nodes, wanted = by_hand(rowptr, col, seed, 2)
    if csc:
        rows, cols = cols, rows
    assert ids is not None
    assert {tensor.dtype for tensor in (rows, cols, nodes, ids)} == {dtype}
    assert nodes.tolist() == wanted_nodes
    assert list(zip(rows.tolist(), cols.tolist(), ids.tolist(), strict=True)) == wanted
    assert (sum(per_node), sum(per_edge), per_node[0]) == (len(nodes), len(ids), 3)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("disjoint", [False, True])
def test_fanout_and_membership(replace: bool, disjoint: bool) -> None:
    rowptr, col = csr()
    seed = torch.arange(10, 30)
    rows, cols, nodes, ids, per_node, per_edge = neighbor_sample(
        rowptr, col, seed, [4, 3], replace=replace, disjoint=disjoint
    )
    assert ids is not None
    tree, node = nodes.T if disjoint else (torch.zeros(len(nodes)), nodes)
    assert torch.equal(col[ids], node[cols])
    for hop, fanout in enumerate((4, 3)):
        lo, hi = sum(per_node[:hop]), sum(per_node[: hop + 1])
        for i in range(lo, hi):
            own = ids[rows == i].tolist()
            start, stop = int(rowptr[node[i]]), int(rowptr[node[i] + 1])
            assert set(own) <= set(range(start, stop))
            if replace:
                assert len(own) == (fanout if stop > start else 0)
            else:
                assert len(own) == len(set(own)) == min(fanout, stop - start)
    assert sum(per_edge) == len(ids)
    keys = list(zip(tree.tolist(), node.tolist(), strict=True))
    assert len(set(keys)) == len(keys)  # every node once, in its tree
    assert torch.equal(tree[rows], tree[cols])  # trees never share
    if disjoint:
        assert tree[:20].tolist() == list(range(20))


def test_every_edge_of_a_row_is_as_likely_as_any_other() -> None:
    rowptr, col = torch.tensor([0, 8, *[8] * 8]), torch.arange(1, 9)
    torch.manual_seed(0)
    draws = 3000
    seen = torch.zeros(8)
    for _ in range(draws):
        ids = neighbor_sample(rowptr, col, torch.tensor([0]), [3])[3]
        assert ids is not None
        seen[ids] += 1
    assert (seen / draws - 3 / 8).abs().max() < 5 * (3 / 8 * 5 / 8 / draws) ** 0.5


def test_weighted_inclusion_is_proportional_to_the_weight() -> None:
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0])
    torch.manual_seed(0)
    draws = 4000
    seen = torch.zeros(4)
    for _ in range(draws):
        rowptr = torch.tensor([0, 4, 4, 4, 4, 4])
        ids = neighbor_sample(rowptr, torch.arange(1, 5), torch.tensor([0]), [1], edge_weight=weight)[3]
        assert ids is not None
        seen[ids] += 1
    assert (seen / draws - weight / 10).abs().max() < 5 * (0.25 / draws) ** 0.5


@pytest.mark.parametrize("of_nodes", [False, True])
@pytest.mark.parametrize("strategy", ["uniform", "last"])
def test_never_from_the_future_and_last_takes_the_latest(of_nodes: bool, strategy: str) -> None:
    rng = np.random.default_rng(3)
    rowptr, col = csr()
    node_time = torch.from_numpy(rng.integers(0, 20, 60))
    edge_time = node_time[col] if of_nodes else torch.from_numpy(rng.integers(0, 20, 600))
    row = torch.repeat_interleave(torch.arange(60), rowptr.diff())
    order = torch.from_numpy(np.lexsort((edge_time, row)))
    col, edge_time = col[order], edge_time[order]
    seed, seed_time = torch.arange(30), torch.from_numpy(rng.integers(0, 20, 30))
    times: dict[str, Any] = {"node_time": node_time} if of_nodes else {"edge_time": edge_time}
    out = neighbor_sample(
        rowptr, col, seed, [3, 2], seed_time=seed_time, disjoint=True, temporal_strategy=strategy, **times
    )
    rows, _, nodes, ids, per_node, _ = out
    assert ids is not None
    limit = seed_time[nodes[:, 0]]
    assert (edge_time[ids] <= limit[rows]).all()
    for i in range(sum(per_node[:-1])):
        fanout = 3 if i < 30 else 2
        start, stop = int(rowptr[nodes[i, 1]]), int(rowptr[nodes[i, 1] + 1])
        allowed = [e for e in range(start, stop) if edge_time[e] <= limit[i]]
        own = ids[rows == i].tolist()
        assert len(own) == min(fanout, len(allowed))
        assert set(own) <= set(allowed)
        if strategy == "last":
            assert sorted(own) == allowed[len(allowed) - len(own) :]


def test_seeds_have_the_time_of_their_nodes_unless_told() -> None:
    rowptr, col = torch.tensor([0, 2, 2, 2]), torch.tensor([1, 2])
    time = torch.tensor([5, 5, 6])
    nodes = neighbor_sample(rowptr, col, torch.tensor([0]), [-1], node_time=time, disjoint=True)[2]
    assert nodes.tolist() == [[0, 0], [0, 1]]


def hetero(seed: int = 0) -> dict[str, Any]:
    ab, ba, bb = csr(40, 200, seed), csr(40, 300, seed + 1), csr(40, 250, seed + 2)
    types = [("a", "to", "b"), ("b", "to", "a"), ("b", "in", "b")]
    names = ["__".join(edge_type) for edge_type in types]
    return {
        "node_types": ["a", "b", "c"],
        "edge_types": types,
        "rowptr_dict": dict(zip(names, (ab[0], ba[0], bb[0]), strict=True)),
        "col_dict": dict(zip(names, (ab[1], ba[1], bb[1]), strict=True)),
    }


@pytest.mark.parametrize("csc", [False, True])
@pytest.mark.parametrize("disjoint", [False, True])
def test_every_edge_type_has_its_fanout(csc: bool, disjoint: bool) -> None:
    graph = hetero()
    counts = {"a__to__b": [2, 3], "b__to__a": [4, -1], "b__in__b": [0, 1]}
    seeds = {"b": torch.arange(6), "a": torch.arange(3)}
    rows, cols, nodes, ids, per_node, per_edge = hetero_neighbor_sample(
        **graph, seed_dict=seeds, num_neighbors_dict=counts, csc=csc, disjoint=disjoint
    )
    assert ids is not None
    assert per_node["c"] == [0, 0, 0]
    for edge_type, name in zip(graph["edge_types"], counts, strict=True):
        src, dst = (edge_type[2], edge_type[0]) if csc else (edge_type[0], edge_type[2])
        row, col = (cols[name], rows[name]) if csc else (rows[name], cols[name])
        of_src, of_dst = (nodes[kind][:, 1] if disjoint else nodes[kind] for kind in (src, dst))
        rowptr = graph["rowptr_dict"][name]
        assert torch.equal(graph["col_dict"][name][ids[name]], of_dst[col])
        assert len(row) == sum(per_edge[name])
        for hop in (0, 1):
            lo, hi = sum(per_node[src][:hop]), sum(per_node[src][: hop + 1])
            for i in range(lo, hi):
                degree = int(rowptr[of_src[i] + 1] - rowptr[of_src[i]])
                fanout = counts[name][hop]
                assert int((row == i).sum()) == (degree if fanout < 0 else min(fanout, degree))
        if disjoint:
            assert torch.equal(nodes[src][row, 0], nodes[dst][col, 0])
    if disjoint:  # trees are numbered over all seeds, in their order
        assert nodes["b"][:6, 0].tolist() == [0, 1, 2, 3, 4, 5]
        assert nodes["a"][:3, 0].tolist() == [6, 7, 8]


def test_not_directed_is_all_edges_between_the_nodes() -> None:
    rowptr, col = csr()
    rows, cols, nodes, ids, _, per_edge = neighbor_sample(rowptr, col, torch.tensor([3, 9]), [3, 3], directed=False)
    assert ids is not None
    place = {v: i for i, v in enumerate(nodes.tolist())}
    wanted = [
        (i, place[int(col[e])], e)
        for i, v in enumerate(nodes.tolist())
        for e in range(int(rowptr[v]), int(rowptr[v + 1]))
        if int(col[e]) in place
    ]
    assert list(zip(rows.tolist(), cols.tolist(), ids.tolist(), strict=True)) == wanted
    assert per_edge == []
    ptr, found, edge_id = subgraph(rowptr, col, nodes)
    assert edge_id is not None
    assert torch.equal(found, cols)
    assert torch.equal(edge_id, ids)
    assert torch.equal(torch.repeat_interleave(torch.arange(len(nodes)), ptr.diff()), rows)


def test_a_seed_twice_is_two_rows_and_one_number() -> None:
    rowptr, col = torch.tensor([0, 1, 2, 3]), torch.tensor([1, 2, 0])
    rows, cols, nodes, *_ = neighbor_sample(rowptr, col, torch.tensor([0, 0, 1]), [-1, -1])
    assert nodes.tolist() == [0, 0, 1, 2]
    assert rows.tolist() == [0, 1, 2, 3]
    assert cols.tolist() == [2, 2, 3, 0]


def test_torchs_seed_decides() -> None:
    rowptr, col = csr()
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(neighbor_sample(rowptr, col, torch.arange(20), [2, 2])[2].tolist())
    assert found[0] == found[1] != found[2]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"seed": torch.tensor([99])}, "node outside 0 to 59"),
    ({"seed": torch.tensor([-1])}, "node outside 0 to 59"),
    ({"seed": torch.tensor([1], dtype=torch.int32)}, "dtype of the seeds"),
    ({"seed": torch.zeros(2, 2, dtype=torch.int64)}, "vector of whole numbers"),
    ({"col": torch.full((600,), 77)}, "is node 77"),
    ({"col": torch.zeros(3, dtype=torch.int64)}, "not inside the 3 edges"),
    ({"col": torch.zeros(1200, dtype=torch.int64)[::2]}, "Non-contiguous 'col'"),
    ({"rowptr": torch.zeros(0, dtype=torch.int64)}, "'rowptr' is empty"),
    ({"node_time": torch.zeros(60, dtype=torch.int64)}, "needs to create disjoint subgraphs"),
    ({"edge_time": torch.zeros(600, dtype=torch.int64), "disjoint": True}, "Seed time needs to be specified"),
    ({"node_time": torch.zeros(60), "disjoint": True}, "int64"),
    ({"node_time": torch.zeros(5, dtype=torch.int64), "disjoint": True}, "there is a seed"),
    ({"edge_weight": torch.ones(7)}, "vector of 600"),
    ({"edge_weight": -torch.ones(600)}, "negative or infinite"),
    ({"temporal_strategy": "first"}, "No valid temporal strategy"),
    ({"directed": False, "disjoint": True}, "Disjoint subgraphs not yet supported"),
    (
        {"node_time": torch.zeros(60, dtype=torch.int64), "edge_weight": torch.ones(600), "disjoint": True},
        "Biased temporal sampling",
    ),
]


@pytest.mark.parametrize(("change", "says"), BAD, ids=[says for _, says in BAD])
def test_what_cannot_be_sampled_is_refused(change: dict[str, Any], says: str) -> None:
    rowptr, col = csr()
    given = {"rowptr": rowptr, "col": col, "seed": torch.tensor([30, 7]), "num_neighbors": [3], **change}
    with pytest.raises(OperatorError, match=says) as error:
        neighbor_sample(**given)
    assert isinstance(error.value, RuntimeError)
    assert isinstance(error.value, HandfulError)


def test_types_that_do_not_fit_are_refused() -> None:
    graph = hetero()
    counts = {"a__to__b": [2], "b__to__a": [2], "b__in__b": [2]}
    with pytest.raises(OperatorError, match="seeds of type 'z'"):
        hetero_neighbor_sample(**graph, seed_dict={"z": torch.tensor([0])}, num_neighbors_dict=counts)
    with pytest.raises(OperatorError, match="same number of hops"):
        hetero_neighbor_sample(**graph, seed_dict={}, num_neighbors_dict={**counts, "b__in__b": [2, 2]})
    with pytest.raises(OperatorError, match="has no rowptr, no col or no num_neighbors"):
        hetero_neighbor_sample(**graph, seed_dict={}, num_neighbors_dict={})


def test_walks_refuse_what_node2vec_does_not_know() -> None:
    rowptr, col = csr()
    for p, q in ((0.0, 1.0), (1.0, -1.0)):
        with pytest.raises(OperatorError, match="p and q must be positive"):
            random_walk(rowptr, col, torch.tensor([0]), 2, p, q)
    with pytest.raises(OperatorError, match="0 steps or more"):
        random_walk(rowptr, col, torch.tensor([0]), -1)


def ring(n: int) -> tuple[Tensor, Tensor]:
    left, right = (torch.arange(n) - 1) % n, (torch.arange(n) + 1) % n
    return torch.arange(0, 2 * n + 1, 2), torch.stack([left, right], 1).reshape(-1)


@pytest.mark.parametrize("recursive", [False, True])
def test_metis_cuts_a_ring_into_arcs(recursive: bool) -> None:
    part = metis(*ring(60), 3, recursive=recursive)
    assert part.bincount().tolist() == [20, 20, 20]
    assert int((part != part.roll(1)).sum()) == 3


def test_metis_minds_the_weights_of_nodes_and_edges() -> None:
    rowptr, col = ring(40)
    heavy = torch.ones(40, dtype=torch.int64)
    heavy[:10] = 7
    part = metis(rowptr, col, 2, node_weight=heavy)
    sides = torch.zeros(2, dtype=torch.int64).index_add(0, part, heavy)
    assert (sides - 50).abs().max() <= 7
    row = torch.repeat_interleave(torch.arange(40), 2)
    costly = torch.where((row // 4) == (col // 4), 1000, 1)  # cutting inside a run of four costs more
    part = metis(rowptr, col, 2, edge_weight=costly)
    assert (part[row] == part[col])[costly == 1000].all()


def test_metis_takes_any_graph_and_refuses_what_is_none() -> None:
    loops = metis(torch.tensor([0, 2, 3, 3, 4]), torch.tensor([0, 1, 1, 2]), 2)
    assert sorted(loops.bincount().tolist()) == [2, 2]
    assert metis(*ring(4), 1).tolist() == [0, 0, 0, 0]
    with pytest.raises(OperatorError, match="cannot cut 4 nodes into 9 parts"):
        metis(*ring(4), 9)
    with pytest.raises(OperatorError, match="node outside"):
        metis(torch.tensor([0, 1]), torch.tensor([4]), 1)


def test_layered_sampling_counts_and_edges() -> None:
    graph = hetero()
    node, rows, cols, ids = operators.hgt_sample(
        graph["rowptr_dict"], graph["col_dict"], {"a": torch.arange(4)}, {"a": [3, 2], "b": [5, 5]}, 2
    )
    # Hop by hop, as far as there is anyone to take: only b is near the a's at first.
    assert (len(node["a"]), len(node["b"])) == (4 + 2, 5 + 5)
    for (src, _, dst), name in zip(graph["edge_types"], graph["rowptr_dict"], strict=True):
        rowptr, row = graph["rowptr_dict"][name], graph["col_dict"][name]
        place = {v: i for i, v in enumerate(node[src].tolist())}
        wanted = [
            (place[int(row[e])], i, e)
            for i, v in enumerate(node[dst].tolist())
            for e in range(int(rowptr[v]), int(rowptr[v + 1]))
            if int(row[e]) in place
        ]
        assert list(zip(rows[name].tolist(), cols[name].tolist(), ids[name].tolist(), strict=True)) == wanted
    with pytest.raises(OperatorError, match="fewer than 2 entries for the node type 'b'"):
        operators.hgt_sample(graph["rowptr_dict"], graph["col_dict"], {}, {"a": [1, 1], "b": [1]}, 2)


def test_partition_is_metis() -> None:
    assert torch.equal(operators.partition(*ring(8), None, 2, True), metis(*ring(8), 2, recursive=True))
