from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful import Batch, Graph, SamplerError
from handful.kernels.layerwise import Layer, importance, layer_numba, layer_torch
from handful.kernels.threads import get_threads, set_threads
from handful.samplers.ladies import Ladies


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


@settings(max_examples=100, deadline=None)
@given(data=st.data(), budget=st.integers(1, 14), key=st.integers(0, 2**62))
def test_a_layer_is_what_the_definition_says(
    graphs: st.SearchStrategy[Graph], data: st.DataObject, budget: int, key: int
) -> None:
    graph = data.draw(graphs)
    previous = graph.train_nodes.flip(0)
    targets = len(previous)
    u = transition(graph)[previous.numpy()]
    p = (u**2).sum(0)
    p /= p.sum()

    weight = np.empty(0, np.float32) if graph.edge_weight is None else graph.edge_weight.numpy()
    found = importance(*graph.topology, weight, previous.numpy())
    assert np.allclose(found / found.sum(), p, atol=1e-9)

    arguments = graph.indptr, graph.indices, graph.edge_weight, previous, budget, key
    drawn, again = layer_numba(*arguments), layer_torch(*arguments)
    assert torch.equal(drawn.nodes, again.nodes)
    assert torch.equal(drawn.indptr, again.indptr)
    assert np.allclose(dense(drawn), dense(again), atol=1e-6)

    nodes = drawn.nodes.numpy()
    assert nodes[:targets].tolist() == previous.tolist()
    assert nodes[targets:].tolist() == sorted(set(nodes[targets:]) - set(previous.tolist()))
    assert (p[nodes] > 0).all()
    take = min(budget, int((p > 0).sum()))
    assert take - targets <= len(nodes) - targets <= take
    expected = u[:, nodes] / p[nodes]
    assert np.allclose(dense(drawn), expected / expected.sum(1, keepdims=True), atol=1e-5)


@settings(max_examples=40, deadline=None)
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


def test_a_model_may_be_shallower_and_not_deeper(medium: Graph) -> None:
    batch = next(Ladies((30, 20), 16).epoch(medium, 0, 0))
    assert batch.stack(1) == batch.layers[1:]
    with pytest.raises(SamplerError, match="draws 2 layers and the model has 3"):
        batch.stack(3)


@pytest.mark.parametrize("wrong", [{"budget": ()}, {"budget": (0,)}, {"budget": "5"}, {"batch_size": 0}])
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SamplerError, match=next(iter(wrong))):
        Ladies(**wrong)  # type: ignore[arg-type]
