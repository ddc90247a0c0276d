"""Link prediction: the split by brute force, a step against a dense computation, runs, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch_geometric.nn import GraphSAGE

import handful as hf
from graphs import make_graph
from handful.training.fit import begin
from handful.training.links import LinkGraph, Links
from small import BreakOff, timeless

OPTIONS: dict[str, Any] = {"hidden": 16, "layers": 2}


def edges_of(graph: hf.Graph) -> set[tuple[int, int]]:
    return set(map(tuple, graph.edge_index.T.tolist()))


def small_links(**fields: Any) -> Links:
    return hf.split_links(make_graph(120), **fields)


def run_links(links: Links, sampler: hf.Sampler | None = None, **how: Any) -> Any:
    return hf.fit("sage", links, sampler or hf.RandomNodes(2), **{"options": OPTIONS, "epochs": 4, "lr": 0.01, **how})


# -- the split --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares", [(0.05, 0.1), (0.0, 0.3), (0.4, 0.5)])
def test_held_out_edges_leave_in_both_directions_and_negatives_are_no_edges(shares: tuple[float, float]) -> None:
    graph = make_graph(60, weighted=True)
    graph = graph.replace(edge_attr=graph.edge_index.sort(0).values.T.float())
    links = hf.split_links(graph, *shares)
    full, left = edges_of(graph), edges_of(links.graph)
    assert links.graph.undirected
    pairs = [tuple(pair) for pair in links.pairs.T.tolist()]
    positives, negatives = ({p for p, y in zip(pairs, links.y.tolist(), strict=True) if y == label} for label in (1, 0))
    assert len(positives) == len(negatives) == len(pairs) // 2
    assert left == full - positives - {(v, u) for u, v in positives}
    assert positives <= full
    assert all(0 <= u < v < 60 for u, v in positives | negatives)
    assert negatives.isdisjoint(full)
    between = sum(u < v for u, v in full)
    for label in (0, 1):
        here = links.y == label
        sizes = int((links.val & here).sum()), int((~links.val & here).sum())
        assert sizes == tuple(int(share * between) for share in shares)
    want = dict(zip(map(tuple, graph.edge_index.T.tolist()), graph.edge_weight.tolist(), strict=True))
    assert links.graph.edge_weight is not None
    assert links.graph.edge_weight.tolist() == [want[tuple(edge)] for edge in links.graph.edge_index.T.tolist()]
    assert torch.equal(links.graph.edge_attr, links.graph.edge_index.sort(0).values.T.float())


def test_loops_stay_and_copies_of_an_edge_leave_together() -> None:
    ends = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4], [0, 1, 1, 0, 0, 2, 1, 3, 2, 4, 3]])
    graph = hf.Graph.from_edge_index(ends, x=torch.eye(6))
    assert graph.undirected
    for seed in range(20):
        links = hf.split_links(graph, 0.25, 0.25, seed)
        left, out = links.graph.edge_index.T.tolist(), links.pairs[:, links.y == 1].T.tolist()
        assert [0, 0] in left
        assert len(out) == 2
        assert left == [pair for pair in graph.edge_index.T.tolist() if sorted(pair) not in out]


def test_every_pair_without_an_edge_is_drawn_alike() -> None:
    """A ring of six has nine other pairs. Of 900 draws of one, 100 fall on each; 60 is four standard deviations off."""
    ends = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    ring = hf.Graph.from_edge_index(torch.cat([ends, ends.flip(0)], 1), x=torch.eye(6))
    counts: dict[tuple[int, int], int] = {}
    for seed in range(900):
        links = hf.split_links(ring, 0.0, 0.17, seed)
        u, v = links.pairs[:, 1].tolist()
        counts[u, v] = counts.get((u, v), 0) + 1
    others = {(u, v) for v in range(6) for u in range(v)} - edges_of(ring)
    assert counts.keys() == others
    assert 60 < min(counts.values()) <= max(counts.values()) < 140


def test_the_split_belongs_to_its_seed() -> None:
    one, again, other = (small_links(seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.pairs, again.pairs)
    assert torch.equal(one.graph.indices, again.graph.indices)
    assert not torch.equal(one.pairs, other.pairs)


def complete(n: int) -> hf.Graph:
    return hf.Graph.from_edge_index((1 - torch.eye(n)).nonzero().T, x=torch.eye(n))


@pytest.mark.parametrize(
    ("graph", "shares"),
    [
        (make_graph(40, undirected=False), (0.1, 0.1)),
        (hf.Graph.from_edge_index([[0, 1], [1, 0]]), (0.1, 0.1)),
        ("debian", (0.1, 0.1)),
        (complete(12), (0.1, 0.1)),
        (hf.Graph.from_edge_index([[0, 1], [1, 0]], x=torch.eye(9)), (0.1, 0.1)),
        (make_graph(40), (0.5, 0.5)),
        (make_graph(40), (0.0, 0.0)),
        (make_graph(40), (-0.1, 0.1)),
        (make_graph(40), (float("nan"), 0.1)),
        (make_graph(40), ("half", 0.1)),
        (make_graph(40), (1e-6, 0.1)),
    ],
)
def test_graphs_and_shares_that_cannot_be_split_are_refused(graph: Any, shares: Any) -> None:
    with pytest.raises(hf.HandfulError) as error:
        hf.split_links(graph, *shares)
    assert "\n" not in str(error.value)


# -- a step -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"first_hop": "exact"}, {"mean_field": 1.0}], ids=str)
def test_pairs_of_a_batch_are_the_edges_of_its_part_and_pairs_without_one(how: dict[str, Any]) -> None:
    links = small_links()
    graph = LinkGraph.of(links)
    loop = begin(hf.SAGE(8, 5, **OPTIONS), graph, hf.RandomNodes(3), hf.Settings(**how))
    edges, samples = edges_of(links.graph), list(loop.sampler.sample(graph, loop.seed, 0))
    for batch, sample in zip(loop.execution.batches(loop), samples, strict=True):
        assert batch is not None
        pairs = batch.nodes[batch.targets].view(2, -1).T.tolist()
        part = set(sample.nodes.tolist())
        wanted = sorted([u, v] for u, v in edges if u < v and {u, v} <= part)
        assert sorted(pair for pair, y in zip(pairs, batch.y.tolist(), strict=True) if y) == wanted
        others = [tuple(pair) for pair, y in zip(pairs, batch.y.tolist(), strict=True) if not y]
        assert 0 < len(others) <= len(wanted)
        assert all(u < v and {u, v} <= part and (u, v) not in edges for u, v in others)


def test_loss_and_gradients_are_those_of_a_dense_computation() -> None:
    links = small_links()
    graph = LinkGraph.of(links)
    loop = begin(hf.SAGE(8, 5, layers=1, hidden=5, norm="none", dropout=0.0), graph, hf.FullGraph(), hf.Settings())
    (batch,) = loop.execution.batches(loop)
    assert batch is not None
    loop.loss_on(loop.model, batch).backward()
    ours = [p.grad.clone() for p in loop.model.parameters()]
    loop.model.zero_grad()
    outputs = loop.model(batch)  # checked against dense layers by tests/nn
    u, v = batch.targets.view(2, -1)
    scores = torch.stack([outputs[a] @ outputs[b] for a, b in zip(u, v, strict=True)])
    dense = torch.where(batch.y == 1, F.softplus(-scores), F.softplus(scores)).mean()
    torch.testing.assert_close(loop.loss_on(loop.model, batch), dense)
    dense.backward()
    for mine, p in zip(ours, loop.model.parameters(), strict=True):
        torch.testing.assert_close(mine, p.grad, rtol=1e-4, atol=1e-6)


# -- runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"first_hop": "exact", "mean_field": 1.0}], ids=str)
def test_a_run_scores_held_out_edges_above_other_pairs(how: dict[str, Any]) -> None:
    links = hf.split_links(hf.load("synthetic?nodes=600&degree=12&features=16&classes=4").to_undirected())
    options = {"hidden": 32, "layers": 2}
    run = hf.fit("gcn", links, hf.RandomNodes(parts=2), options=options, epochs=15, lr=0.01, **how)
    assert (run.metric, run.threshold) == ("roc_auc", None)
    assert run.test > 0.6
    outputs = hf.infer(run.model, links.graph)
    u, v = links.pairs[:, ~links.val]
    score, y = (outputs[u] * outputs[v]).sum(1), links.y[~links.val]
    above = (score[y == 1][:, None] > score[y == 0]).double() + (score[y == 1][:, None] == score[y == 0]).double() / 2
    assert run.test == pytest.approx(float(above.mean()), abs=1e-3)


def test_modules_other_metrics_and_losses_of_the_user_train_too() -> None:
    links, seen = small_links(), []

    def loss(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        seen.append((scores.shape, y.shape))
        return F.softplus((1 - 2 * y) * scores.squeeze(1))

    torch.manual_seed(0)
    run = hf.fit(GraphSAGE(8, 16, 2), links, hf.FullGraph(), epochs=2, metric="average_precision", loss=loss)
    assert run.metric == "average_precision"
    assert all(scores == (*y, 1) for scores, y in seen)
    assert seen


def test_a_resumed_run_ends_like_one_that_was_not_broken_off(tmp_path: Path) -> None:
    links = small_links()
    whole = run_links(links, checkpoint_seconds=0)
    with pytest.raises(KeyboardInterrupt):
        run_links(links, out=tmp_path, callbacks=[BreakOff(2)], checkpoint_seconds=0)
    again = run_links(links, out=tmp_path, resume=True, checkpoint_seconds=0)
    assert timeless(again.history) == timeless(whole.history)
    with pytest.raises(hf.RunError, match="links"):
        run_links(small_links(seed=7)._replace(graph=links.graph), out=tmp_path, resume=True, checkpoint_seconds=0)
    opened = hf.open_run(tmp_path)
    assert opened.result.test == whole.test
    assert torch.equal(hf.infer(opened.model, links.graph), hf.infer(whole.model, links.graph))
    with pytest.raises(hf.RunError, match="predicts links"):
        opened.predict(links.graph)
    assert "link-prediction" in (tmp_path / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "how",
    [
        {"sampler": hf.Neighbors()},
        {"sampler": hf.RandomWalks(roots=20, normalize=True)},
        {"sampler": hf.RandomNodes(2, stratify=True)},
        {"memory": "8GiB"},
        {"evaluation": "sampled"},
        {"class_weight": "balanced"},
        {"threshold": "f1"},
        {"task": "regression"},
        {"positive": "0"},
        {"metric": "mae"},
    ],
    ids=str,
)
def test_what_links_cannot_use_is_refused_in_one_line(how: dict[str, Any]) -> None:
    with pytest.raises(hf.HandfulError) as error:
        run_links(small_links(), **how)
    assert "\n" not in str(error.value)
