"""What every model has: its options, the checks of them, and rows or targets in chunks."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import handful as hf
from graphs import make_graph
from handful.nn import MODELS, model_defaults, model_name, model_options, parameter_count
from handful.nn.network import Chunks, map_rows, map_targets
from handful.samplers.full import full_adjacency
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

    torch.testing.assert_close(map_rows(rows, graph.x, Chunks(chunk)), linear(graph.x))
    assert max(sizes) == min(chunk, 20)
    assert sum(sizes) == 20
    found = map_targets(lambda some: some.mean(graph.x), adj, Chunks(chunk))
    torch.testing.assert_close(found, adj.mean(graph.x))
