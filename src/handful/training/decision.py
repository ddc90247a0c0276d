"""How the outputs of a model become probabilities, and these a class."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from handful.graph import Graph, Kind
from handful.training.metrics import curve, probabilities


@dataclass(frozen=True)
class Decision:
    """From outputs to probabilities, and from probabilities to a class.

    Args:
        kind: what is predicted; see ``Graph.kind``.
        positive, threshold: of two classes, the positive one and its decision threshold.
        class_weight: the class weights of the loss. Probabilities are those without the weights, and ``threshold`` is
            one of these. Of more than two classes, the one with the largest weighted probability is predicted.

    >>> Decision("binary").values(torch.tensor([[0.0]]))
    tensor([[0.5000, 0.5000]])
    >>> Decision("binary").pick(np.array([[0.3, 0.7]])), Decision("binary", 0, 0.2).pick(np.array([[0.3, 0.7]]))
    (array([1]), array([0]))
    """

    kind: Kind
    positive: int = 1
    threshold: float = 0.5
    class_weight: tuple[float, ...] | None = None

    @classmethod
    def on(cls, graph: Graph, class_weight: Tensor | None = None) -> Decision:
        """The decision that a threshold of 0.5 makes on probabilities with the class weights.

        >>> graph = Graph.from_edge_index([[0], [1]], y=[0, 1], positive=1)
        >>> Decision.on(graph, torch.tensor([1.0, 4.0])).threshold
        0.2
        """
        weight = None if class_weight is None else tuple(class_weight.tolist())
        return cls(graph.kind, int(graph.positive or 0), class_weight=weight).unweighted()

    def unweighted(self) -> Decision:
        """The same decision, if ``threshold`` is now one of the probabilities with the class weights."""
        if self.class_weight is None or self.kind != "binary":
            return self
        one = (1 - self.threshold) * self.class_weight[self.positive]
        other = self.threshold * self.class_weight[1 - self.positive]
        return replace(self, threshold=other / max(one + other, 1e-12))

    def shift(self, width: int) -> Tensor:
        """float32 ``(width,)``: what the class weights of the loss add to the outputs; 0 for a class without weight.

        >>> Decision("binary", class_weight=(1.0, 4.0)).shift(1)
        tensor([1.3863])
        """
        if self.class_weight is None:
            return torch.zeros(width)
        weights = torch.tensor(self.class_weight)
        logs = torch.where(weights > 0, weights, 1.0).log()
        return logs[1:2] - logs[:1] if width == 1 else logs

    def values(self, outputs: Tensor) -> Tensor:
        """``(n, classes)``, the probability of each class or label; ``(n, 1)``, the number, for a regression."""
        result = probabilities(outputs - self.shift(outputs.shape[1]), self.kind)
        if self.kind == "binary":
            return torch.stack([1 - result, result], 1)
        return result[:, None] if self.kind == "regression" else result

    def pick(self, values: np.ndarray) -> np.ndarray:
        """int64 ``(n,)``: the predicted class, from the probability of each class."""
        if self.kind == "binary":
            return np.where(values[:, self.positive] >= self.threshold, self.positive, 1 - self.positive)
        return (values if self.class_weight is None else values * np.array(self.class_weight)).argmax(1)  # type: ignore[no-any-return]


def best_threshold(outputs: Tensor, graph: Graph) -> float:
    """The decision threshold of the positive class with the best F1 on the validation nodes.

    It is the middle between two probabilities; 0.5 if no validation node is positive.

    Args:
        outputs: of the validation nodes alone, ``(n, outputs)``, without class weights.
        graph: with two classes.

    >>> graph = Graph.from_edge_index(
    ...     [[0], [1]], x=torch.zeros(5, 1), y=[0, 0, 1, 0, 1], train_mask=[0], val_mask=[1, 2, 3, 4], positive=1
    ... )
    >>> round(best_threshold(torch.tensor([[-3.0], [-1.0], [-2.0], [1.0]]), graph), 3)
    0.194
    """
    assert graph.y is not None
    assert graph.val_mask is not None
    positive = int(graph.positive or 0)
    p = Decision("binary").values(outputs.double().cpu())[:, positive].numpy()
    is_positive = graph.y[graph.val_mask].eq(positive).cpu().numpy()
    if not is_positive.any():
        return 0.5
    distinct, hits, taken = curve(p, is_positive)
    at = int((2 * hits / (taken + hits[-1])).argmax())
    return float(distinct[at : at + 2].mean())
