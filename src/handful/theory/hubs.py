"""Beyond the paper: how much of R(w) comes from whether a batch holds the largest hubs of the graph.

A hub that touches a large share of the nodes changes the aggregation of all of them at once. A sampler that sometimes
includes it and sometimes not, as Random Node Sampling does with probability 1/m, has gradients that vary more.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from handful.graph import Graph
from handful.theory.powerlaw import degrees

HUBS = 6


def largest_hubs(graph: Graph, count: int = HUBS) -> np.ndarray:
    """int64, the nodes with the most distinct neighbours, largest first; of equals, the smallest ids first.

    >>> largest_hubs(Graph.from_edge_index([[0, 1, 2, 3], [3, 3, 3, 2]]), count=2).tolist()
    [3, 0]
    """
    return np.argsort(-degrees(graph), kind="stable")[:count]


class HubShare:
    """The share of R(w) that is explained by which hubs the batches hold, in one pass over the batches.

    Least squares of the batch gradients on an intercept and one indicator per hub: with G the gradients (n × P) and X
    the design, the explained part of Σ_k ‖g_k − ḡ‖² is tr(BᵀA⁺B) − n‖ḡ‖², where A = XᵀX and B = XᵀG. ``share`` is
    adjusted for the number of indicators that vary, so that it is about 0 where hubs do not matter. The memory is one
    gradient per hub.

    Args:
        hubs: the ids of the hubs.

    >>> watch = HubShare([7])
    >>> for nodes, gradient in (([7, 1], 1.0), ([2, 3], 0.0), ([7], 1.0), ([5], 0.0)):
    ...     watch.add(torch.tensor(nodes), torch.tensor([gradient]))
    >>> round(watch.share, 6)
    1.0
    """

    def __init__(self, hubs: np.ndarray | list[int]) -> None:
        self.hubs = torch.as_tensor(np.asarray(hubs, np.int64))
        size = len(self.hubs) + 1
        self.count, self.squares = 0, 0.0
        self.design = torch.zeros(size, size, dtype=torch.float64)
        self.products = torch.zeros(size, 0, dtype=torch.float64)

    def add(self, nodes: Tensor, gradient: Tensor) -> None:
        """Add one batch: the ids of its nodes and its gradient ``(P,)``."""
        gradient = gradient.to(torch.float64)
        if self.count == 0:
            self.products = torch.zeros(len(self.design), len(gradient), dtype=torch.float64, device=gradient.device)
        row = torch.cat([torch.ones(1), torch.isin(self.hubs, nodes.cpu())]).to(torch.float64)
        self.count += 1
        self.squares += float(gradient.square().sum())
        self.design += torch.outer(row, row)
        for i in row.nonzero().flatten().tolist():
            self.products[i] += gradient

    @property
    def share(self) -> float:
        """Adjusted R²; NaN where nothing varies or there are too few batches to tell."""
        centre = float(self.products[0].square().sum()) / self.count
        spread = self.squares - centre
        varying = int(torch.linalg.matrix_rank(self.design)) - 1
        left = self.count - varying - 1
        if left < max(1, 2 * varying) or spread <= 1e-12 * self.squares:
            return float("nan")
        gram = (self.products @ self.products.T).cpu()
        explained = float((torch.linalg.pinv(self.design) * gram).sum()) - centre
        return 1 - (1 - explained / spread) * (self.count - 1) / left
