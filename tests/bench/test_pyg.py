"""PyG's side of the benchmarks is the same model as ours, as a PyG user writes it."""

from __future__ import annotations

import sys

import pytest
import torch

from graphs import make_graph
from handful import Experiment, infer
from handful.bench.pyg import layer_widths, pyg_model, require_pyg
from handful.errors import HandfulError

pytest.importorskip("torch_geometric")

SMALL = Experiment("debian", hidden=8, layers=3, norm="ln", dropout=0.5)


def test_widths_go_from_features_to_outputs() -> None:
    assert layer_widths(SMALL, make_graph(classes=4, features=6)) == [6, 8, 8, 4]


THEIRS = {"neighbor": "lin_l", "own": "lin_r", "acts": "norms", ".norm.": ".", "linear": "lin"}
"""Parts of the names of weights: ours, and PyG's."""


@pytest.mark.parametrize("model", ["sage", "gat"])
def test_with_the_same_weights_it_has_the_same_logits(model: str) -> None:
    graph = make_graph()
    experiment = Experiment("debian", model=model, hidden=8, layers=3, norm="ln", residual=True, dropout=0.5)
    ours, theirs = experiment.make_model(graph, 0), pyg_model(experiment, graph).eval()
    weights = theirs.state_dict()
    for name, value in ours.state_dict().items():
        for own, other in {**THEIRS, "source": "att_src", "target": "att_dst"}.items():
            name = name.replace(own, other)
        weights[name] = value.reshape(weights.pop(name).shape)
    theirs.load_state_dict(weights)
    with torch.no_grad():
        logits = theirs(graph.x, graph.edge_index)
    torch.testing.assert_close(infer(ours, graph), logits, atol=1e-4, rtol=1e-4)


def test_a_layer_trains_with_dropout_and_the_norm_that_was_asked_for() -> None:
    graph = make_graph()
    norms = {"ln": torch.nn.LayerNorm, "bn": torch.nn.BatchNorm1d}
    for norm, kind in norms.items():
        model = pyg_model(SMALL.with_(norm=norm), graph)
        assert [type(one) for one in model.norms] == [kind, kind]
    torch.manual_seed(0)
    first, second = (model(graph.x, graph.edge_index) for _ in range(2))
    assert not torch.equal(first, second)


def test_without_pyg_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    monkeypatch.setitem(sys.modules, "torch_geometric.loader", None)
    with pytest.raises(HandfulError, match=r"bench loader measures against PyG: pip install 'handful\[pyg\]'"):
        require_pyg("loader")


def test_what_pyg_is_not_measured_with_is_refused() -> None:
    for option, value in (("model", "gcn"), ("norm", "none")):
        with pytest.raises(HandfulError, match=f"there is no {option} '{value}'"):
            pyg_model(SMALL.with_(**{option: value}), make_graph())
