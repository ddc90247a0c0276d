from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful import Batch, Experiment, Graph, SamplerError, Settings
from handful.kernels import layerwise
from handful.kernels.hashing import uniform
from handful.kernels.layerwise import Layer, transition_rows
from handful.kernels.threads import get_threads, set_threads
from handful.nn import make_model
from handful.samplers.induced import weighted_csr
from handful.samplers.ladies import Ladies
from handful.training.fit import begin
from handful.training.inference import infer
from handful.training.loop import evaluate
from rounding import UNIT, assert_within, size


@pytest.fixture
def threads() -> Iterator[None]:
    before = get_threads()
    yield
    set_threads(before)


def transition(graph: Graph) -> np.ndarray:
    """P = row-normalised A + I, dense."""
    sources, targets = graph.edge_index.numpy()
    a = np.eye(graph.num_nodes)
    np.add.at(a, (targets, sources), 1.0 if graph.edge_weight is None else graph.edge_weight.numpy())
    return a / a.sum(1, keepdims=True)


def dense(drawn: Layer) -> np.ndarray:
    out = np.zeros((len(drawn.indptr) - 1, len(drawn.nodes)))
    row = np.repeat(np.arange(len(out)), np.diff(drawn.indptr))
    np.add.at(out, (row, drawn.indices.numpy()), drawn.weight.numpy())
    return out


@settings(max_examples=100)
@given(data=st.data(), budget=st.integers(1, 14), key=st.integers(0, 2**62))
def test_a_layer_is_what_the_definition_says(
    graphs: st.SearchStrategy[Graph], data: st.DataObject, budget: int, key: int
) -> None:
    graph = data.draw(graphs)
    previous = graph.train_nodes.flip(0)
    batch = data.draw(st.integers(1, len(previous)))
    u = transition(graph)[previous.numpy()]
    p = (u**2).sum(0)
    p /= p.sum()

    found = transition_rows(*weighted_csr(graph), previous.numpy())[3]
    assert np.allclose(found / found.sum(), p, rtol=0, atol=4 * graph.num_edges * UNIT[torch.float64])

    drawn = layerwise.layer(weighted_csr(graph), previous.numpy(), batch, budget, key)
    nodes = drawn.nodes.numpy()
    assert nodes[:batch].tolist() == previous[:batch].tolist()
    assert nodes[batch:].tolist() == sorted(set(nodes[batch:]) - set(previous[:batch].tolist()))
    assert (p[nodes] > 0).all()
    # Every node arrives after an exponential time with rate p, and the first ones are drawn.
    arrivals = {v: -np.log1p(-uniform(key, v)) / p[v] for v in np.flatnonzero(p).tolist()}
    first = sorted(arrivals, key=arrivals.__getitem__)[:budget]
    assert set(nodes[batch:]) == set(first) - set(previous[:batch].tolist())
    assert drawn.own.tolist() == [nodes.tolist().index(v) if v in nodes else -1 for v in previous.tolist()]
    expected = u[:, nodes] / p[nodes]
    total = expected.sum(1, keepdims=True)
    shares = np.divide(expected, total, where=total > 0, out=expected * 0)
    # A row of float32: each of its terms, their sum, and the quotient are rounded.
    assert np.allclose(dense(drawn), shares, rtol=0, atol=2 * (len(nodes) + 4) * UNIT[torch.float32])


@settings(max_examples=40)
@given(data=st.data(), budget=st.lists(st.integers(1, 6), min_size=1, max_size=3), batch_size=st.integers(1, 5))
def test_an_epoch_visits_every_training_node_once(
    graphs: st.SearchStrategy[Graph], data: st.DataObject, budget: list[int], batch_size: int
) -> None:
    graph = data.draw(graphs)
    seen = []
    for batch in Ladies(tuple(budget), batch_size).epoch(graph, 4, 1):
        assert len(batch.layers) == len(budget)
        assert batch.layers[0].num_sources == batch.num_nodes
        for below, above in zip(batch.layers, batch.layers[1:], strict=False):
            assert below.num_targets == above.num_sources
        assert all(layer.normalized for layer in batch.layers)
        assert batch.layers[-1].num_targets == len(batch.targets) <= batch_size
        assert torch.equal(batch.y, graph.y[batch.nodes[batch.targets]])
        seen += batch.nodes[batch.targets].tolist()
    assert sorted(seen) == graph.train_nodes.tolist()


def flat(batch: Batch) -> list[float]:
    return [*batch.nodes.tolist(), *(w for layer in batch.layers for w in layer.weight.tolist())]


def test_batches_depend_on_seed_and_epoch_and_not_on_threads(medium: Graph, threads: None) -> None:
    sampler = Ladies((30, 20), 16)
    batches = [flat(b) for b in sampler.epoch(medium, 5, 1)]
    for count in (1, 3):
        set_threads(count)
        assert [flat(b) for b in sampler.epoch(medium, 5, 1)] == batches
    assert [flat(b) for b in sampler.epoch(medium, 5, 2)] != batches
    assert [flat(b) for b in sampler.epoch(medium, 6, 1)] != batches


