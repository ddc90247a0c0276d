"""What a run is judged by: accuracy, and average precision or ROC-AUC for two classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor


def accuracy(logits: Tensor, y: Tensor) -> float:
    """The share of nodes whose largest logit (or the sign of the only one) is their class.

    >>> import torch
    >>> accuracy(torch.tensor([[0.2, 0.8], [0.9, 0.1]]), torch.tensor([1, 1]))
    0.5
    """
    predicted = (logits.squeeze(1) > 0).to(y.dtype) if logits.shape[1] == 1 else logits.argmax(1)
    return float((predicted == y).double().mean())


def _scores(logits: Tensor, y: Tensor) -> tuple[np.ndarray, np.ndarray]:
    score = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
    return score.double().cpu().numpy(), y.cpu().numpy() == 1


def average_precision(logits: Tensor, y: Tensor) -> float:
    """Σ_k (recall_k - recall_{k-1}) · precision_k over the distinct scores, highest first; NaN without positives."""
    score, positive = _scores(logits, y)
    order = np.argsort(-score, kind="stable")
    score, positive = score[order], positive[order]
    hits = np.cumsum(positive)
    if len(hits) == 0 or hits[-1] == 0:
        return float("nan")
    last_of_tie = np.append(score[1:] != score[:-1], True)
    hits, seen = hits[last_of_tie], np.flatnonzero(last_of_tie) + 1
    return float(np.sum(np.diff(hits, prepend=0) / hits[-1] * hits / seen))


def roc_auc(logits: Tensor, y: Tensor) -> float:
    """The chance that a positive node scores above a negative one, ties counting half; NaN if one kind is missing."""
    score, positive = _scores(logits, y)
    count = int(positive.sum())
    if count in (0, len(positive)):
        return float("nan")
    _, tie, sizes = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[tie][positive].sum()
    return float((ranks - count * (count + 1) / 2) / (count * (len(positive) - count)))


@dataclass(frozen=True)
class Metric:
    """A function of logits ``(n, outputs)`` and labels ``(n,)``, and whether more of it is better.

    >>> METRICS["accuracy"].better(0.7, than=0.6)
    True
    """

    function: Callable[[Tensor, Tensor], float]
    higher_is_better: bool = True

    def __call__(self, logits: Tensor, y: Tensor) -> float:
        """The metric of these nodes; NaN where there are none."""
        return self.function(logits, y) if len(y) else float("nan")

    def better(self, value: float, than: float) -> bool:
        """Whether ``value`` is better than another; anything is better than NaN, and NaN is no better than a number."""
        if than != than:
            return True
        return value > than if self.higher_is_better else value < than


METRICS: dict[str, Metric] = {
    "accuracy": Metric(accuracy),
    "average_precision": Metric(average_precision),
    "roc_auc": Metric(roc_auc),
}
