"""The first hop known beforehand: the same result on the whole graph, in every execution, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import handful as hf
from graphs import make_graph
from handful.batch import batch_checksum
from handful.errors import HandfulError
from handful.nn import Network
from handful.training import first_hop
from handful.training.execution import WithinBudget, trimmer
from handful.training.first_hop import Aggregates, know, mass_of, refusal, structure
from handful.training.fit import begin
from handful.training.inference import infer, outputs_of

EXACT = hf.Settings(first_hop="exact", mean_field=1.0)


@pytest.mark.parametrize("name", ["sage", "gcn"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("undirected", [False, True])
def test_on_the_whole_graph_it_changes_nothing(name: str, weighted: bool, undirected: bool) -> None:
    graph = make_graph(150, weighted=weighted, undirected=undirected)
    losses = []
    for how in ({}, {"first_hop": "exact"}, {"first_hop": "exact", "mean_field": 1.0}, {"mean_field": 1.0}):
        options = {"hidden": 8, "layers": 3, "norm": "ln"}
        run = hf.fit(name, graph, hf.RandomNodes(1), options=options, epochs=3, optimizer="sgd", lr=0.1, **how)
        losses.append([line["loss"] for line in run.history])
    for other in losses[1:]:
        assert other == pytest.approx(losses[0], rel=1e-5)


@pytest.mark.parametrize("hop", ["mean", "mean_with_loops", "gcn"])
def test_aggregates_are_products_with_the_dense_matrix(hop: Any) -> None:
    graph = make_graph(80, 3, weighted=True, undirected=False)
    found = outputs_of(Aggregates(8, 2, hop), graph)
    assert graph.x is not None
    weights = torch.zeros(80, 80)
    weights.index_put_((graph.edge_index[1], graph.edge_index[0]), graph.edge_weight, accumulate=True)
    if hop != "mean":
        weights += torch.diag((weights.diagonal() == 0).float())
    mass = weights.sum(1)
    torch.testing.assert_close(mass_of(graph, hop), mass)
    left = mass.clamp_min(1e-30).rsqrt() if hop == "gcn" else torch.where(mass > 0, 1 / mass, 0.0)
    dense = left[:, None] * weights * (left if hop == "gcn" else 1.0)
    torch.testing.assert_close(found, torch.cat([graph.x, dense @ graph.x, dense @ dense @ graph.x], 1))


@pytest.mark.parametrize("norm", ["bn", "ln"])
def test_evaluation_is_that_of_the_plain_model(norm: str) -> None:
    graph = make_graph(150)
    model = hf.SAGE(8, 4, hidden=8, layers=3, norm=norm)
    wide = know(graph, model, EXACT).graph
    torch.testing.assert_close(infer(model, wide, chunk=40), infer(model, graph))


@pytest.mark.parametrize("norm", ["bn", "ln"])
def test_batches_within_a_budget_are_those_in_memory(tmp_path: Path, norm: str) -> None:
    graph = hf.load(hf.save(make_graph(600, 4), tmp_path / "saved"))
    made = []
    for memory in (None, "64GiB"):
        torch.manual_seed(0)
        model = hf.SAGE(8, 4, hidden=8, layers=3, norm=norm)
        loop = begin(model, graph, hf.RandomNodes(5), EXACT, memory=memory)
        model.train()
        assert isinstance(loop.execution, WithinBudget) == (memory is not None)
        made.append([batch for batch in loop.execution.batches(loop) if batch is not None])
    for ours, theirs in zip(*made, strict=True):
        # The same bytes but for the features, whose sums are taken in another order.
        torch.testing.assert_close(ours.x, theirs.x)
        assert batch_checksum(replace(ours, x=theirs.x)) == batch_checksum(theirs)


def test_what_a_step_takes_counts_the_stand_ins(tmp_path: Path) -> None:
    graph = hf.load(hf.save(make_graph(2000, 4), tmp_path / "saved"))
    costs = []
    for mean_field in (0.0, 1.0):
        model = hf.SAGE(8, 4, hidden=32, layers=3, norm="ln")
        how = hf.Settings(first_hop="exact", mean_field=mean_field)
        loop = begin(model, graph, hf.RandomNodes(4), how, memory="64GiB")
        model.train()
        assert isinstance(loop.execution, WithinBudget)
        assert all(batch is not None for batch in loop.execution.batches(loop))
        assert loop.execution.cost is not None
        sample = trimmer(model, True, loop.execution.known)(next(hf.RandomNodes(4).sample(graph, 0, 0)))
        costs.append(loop.execution.cost(structure(sample, loop.execution.known)))
    assert costs[1] > 1.2 * costs[0]


def test_within_a_budget_aggregates_are_kept_beside_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = hf.load(hf.save(make_graph(300), tmp_path / "saved"))
    model = hf.SAGE(8, 4, hidden=8, layers=2)
    first = know(graph, model, EXACT, memory="64GiB").graph
    assert [*(tmp_path / "saved" / "hops").glob("*/pass-*.bin")]
    monkeypatch.setattr(Aggregates, "layer", lambda *_: pytest.fail("made again"))
    again = know(hf.load(tmp_path / "saved"), model, EXACT, memory="64GiB").graph
    assert torch.equal(first.x, again.x)
    other = graph.replace(x=graph.x + 1)
    assert other.folder is None


def test_float16_features_stay_float16() -> None:
    graph = make_graph(100)
    half = graph.replace(x=graph.x.half())
    wide = know(half, hf.SAGE(8, 4, hidden=8, layers=2), EXACT).graph
    assert wide.x.dtype == torch.float16
    huge = graph.replace(x=torch.full((100, 8), 6e4, dtype=torch.float16))
    with pytest.raises(HandfulError, match="overflow"):
        know(huge, hf.GCN(8, 4, hidden=8, layers=2), EXACT)


REFUSED = [
    (hf.GAT(8, 4, hidden=8), hf.RandomNodes(2), 0.0),
    (hf.SGFormer(8, 4, hidden=8), hf.RandomNodes(2), 0.0),
    (hf.SAGE(8, 4, hidden=8, input_projection=True), hf.RandomNodes(2), 0.0),
    (hf.SAGE(8, 4, hidden=8, input_dropout=0.1), hf.RandomNodes(2), 0.0),
    (hf.SAGE(8, 4, hidden=8, layers=2), hf.Ladies(budget=(8, 8)), 0.0),
    (hf.SAGE(8, 4, hidden=8), hf.Neighbors(), 1.0),
    (hf.SAGE(8, 4, hidden=8), hf.RandomWalks(roots=9, normalize=True), 1.0),
    (torch.nn.Linear(8, 4), hf.RandomNodes(2), 0.0),
]


@pytest.mark.parametrize(("model", "sampler", "mean_field"), REFUSED)
def test_what_cannot_be_known_is_refused_and_auto_leaves_it(
    model: torch.nn.Module, sampler: Any, mean_field: float, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = make_graph(60)
    hop = model.hop if isinstance(model, Network) else None
    why = refusal(hop, type(model).__name__, sampler, mean_field)
    assert why is not None
    resolve = first_hop.resolve_first_hop
    with pytest.raises(HandfulError) as error:
        resolve(model, graph, sampler, hf.Settings(first_hop="exact", mean_field=mean_field))
    assert why in str(error.value)
    if mean_field:
        with pytest.raises(HandfulError) as error:
            resolve(model, graph, sampler, hf.Settings(mean_field=mean_field))
        assert why in str(error.value)
    assert not resolve(model, graph, sampler, hf.Settings(first_hop="auto", mean_field=mean_field))
    assert why in capsys.readouterr().err


def test_auto_is_sampled_beside_mean_field_neighbours_and_exact_without() -> None:
    graph, model = make_graph(60), hf.SAGE(8, 4, hidden=8, layers=2)
    assert know(graph, model, hf.Settings(first_hop="auto")).exact
    assert not know(graph, model, hf.Settings(first_hop="auto", mean_field=1.0)).exact
    assert know(graph, model, hf.Settings(first_hop="exact", mean_field=1.0)).exact


def test_auto_says_no_where_the_aggregates_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, model = make_graph(60), hf.SAGE(8, 4, hidden=8)
    auto = hf.Settings(first_hop="auto")
    assert first_hop.resolve_first_hop(model, graph, hf.RandomNodes(2), auto)
    monkeypatch.setattr(first_hop, "free_memory", lambda: 1000)
    assert not first_hop.resolve_first_hop(model, graph, hf.RandomNodes(2), auto)
    assert capsys.readouterr().err
