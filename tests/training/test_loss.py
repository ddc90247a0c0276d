from __future__ import annotations

import torch
from torch.nn import functional as F

from handful.training.loss import node_loss, node_losses


def test_two_logits_and_their_difference_as_one_give_the_same_loss() -> None:
    logits, y = torch.randn(20, 2), torch.randint(0, 2, (20,))
    torch.testing.assert_close(node_loss(logits, y), node_loss(logits[:, 1:] - logits[:, :1], y))


def test_mean_or_weighted_sum() -> None:
    logits, y, weight = torch.randn(20, 5), torch.randint(0, 5, (20,)), torch.rand(20)
    torch.testing.assert_close(node_loss(logits, y), F.cross_entropy(logits, y))
    torch.testing.assert_close(node_loss(logits, y, weight), (node_losses(logits, y) * weight).sum())


def test_half_precision_logits_are_widened_first() -> None:
    logits, y = torch.randn(10, 3).bfloat16(), torch.randint(0, 3, (10,))
    assert node_loss(logits, y).dtype == torch.float32
