"""Where the graph is while a model trains on a device: there, or on the host.

This is how to train, not what: the batches are the same either way. Beside a graph on the host, batches are made by the
CPU and sent to the device one by one, and the model is evaluated on the CPU by a copy of its weights, exactly.
"""

from __future__ import annotations

import copy
import sys
from typing import get_args

import torch
from torch import nn

from handful.errors import HandfulError, unknown
from handful.graph import Graph
from handful.nn.network import Network
from handful.samplers.base import Sampler
from handful.settings import GraphOn
from handful.training.memory import free_gpu

GRAPH_ON: GraphOn = "auto"
"""Where the graph is, where nobody says."""
KEPT_BY_SUMS, KEPT_BY_OTHERS = 3, 5
"""How many numbers a layer keeps for every row and unit of its width: the audit of a step (``benchmarks/audit.py``)
finds 2.3 for GraphSAGE and GCN, which sum over neighbours, and 4.6 for GAT."""
KEPT_BY_EVALUATION = 3
"""How many numbers exact evaluation holds for every node and unit of width: what enters a layer, what leaves it, and
what a chunk needs between them."""
DEALT = 64
"""How many bytes for every node the parts of an epoch take on the device, beside their edges."""


def stays_on_host(graph_on: GraphOn, graph: Graph, model: nn.Module, sampler: Sampler, device: torch.device) -> bool:
    """Whether the graph is on the host while ``model`` trains on ``device``; ``auto`` says so if it decides for that.

    Raises:
        HandfulError: ``graph_on`` is no such place.
    """
    if graph_on not in get_args(GraphOn):
        raise HandfulError(unknown("place for the graph", graph_on, get_args(GraphOn)))
    if graph_on != "auto":
        return graph_on == "host"
    free = None if graph.device == device else free_gpu(device)
    if free is None or (needed := needed_bytes(graph, model, sampler)) <= free:
        return False
    asked, there = (f"{count / 2**30:,.1f} GiB" for count in (needed, free))
    told = f"training with the graph on {device} takes about {asked} there, and {there} are free"
    print(f"handful: {told}: the graph stays on the host", file=sys.stderr, flush=True)
    return True


def needed_bytes(graph: Graph, model: nn.Module, sampler: Sampler) -> int:
    """About how many bytes training takes on a device that holds the graph too.

        graph + 4 · weights + parts of an epoch + max(a step, an evaluation)

    The weights come with their gradients and two moments of the optimiser. A step keeps ``KEPT_BY_SUMS`` or
    ``KEPT_BY_OTHERS`` numbers of four bytes for every row of a batch, layer and unit of width; see there.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=1000&degree=4&features=8")
    >>> model = hf.SAGE(8, graph.num_outputs, hidden=64, layers=3)
    >>> [needed_bytes(graph, model, hf.RandomNodes(m)) // 1000 for m in (1, 8)]
    [2740, 1158]
    """
    tensors = (graph.indptr, graph.indices, graph.x, graph.y, graph.edge_weight, graph.train_mask)
    held = sum(t.nbytes for t in tensors if t is not None)
    weights = [p for p in model.parameters() if p.ndim == 2]
    width = max((p.shape[0] for p in weights), default=0)
    layers = model.depth if isinstance(model, Network) else len(weights)
    kept = KEPT_BY_SUMS if isinstance(model, Network) and model.sums_neighbors else KEPT_BY_OTHERS
    share = sampler.share(graph)
    step = 4 * share * graph.num_nodes * (graph.num_features + kept * layers * width)
    evaluation = 4 * KEPT_BY_EVALUATION * graph.num_nodes * width
    dealt = DEALT * graph.num_nodes + share * graph.indices.nbytes
    return int(held + 4 * sum(p.nbytes for p in model.parameters()) + dealt + max(step, evaluation))


def beside(model: nn.Module, device: torch.device) -> nn.Module:
    """The model with all its weights on ``device``: itself if they are there, else a copy.

    >>> model = nn.Linear(2, 1)
    >>> beside(model, torch.device("cpu")) is model
    True
    """
    if all(parameter.device == device for parameter in model.parameters()):
        return model
    return copy.deepcopy(model).to(device)
