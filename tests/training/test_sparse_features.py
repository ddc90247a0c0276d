"""Sparse features: every model, sampler and execution gives what it gives with the same features as a dense table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import handful as hf
from graphs import make_graph
from handful.kernels.sparse import bytes_of, dense, is_sparse
from handful.nn import backbone, make_model
from handful.storage import with_dense_features
from handful.training.first_hop import aggregate_bytes, know
from handful.training.inference import embed, infer
from small import full_batch

MODELS: dict[str, dict[str, Any]] = {
    "sage": {},
    "sage with loops": {"self_loops": True, "residual": True},
    "sage projected": {"input_projection": True},
    "gcn": {"residual": True},
    "gat": {"heads": 2, "residual": True},
    "graphland-sage": {},
    "sgformer": {},
}
WAYS = {
    "parts": (hf.RandomNodes(3), {}),
    "trimmed parts": (hf.RandomNodes(3), {"trim": True, "norm": "ln"}),
    "labels": (hf.RandomNodes(3), {"label_features": "yes"}),
    "neighbours": (hf.Neighbors([3, 2]), {}),
    "layers": (hf.Ladies(40), {}),
    "exact": (hf.RandomNodes(3), {"first_hop": "exact"}),
    "mean field": (hf.RandomNodes(3), {"first_hop": "exact", "mean_field": 2.0}),
    "mean field only": (hf.RandomNodes(3), {"mean_field": 1.0, "trim": True}),
}


def pair(*, features: int = 30, share: float = 0.1, **how: Any) -> tuple[hf.Graph, hf.Graph]:
    """A graph with many zeros among its features; the features are dense, and sparse."""
    graph = make_graph(150, features=features, **how)
    assert graph.x is not None
    kept = torch.rand(graph.x.shape, generator=torch.Generator().manual_seed(1)) < share
    x = torch.where(kept, graph.x, 0.0)
    return graph.replace(x=x), graph.replace(x=x.to_sparse_csr())


def model_of(name: str, graph: hf.Graph, **options: Any) -> Any:
    torch.manual_seed(0)
    own = {"hidden": 8, "layers": 2, **MODELS[name], **options}
    return make_model(name.split()[0], graph.num_features, graph.num_outputs, **own)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("undirected", [False, True])
def test_outputs_and_gradients(name: str, undirected: bool) -> None:
    outputs = []
    for graph in pair(weighted=True, undirected=undirected):
        model = model_of(name, graph).train()
        out = model(full_batch(graph))
        gradients = torch.autograd.grad(out.square().sum(), [*model.parameters()], allow_unused=True)
        outputs.append(
            [out, *(g for g in gradients if g is not None), infer(model, graph, 40), embed(model, graph, 40)]
        )
    largest = max(
        float(values.abs().max()) for values in outputs[0]
    )  # gradients that are 0 have the rounding of others
    for ours, theirs in zip(outputs[1], outputs[0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6 * largest)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["sage", "gcn"])
def test_a_training_is_that_on_dense_features(name: str, way: str) -> None:
    sampler, how = WAYS[way]
    options = {"hidden": 8, "layers": 2, "norm": how.get("norm", "bn")}
    more = {key: value for key, value in how.items() if key != "norm"}
    runs = [
        hf.fit(name, graph, sampler, options=options, epochs=3, optimizer="sgd", lr=0.1, **more)
        for graph in pair(weighted=True, undirected=False)
    ]
    losses = [[line["loss"] for line in run.history] for run in runs]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    torch.testing.assert_close(runs[1].model.state_dict(), runs[0].model.state_dict(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("memory", [None, "1GiB"])
@pytest.mark.parametrize("how", [{}, {"first_hop": "exact"}])
def test_a_memory_budget_changes_nothing(memory: str | None, how: dict[str, Any], tmp_path: Path) -> None:
    first, second = pair()
    losses = []
    for graph, within in ((first, None), (hf.open_graph(hf.save(second, tmp_path / "g")), memory)):
        options = {"hidden": 8, "layers": 2, "norm": "ln"}
        run = hf.fit("sage", graph, hf.RandomNodes(3), options=options, epochs=2, lr=0.01, memory=within, **how)
        losses.append([line["loss"] for line in run.history])
        losses.append(infer(run.model, graph, 40, memory=within).flatten().tolist())
    assert losses[2] == pytest.approx(losses[0], rel=1e-4)
    assert losses[3] == pytest.approx(losses[1], rel=1e-3, abs=1e-4)


def test_aggregates_stay_sparse_and_their_size_is_known_before() -> None:
    full, graph = pair(features=600, share=0.01)
    model = model_of("sage", graph)
    for mean_field, hops in ((0.0, 1), (1.0, 2)):
        settings = hf.Settings(first_hop="exact", mean_field=mean_field)
        made, wanted = know(graph, model, settings), know(full, model, settings)
        assert is_sparse(made.graph.x)
        assert graph.x is not None
        torch.testing.assert_close(dense(made.graph.x), wanted.graph.x)
        assert bytes_of(made.graph.x) <= bytes_of(graph.x) + aggregate_bytes(graph, hops)
        assert bytes_of(made.graph.x) < wanted.graph.x.nbytes / 2


def test_dropped_features_are_a_share_of_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = pair(features=200)[1]
    model = hf.SAGE(200, 3, hidden=8, layers=2, dropout=0.0, input_dropout=0.25, input_projection=True).train()
    model.step_seed = 7
    seen: list[Tensor] = []
    apply = backbone.apply
    monkeypatch.setattr(backbone, "apply", lambda layer, x: (seen.append(x), apply(layer, x))[1])
    model.embed(graph.x)
    before, after = dense(graph.x), dense(seen[0])
    kept = after != 0
    assert torch.equal(kept & (before == 0), torch.zeros_like(kept))
    torch.testing.assert_close(after[kept], before[kept] / 0.75)
    count = int((before != 0).sum())
    assert abs(int(kept.sum()) - 0.75 * count) < 4 * (count * 0.75 * 0.25) ** 0.5


def test_a_dense_copy_is_made_once_and_only_of_sparse_features() -> None:
    full, graph = pair()
    assert with_dense_features(full) is full
    made = with_dense_features(graph)
    assert made is with_dense_features(graph)
    assert torch.equal(made.x, full.x)
    assert with_dense_features(replace(graph, x=None)).x is None