def test_layers_draw_their_own_nodes_and_keep_the_batch_alone(medium: Graph) -> None:
    """The original's union: a layer's sources are its budget and the batch, however many layers are above."""
    sampler = Ladies((20, 20, 20), 16)
    chosen = medium.train_nodes[:16]
    drawn = sampler.draw(weighted_csr(medium), 1, 2, 3, chosen.numpy())
    for layer in drawn:
        assert torch.equal(layer.nodes[:16], chosen)
        assert len(layer.nodes) <= 20 + 16
    assert not set(drawn[0].nodes.tolist()) <= set(drawn[2].nodes.tolist())
    assert bool((drawn[2].own < 0).any())


@pytest.mark.parametrize("name", ["gcn", "sage"])
@pytest.mark.parametrize("residual", [True, False])
def test_models_run_on_layers_as_a_dense_reference_does(medium: Graph, name: str, residual: bool) -> None:
    torch.manual_seed(0)
    model = make_model(name, medium.num_features, 5, hidden=8, layers=3, dropout=0.0, norm="none", residual=residual)
    sampler = Ladies((40, 30, 20), 16)
    batch = next(sampler.epoch(medium, 1, 0))
    # In float64, in which the rounding of a few hundred terms is far below the tolerance of assert_close, 1e-7.
    model, batch = model.double(), replace(batch, x=batch.x.double())
    h = batch.x
    for i, layer in enumerate(batch.layers):
        a = torch.zeros(layer.num_targets, layer.num_sources, dtype=torch.float64)
        a.index_put_((layer.edge_index[1], layer.edge_index[0]), layer.weight.double(), accumulate=True)
        own = torch.zeros_like(a)
        places = torch.arange(layer.num_targets) if layer.own_rows is None else layer.own_rows
        own[places >= 0, places[places >= 0]] = 1.0
        conv = model.convs[i]
        if name == "gcn":
            out = a @ h @ conv.linear.weight.T + conv.linear.bias
        else:
            out = conv.neighbor(a @ h) + own @ h @ conv.own.weight.T
        if residual:
            out = out + model.skips[i](own @ h)
        h = out if i == 2 else out.relu()
    ours = model(batch)
    torch.testing.assert_close(ours, h)
    for a, b in zip(*(torch.autograd.grad(z.square().sum(), model.parameters()) for z in (ours, h)), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", ["gcn", "sage"])
def test_evaluation_is_by_the_operator_of_training(medium: Graph, name: str) -> None:
    model = make_model(name, medium.num_features, 5, hidden=8, layers=2, norm="none", residual=False).eval().double()
    p = torch.from_numpy(transition(medium))
    h = medium.x.double()
    magnitude = h.abs()
    for i, conv in enumerate(model.convs):
        if name == "gcn":
            out = p @ h @ conv.linear.weight.T + conv.linear.bias
            magnitude = p @ magnitude @ conv.linear.weight.abs().T + conv.linear.bias.abs()
        else:
            out = conv.neighbor(p @ h) + conv.own(h)
            reached = p @ magnitude @ conv.neighbor.weight.abs().T + conv.neighbor.bias.abs()
            magnitude = reached + magnitude @ conv.own.weight.abs().T
        h = out if i else out.relu()
    # The network is in float64. The rows of P and the outputs are stored in float32, once in each of the two layers.
    bound = 2 * 4 * UNIT[torch.float32] * magnitude.detach()
    for chunk in (64, 10_000):
        assert_within(infer(model, medium, chunk, sampler=Ladies((5, 5))), h, bound)
    assert size(infer(model, medium) - h) > 1e3 * size(bound)
    judged = medium.replace(val_mask=~medium.train_mask, test_mask=torch.zeros(300, dtype=torch.bool))
    loop = begin(model, judged, Ladies((5, 5)), Settings())
    expected = float((h.argmax(1) == medium.y)[~medium.train_mask].double().mean())
    assert evaluate(loop)[0] == pytest.approx(expected)


def test_a_model_of_another_depth_is_refused_when_it_is_made(medium: Graph) -> None:
    for budget, layers in (((30, 20), 3), ((30, 20), 1)):
        with pytest.raises(SamplerError, match=f"draws 2 layers .budget., and the model has {layers}"):
            Experiment("debian", sampler=Ladies(budget), layers=layers)
        model = make_model("gcn", medium.num_features, 5, layers=layers)
        with pytest.raises(SamplerError, match=f"draws 2 layers .budget., and the model has {layers}"):
            begin(model, medium, Ladies(budget), Settings())


@pytest.mark.parametrize("name", ["sgformer", "gat"])
def test_models_that_cannot_run_on_its_layers_are_refused_when_made(name: str) -> None:
    with pytest.raises(SamplerError, match=f"LADIES cannot train {name}"):
        Experiment("debian", model=name, sampler=Ladies())


@pytest.mark.parametrize("wrong", [{"budget": ()}, {"budget": (0,)}, {"budget": "five"}, {"batch_size": 0}])
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SamplerError, match=next(iter(wrong))):
        Ladies(**wrong)  # type: ignore[arg-type]
