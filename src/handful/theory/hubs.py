"""Beyond the paper: hubs. How much of R(w) comes from whether a batch holds them, and what RNS is with them in all.

A hub that touches a large share of the nodes changes the aggregation of all of them at once. A sampler that sometimes
includes it and sometimes not, as Random Node Sampling does with probability 1/m, has gradients that vary more.

``RandomNodes(parts=m, hubs=…)`` trains step k on G[B_k ∪ H] with the loss of B_k alone. Its degree law is
``thinning.thinned_degree_law``, and term (I) of its bias is that of plain RNS (``bias.node_subsampling_variance``).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from handful.graph import Graph
from handful.theory.powerlaw import degrees
from handful.theory.thinning import edge_survival, hypergeometric

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


def expected_copies(nodes: int, parts: int, hub_ends: int) -> float:
    """In how many of the m parts of an epoch an edge between two nodes is expected, by how many of its ends are hubs.

    None: s = ``edge_survival``, when both ends are dealt into one block. One: 1, in the block of the other end. Two: m.
    An own row keeps a source that is a hub with probability 1, and another with probability s.

    >>> [expected_copies(100, 4, ends) for ends in (0, 1, 2)] == [edge_survival(100, 4), 1.0, 4.0]
    True
    """
    return (edge_survival(nodes, parts), 1.0, float(parts))[hub_ends]


def expected_edges(graph: Graph, parts: int, hubs: np.ndarray) -> float:
    """The edges of all parts of an epoch, E[Σ_k |E(G[B_k ∪ H])|] = s·E₀ + E₁ + m·E₂ by the hubs at their ends.

    A loop is in every part that has its node: in one, or in m if it is at a hub.

    >>> star = Graph.from_edge_index([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
    >>> expected_edges(star, 2, np.array([0]))  # every leaf meets the hub in its own part
    6.0
    """
    is_hub = np.zeros(graph.num_nodes, bool)
    is_hub[hubs] = True
    source, target = graph.edge_index.cpu().numpy()
    ends = is_hub[source].astype(np.int64) + is_hub[target]
    loops = source == target
    counts = np.bincount(ends[~loops], minlength=3)
    copies = [expected_copies(graph.num_nodes, parts, number) for number in range(3)] if counts.any() else [0.0] * 3
    return float(np.dot(counts, copies) + (ends[loops] == 0).sum() + parts * (ends[loops] == 2).sum())


def expected_mean_weights(nodes: int, block: int, degree: int, hubs: int) -> tuple[float, float]:
    """How much a neighbour counts in the mean over a node's row, in expectation: one that is a hub, and any other.

    Of d neighbours the h hubs stay, and K of the d − h others, K ~ H_{N,d−h}, in a block of b nodes:

        E[1/(h + K)]   and   E[K/(h + K)] / (d − h)

    On the full graph both are 1/d. Without hubs the second is Pr(K > 0)/d, so that the direction of the mean is right;
    with them hubs count for more than they should. That is the first-order part of term (II), edge removal.

    >>> [round(weight, 6) for weight in expected_mean_weights(4, 2, degree=2, hubs=1)]  # K is 0 or 1 with 2/3 and 1/3
    [0.833333, 0.166667]
    """
    law = hypergeometric(nodes, block, degree - hubs)
    kept = np.arange(len(law))
    all_kept = np.maximum(hubs + kept, 1)  # an empty row has no weights at all
    hub = float(np.sum(law / all_kept)) if hubs else 0.0
    other = float(np.sum(law * kept / all_kept)) / (degree - hubs) if degree > hubs else 0.0
    return hub, other
