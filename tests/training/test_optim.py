"""Optimisers and schedules: the named ones are torch's, and one's own are taken as they are."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop
from torch.optim.lr_scheduler import StepLR

import handful as hf
from handful.settings import Settings
from handful.training.optim import make_optimizer, make_scheduler, name_of
from small import Last, assert_close_weights, small_sage, train_by_hand


def weights_after(optimizer: Optimizer, parameter: nn.Parameter, steps: int = 5) -> torch.Tensor:
    for step in range(steps):
        optimizer.zero_grad()
        (parameter.sin() * (step + 1)).sum().backward()
        optimizer.step()
    return parameter.detach().clone()


@pytest.mark.parametrize(
    ("name", "kind", "more"),
    [("adam", Adam, {}), ("adamw", AdamW, {}), ("sgd", SGD, {}), ("sgdm", SGD, {"momentum": 0.7})],
)
def test_named_optimisers_are_torchs(name: Any, kind: type[Optimizer], more: dict[str, Any]) -> None:
    found = []
    for make in (
        partial(make_optimizer, Settings(optimizer=name, lr=0.03, weight_decay=0.1, momentum=0.7)),
        partial(kind, lr=0.03, weight_decay=0.1, **more),
    ):
        parameter = nn.Parameter(torch.linspace(-2, 2, 7))
        found.append(weights_after(make([parameter]), parameter))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("make", [None, AdamW])
def test_biases_and_norms_may_be_spared_the_decay(make: Any) -> None:
    """GraphLand's rule, by the names of its parameters: AdamW shrinks what decays by lr · decay in every step."""
    model = hf.make_model("graphland-sage", 5, 3, hidden=8, layers=2)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    settings = Settings(optimizer="adamw", lr=0.1, weight_decay=0.5, decayed="weights")
    optimizer = make_optimizer(settings, model.parameters(), make)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    for name, p in model.named_parameters():
        spared = name.endswith("bias") or "norm" in name or name.startswith("output.0")
        torch.testing.assert_close(p.detach(), before[name] * (1.0 if spared else 1 - 0.1 * 0.5), msg=name)
    assert len({id(p) for group in optimizer.param_groups for p in group["params"]}) == len(before)


@pytest.mark.slow
def test_named_optimisers_do_not_wait_for_torchs_compiler() -> None:
    code = """
import sys, torch, handful as hf
graph = hf.load("synthetic?nodes=60&degree=4&features=4&classes=2")
for name in ("adam", "adamw", "sgdm"):
    hf.fit(hf.SAGE(4, 2, hidden=4, layers=2), graph, hf.RandomNodes(2), epochs=2, optimizer=name, scheduler="cosine")
assert "torch._dynamo" not in sys.modules
compiled = torch.compile(torch.nn.Linear(2, 1), backend="eager")
torch.optim.Adam(compiled.parameters()).zero_grad()
assert compiled(torch.zeros(1, 2)).shape == (1, 1)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr


def own_sgd(parameters: Any, lr: float, weight_decay: float) -> Optimizer:
    """Twice the rate for biases: what a class alone cannot say."""
    biases, others = [], []
    for parameter in parameters:
        (biases if parameter.ndim == 1 else others).append(parameter)
    return SGD([{"params": others}, {"params": biases, "lr": 2 * lr}], lr=lr, weight_decay=weight_decay)


@pytest.mark.parametrize("make", [RMSprop, partial(SGD, momentum=0.5, nesterov=True), own_sgd], ids=name_of)
def test_ones_own_optimiser_trains_as_in_plain_torch(graph: hf.Graph, make: Any) -> None:
    last = Last()
    hf.fit(
        small_sage(graph, norm="none"), graph, hf.RandomNodes(2), epochs=3, lr=0.01, weight_decay=0.1, optimizer=make,
        trim=False, callbacks=[last],
    )  # fmt: skip
    model = small_sage(graph, norm="none")
    optimizer = make(model.parameters(), lr=0.01, weight_decay=0.1)
    assert_close_weights(last.weights, train_by_hand(model, graph, hf.RandomNodes(2), optimizer, epochs=3))


def test_an_optimiser_that_takes_other_arguments_is_named() -> None:
    with pytest.raises(hf.HandfulError, match=r"optimizer \S*no_rate must take \(parameters, lr, weight_decay\)"):
        make_optimizer(Settings(), [nn.Parameter(torch.zeros(1))], no_rate)


def no_rate(parameters: Any) -> Optimizer:
    return SGD(parameters)


@pytest.mark.parametrize(
    ("name", "share"),
    [("cosine", lambda t: (1 + math.cos(math.pi * t)) / 2), ("linear", lambda t: 1 - t)],
)
def test_named_schedules_are_their_formulas(name: Any, share: Any) -> None:
    optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=0.4)
    scheduler = make_scheduler(Settings(scheduler=name, epochs=10), optimizer)
    assert scheduler is not None
    for epoch in range(11):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.4 * share(epoch / 10), abs=1e-12)
        optimizer.step()
        scheduler.step()


def test_no_schedule_and_ones_own() -> None:
    optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=0.4)
    assert make_scheduler(Settings(), optimizer) is None
    own = make_scheduler(Settings(scheduler="cosine"), optimizer, partial(StepLR, step_size=2))
    assert isinstance(own, StepLR)


def test_names_tell_things_apart() -> None:
    assert name_of(SGD) == name_of(SGD([nn.Parameter(torch.zeros(1))], lr=1)) == "torch.optim.sgd.SGD"
    assert name_of(own_sgd).endswith("test_optim.own_sgd")
    assert name_of(partial(StepLR, step_size=2)) != name_of(partial(StepLR, step_size=3))
    assert name_of(partial(partial(SGD, momentum=0.5), nesterov=True)) == name_of(
        partial(SGD, momentum=0.5, nesterov=True)
    )
