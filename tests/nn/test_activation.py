"""norm → ReLU → dropout against torch's own modules."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from handful.errors import HandfulError
from handful.nn.activation import NORMS, NormAct


def torchs(norm: str, features: int) -> nn.Module:
    kinds: dict[str, nn.Module] = {"bn": nn.BatchNorm1d(features), "ln": nn.LayerNorm(features), "none": nn.Identity()}
    return nn.Sequential(kinds[norm], nn.ReLU())


def twins(norm: Any, features: int = 6) -> tuple[NormAct, nn.Module]:
    ours, theirs = NormAct(norm, features, 0.0), torchs(norm, features)
    if ours.norm is not None:
        ours.norm.weight.data.uniform_(0.5, 2)
        ours.norm.bias.data.normal_()
        theirs[0].load_state_dict(ours.norm.state_dict())
    return ours, theirs


@pytest.mark.parametrize("norm", NORMS)
def test_it_is_torchs_norm_and_relu_in_training_and_after(norm: str) -> None:
    torch.manual_seed(0)
    ours, theirs = twins(norm)
    for training in (True, True, False):
        ours.train(training)
        theirs.train(training)
        mine = (torch.randn(20, 6) * 2 + 1).requires_grad_()
        other = mine.detach().clone().requires_grad_()
        a, b = ours(mine, 0), theirs(other)
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        weight = torch.randn(20, 6)
        (a * weight).sum().backward()
        (b * weight).sum().backward()
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-5)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-4)
    for p, q in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_dropout_keeps_a_share_scaled_up_and_only_in_training(norm: Any) -> None:
    act, plain = NormAct(norm, 8, 0.25), NormAct(norm, 8, 0.0)
    h = torch.randn(5000, 8)
    whole, dropped = plain(h, 3), act(h, 3)
    alive = whole > 0
    kept = dropped[alive] != 0
    assert float(kept.double().mean()) == pytest.approx(0.75, abs=0.02)
    torch.testing.assert_close(dropped[alive][kept], whole[alive][kept] / 0.75)
    assert torch.equal(dropped, act(h, 3)) or norm == "bn"
    assert not torch.equal(dropped, act(h, 4))
    act.eval()
    assert torch.equal(act(h, 3), act(h, 4))


def test_an_unknown_norm_is_answered_with_those_that_exist() -> None:
    with pytest.raises(HandfulError, match="there is no norm 'batch': choose from bn, ln, none"):
        NormAct("batch", 4, 0.0)  # type: ignore[arg-type]
