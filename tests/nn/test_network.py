"""What every model has: options and their checks, chunks of rows or targets, layers on several devices or run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GraphSAGE

import handful as hf
from cli.run import handful
from graphs import make_graph
from handful.adjacency import Adjacency
from handful.batch import Batch
from handful.nn import MODELS, model_defaults, model_name, model_options, network, parameter_count
from handful.nn.network import Chunks, Network, arrange, moved
from handful.samplers.full import full_adjacency
from handful.storage import save
from handful.training.loop import batch_loss
from small import full_batch


@pytest.mark.parametrize("name", MODELS)
def test_a_model_keeps_all_that_makes_it_again(name: str) -> None:
    model = hf.make_model(name, 5, 3, hidden=8, dropout=0.1)
    assert model.options == {**model_defaults(name), "hidden": 8, "dropout": 0.1}
    assert (model.in_features, model.out_features, model_name(model)) == (5, 3, name)
    again = hf.make_model(name, model.in_features, model.out_features, **model.options)
    assert [p.shape for p in again.parameters()] == [p.shape for p in model.parameters()]
    assert parameter_count(model) == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_defaults_are_those_of_the_class(name: str) -> None:
    assert MODELS[name](5, 3).options == model_defaults(name) == model_options(name, {})


def test_a_class_that_is_not_registered_has_no_name() -> None:
    class Other(hf.SAGE):
        pass

    assert model_name(Other(4, 3)) is None


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"hidden": 0}, r"hidden must lie in \[1, 1,048,576\], got 0"),
        ({"hidden": 2**21}, "hidden must lie in"),
        ({"layers": 0}, "layers must lie in"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\), got 1.0"),
        ({"dropout": -0.1}, r"dropout must lie in \[0, 1\)"),
        ({"dropout": float("nan")}, "dropout must be a finite number"),
        ({"hiden": 8}, f"model '{'{}'}': there is no option 'hiden': did you mean hidden"),
    ],
)
def test_a_wrong_option_is_named(name: str, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(hf.HandfulError, match=words.replace("{}", name)):
        hf.make_model(name, 4, 3, **wrong)


@pytest.mark.parametrize("name", MODELS)
def test_dropout_comes_from_the_step_seed_alone(name: str) -> None:
    graph = make_graph(60)
    projected = {"input_projection": True} if "input_projection" in model_defaults(name) else {}
    model, batch = hf.make_model(name, graph.num_features, 4, hidden=16, **projected), full_batch(graph)
    model.step_seed = 7
    first = model(batch)
    torch.manual_seed(99)
    assert torch.equal(first, model(batch))
    model.step_seed = 8
    assert not torch.equal(first, model(batch))
    model.eval()
    assert torch.equal(model(batch), model(batch))


def test_sizes_and_names_that_cannot_be() -> None:
    with pytest.raises(hf.HandfulError, match="in_features must lie in"):
        hf.SAGE(0, 3)
    with pytest.raises(hf.HandfulError, match="out_features must lie in"):
        hf.SAGE(3, 0)
    with pytest.raises(hf.HandfulError, match="did you mean sage"):
        hf.make_model("sgae", 4, 3)


@pytest.mark.parametrize("chunk", [1, 7, 20, 1000])
def test_rows_and_targets_in_chunks_are_the_whole(chunk: int) -> None:
    graph = make_graph(20)
    adj, linear = full_adjacency(graph), torch.nn.Linear(graph.num_features, 3)
    sizes: list[int] = []

    def rows(x: torch.Tensor) -> torch.Tensor:
        sizes.append(len(x))
        return linear(x)

    torch.testing.assert_close(Chunks(chunk).map_rows(rows, graph.x), linear(graph.x))
    assert max(sizes) == min(chunk, 20)
    assert sum(sizes) == 20
    found = Chunks(chunk).map_targets(lambda some: some.mean(graph.x), adj)
    torch.testing.assert_close(found, adj.mean(graph.x))


# -- devices ---------------------------------------------------------------------------------------------------------

CPU = torch.device("cpu")
OPTIONS = {
    "gcn": {"norm": "bn", "residual": True, "input_projection": True, "output_projection": True},
    "sage": {"norm": "bn", "residual": True},
    "gat": {"norm": "ln"},
    "sgformer": {"layers": 2, "gnn_layers": 2},
    "graphland-sage": {},
}


def make(name: str, graph: hf.Graph) -> Network:
    torch.manual_seed(0)
    return hf.make_model(name, graph.num_features, graph.num_outputs, hidden=12, dropout=0.4, **OPTIONS[name])


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("how", [{"checkpoint_activations": True}, {"device": ["cpu", "cpu:0"]}], ids=["twice", "two"])
def test_training_ends_bit_for_bit_the_same(graph: hf.Graph, name: str, how: dict) -> None:
    ends = []
    for options in ({}, how):
        model = make(name, graph)
        run = hf.fit(model, graph, hf.RandomNodes(2), epochs=3, lr=1e-2, **options)
        ends.append((model.state_dict(), [(line["loss"], line["val"]) for line in run.history]))
    (plain, history), (other, other_history) = ends
    assert history == other_history
    assert plain.keys() == other.keys()
    for key, value in plain.items():
        assert torch.equal(value, other[key]), key


def test_a_layer_runs_again_in_the_precision_it_had() -> None:
    graph = make_graph(50)
    gradients = []
    for twice in (False, True):
        model = make("sage", graph)
        model.checkpoint_activations = twice
        batch_loss(model, full_batch(graph), "bf16").backward()
        gradients.append([p.grad for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_running_statistics_see_a_batch_once() -> None:
    graph = make_graph(50)
    model = make("sage", graph)
    model.checkpoint_activations = True
    batch_loss(model, full_batch(graph)).backward()
    assert [int(act.norm.num_batches_tracked) for act in model.acts] == [1] * len(model.acts)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_layer_runs_again_with_the_seed_it_had(name: str) -> None:
    graph = make_graph(50)
    batch = full_batch(graph)
    gradients = []
    for twice in (False, True):
        model = make(name, graph)
        model.checkpoint_activations = twice
        losses = []
        for seed in (3, 4):
            model.step_seed = seed
            losses.append(batch_loss(model, batch))
        model.step_seed = 99
        sum(losses).backward()
        assert model.step_seed == 99
        gradients.append([p.grad for p in model.parameters()])
    for a, b in zip(*gradients, strict=True):
        assert torch.equal(a, b)


def saved_bytes(model: Network, batch: Batch) -> int:
    """What autograd keeps for the backward pass, parameters and features aside."""
    known = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers(), batch.x]}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        batch_loss(model, batch)
    return sum(kept.values())


@pytest.mark.parametrize("name", OPTIONS)
def test_less_is_kept(name: str) -> None:
    graph = make_graph(200)
    model, batch = make(name, graph), full_batch(graph)
    plain = saved_bytes(model, batch)
    model.checkpoint_activations = True
    assert saved_bytes(model, batch) < 0.7 * plain


@pytest.mark.parametrize("name", ["gcn", "sage", "sgformer", "graphland-sage"])
def test_each_layer_runs_where_its_parameters_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second device is torch's ``meta``: like a GPU it refuses operands from elsewhere, but it holds no data."""

    def aggregate(adj: Adjacency, x: Tensor, **_: object) -> Tensor:
        assert adj.device == x.device
        return adj.own(x).clone()

    for product in ("mean", "gcn"):
        monkeypatch.setattr(Adjacency, product, aggregate)
    graph = make_graph(50)
    model = arrange(make(name, graph), [CPU, torch.device("meta")])
    blocks = model.blocks()
    homes = {i: CPU if i < len(blocks) // 2 else torch.device("meta") for i in range(len(blocks))}
    seen: dict[int, torch.device] = {}
    for i, block in enumerate(blocks):
        for part in nn.ModuleList(block).modules():
            assert {p.device for p in part.parameters()} <= {homes[i]}
            part.register_forward_hook(lambda part, _, out, i=i: seen.__setitem__(i, out.device))
    for run in (lambda: model(full_batch(graph)), lambda: hf.infer(model, graph)):
        seen.clear()
        # All layers have run when the logits are brought back, which is what meta cannot do.
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
            run()
        assert seen == homes


def test_every_parameter_belongs_to_one_layer() -> None:
    graph = make_graph(30)
    for name in OPTIONS:
        model = make(name, graph)
        in_blocks = [id(p) for block in model.blocks() for module in block for p in module.parameters()]
        assert sorted(in_blocks) == sorted(id(p) for p in model.parameters())


def test_layers_on_one_device_share_one_copy_of_the_edges() -> None:
    graph = make_graph(30)
    (adj,) = full_batch(graph).layers
    meta = torch.device("meta")
    assert moved(adj, CPU) is adj
    assert moved(adj, meta) is moved(adj, meta)
    assert moved(adj, meta).device == meta
    held = len(network._copies)
    del adj
    assert len(network._copies) == held - 1


def test_what_cannot_be_spread_says_so(graph: hf.Graph) -> None:
    with pytest.raises(hf.HandfulError, match="5 devices for 4 layers"):
        hf.fit(make("sage", graph), graph, hf.FullGraph(), device=["cpu"] * 5, epochs=1)
    for name in ("gpu", "cuda:9"):
        with pytest.raises(hf.HandfulError, match=f"device '{name}' cannot be used here"):
            hf.fit(make("sage", graph), graph, hf.FullGraph(), device=["cpu", name], epochs=1)
    other = GraphSAGE(graph.num_features, 8, 2, graph.num_classes)
    for options in ({"device": ["cpu", "cpu"]}, {"checkpoint_activations": True}):
        with pytest.raises(hf.HandfulError, match="the layers of a GraphSAGE cannot be seen"):
            hf.fit(other, graph, hf.FullGraph(), epochs=1, **options)


def test_the_command_line_spreads_and_checkpoints(graph: hf.Graph, tmp_path: Path) -> None:
    save(graph, tmp_path / "graph")
    shared = ("train", tmp_path / "graph", "--model", "sgformer", "--hidden", 8, "--epochs", 2, "--seeds", 1, "--json")
    ends = []
    for i, more in enumerate(((), ("--checkpoint-activations", "--devices", "cpu,cpu"))):
        result = handful(*shared, "--model-option", "gnn_layers=2", *more, "--out", tmp_path / str(i))
        assert result.code == 0, result.stderr
        ends.append((result.json["val"], (tmp_path / str(i) / "seed-1" / "model.safetensors").read_bytes()))
    assert ends[0] == ends[1]
    wrong = handful(*shared, "--input-projection")
    assert wrong.code == 2
    assert all(word in wrong.stderr for word in ("sgformer", "'input_projection'"))
