"""Beyond the paper: hubs. How much of R(w) comes from whether a batch holds them, and what RNS is with them in all.

A hub that touches a large share of the nodes changes the aggregation of all of them at once. A sampler that sometimes
includes it and sometimes not, as Random Node Sampling does with probability 1/m, has gradients that vary more.

``RandomNodes(parts=m, hubs=…)`` trains step k on G[B_k ∪ H] with the loss of B_k alone. Its degree law is
``thinning.thinned_degree_law``, and term (I) of its bias is that of plain RNS (``bias.node_subsampling_variance``).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
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
        self.hubs = torch.as_tensor(hubs, dtype=torch.int64)
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


def expected_copies(nodes: int, parts: int, source: ArrayLike, target: ArrayLike) -> np.ndarray:
    """In how many of the m parts of an epoch an edge between two nodes is expected.

    Of the probabilities π_u and π_v of its ends to be helpers, independent of each other and of the deal:

        m·π_u·π_v + π_u·(1 − π_v) + (1 − π_u)·π_v + s·(1 − π_u)·(1 − π_v)

    Two helpers meet in every part; one meets the other end in that end's block; and of two that are none,
    s = ``edge_survival`` is the probability that they are dealt into one block.

    >>> copies = expected_copies(100, 4, [0, 1, 1, 0.5], [0, 0, 1, 0])
    >>> copies[:3].tolist() == [edge_survival(100, 4), 1.0, 4.0], float(copies[3]) == (1 + edge_survival(100, 4)) / 2
    (True, True)
    """
    u, v = np.asarray(source, np.float64), np.asarray(target, np.float64)
    return parts * u * v + u * (1 - v) + (1 - u) * v + edge_survival(nodes, parts) * (1 - u) * (1 - v)


def expected_edges(graph: Graph, parts: int, inclusion: np.ndarray) -> float:
    """The edges of all parts of an epoch, E[Σ_k |E(G[B_k ∪ H])|]: the sum of ``expected_copies`` over the edges.

    A loop is in every part that has its node: in 1 + (m − 1)·π_v.

    Args:
        inclusion: ``(N,)``, π, the probability of every node to be a helper; 0 and 1 for fixed hubs.

    >>> star = Graph.from_edge_index([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
    >>> expected_edges(star, 2, np.array([1, 0, 0, 0]))  # every leaf meets the hub in its own part
    6.0
    """
    source, target = graph.edge_index.cpu().numpy()
    loops = source == target
    own = float(np.sum(1 + (parts - 1) * inclusion[source[loops]]))
    ends = inclusion[source[~loops]], inclusion[target[~loops]]
    return own + float(expected_copies(graph.num_nodes, parts, *ends).sum())


def helpers_law(inclusion: ArrayLike) -> np.ndarray:
    """Pr(h = j) for j = 0 to d: how many of d nodes are helpers, each with its own probability (Poisson's binomial).

    >>> helpers_law([1, 0.5]).tolist()
    [0.0, 0.5, 0.5]
    """
    law = np.ones(1)
    for chance in np.atleast_1d(np.asarray(inclusion, np.float64)).ravel():
        law = np.append(law * (1 - chance), 0) + np.append(0, law * chance)
    return law


def helpers_met(graph: Graph, inclusion: np.ndarray) -> np.ndarray:
    """``(N, D + 1)``, D the largest degree: Pr(h_v = j), how many neighbours of each node are helpers.

    >>> path = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> helpers_met(path, np.array([0.5, 0, 1])).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]
    """
    indptr, indices = graph.topology
    out = np.zeros((graph.num_nodes, int(np.diff(indptr).max(initial=0)) + 1))
    for v in range(graph.num_nodes):
        law = helpers_law(inclusion[indices[indptr[v] : indptr[v + 1]]])
        out[v, : len(law)] = law
    return out


def expected_mean_weights(nodes: int, block: int, inclusion: ArrayLike) -> np.ndarray:
    """How much each neighbour counts in the mean over the row of a block's own node, in expectation.

    Of d neighbours, j are helpers and stay, and K of the d − j others, K ~ H_{N,d−j} in a block of b nodes. With
    j ~ ``helpers_law`` of the other neighbours, one that is a helper counts E[1/(1 + j + K)], K ~ H_{N,d−1−j}, and one
    that is none E[K/(j + K)] / (d − j), K ~ H_{N,d−j}; the weight is the mean of the two by π.

    On the full graph all are 1/d. Without helpers they are Pr(K > 0)/d, so that the direction of the mean is right;
    fixed hubs count for more than they should, and drawn ones by as much as they are drawn more often. That is the
    first-order part of term (II), edge removal.

    Args:
        inclusion: ``(d,)``, the probability of every neighbour to be a helper.

    >>> expected_mean_weights(4, 2, [1, 0]).round(6).tolist()  # K is 0 or 1 with 2/3 and 1/3
    [0.833333, 0.166667]
    """
    chances = np.asarray(inclusion, np.float64)
    degree, out = len(chances), np.zeros(len(chances))
    for u, chance in enumerate(chances):
        for j, weight in enumerate(helpers_law(np.delete(chances, u))):
            helper, other = hypergeometric(nodes, block, degree - 1 - j), hypergeometric(nodes, block, degree - j)
            as_helper = np.sum(helper / (1 + j + np.arange(len(helper))))
            kept = np.arange(len(other))
            as_other = np.sum(other * kept / np.maximum(j + kept, 1)) / (degree - j)  # an empty row has no weights
            out[u] += weight * (chance * as_helper + (1 - chance) * as_other)
    return out
