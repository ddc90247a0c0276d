"""The PyG side of the benchmarks: the same model, written as a PyG user would write it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from itertools import islice, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from handful.convert import to_pyg
from handful.errors import HandfulError, needing, unknown
from handful.experiment import Experiment
from handful.graph import Graph
from handful.training.loss import node_loss


def require_pyg(bench: str) -> Any:
    """The package ``torch_geometric``; if it is not installed, raise an error that shows the command to install it."""
    with needing(f"bench {bench} measures against PyG: pip install 'handful[pyg]'"):
        import torch_geometric.loader
        import torch_geometric.nn
        import torch_geometric.utils
    return torch_geometric


def layer_widths(experiment: Experiment, graph: Graph) -> list[int]:
    """The number of features, the width of each hidden layer, and the number of outputs."""
    options = experiment.options
    return [graph.num_features, *[options["hidden"]] * (options["layers"] - 1), graph.num_outputs]


def pyg_model(experiment: Experiment, graph: Graph) -> nn.Module:
    """The experiment's model in PyG. Each layer is PyG's convolution plus a Linear of the layer's input; norm, ReLU and
    dropout follow every layer but the last.
    """
    pyg, options = require_pyg("epoch"), experiment.options
    convs: dict[str, Callable[[int, int], nn.Module]] = {"sage": pyg.nn.SAGEConv, "gat": pyg.nn.GATConv}
    norms: dict[str, Callable[[int], nn.Module]] = {"ln": nn.LayerNorm, "bn": nn.BatchNorm1d}
    for option, value, known in (("model", experiment.model, convs), ("norm", options.get("norm"), norms)):
        if value not in known:
            raise HandfulError("measured against PyG, " + unknown(option, str(value), known))
    conv, norm = convs[experiment.model], norms[options["norm"]]
    widths = layer_widths(experiment, graph)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convs = nn.ModuleList(conv(before, after) for before, after in pairwise(widths))
            self.skips = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(widths))
            self.norms = nn.ModuleList(norm(width) for width in widths[1:-1])

        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            for i, (layer, skip) in enumerate(zip(self.convs, self.skips, strict=True)):
                x = layer(x, edges) + skip(x)
                if i < len(self.norms):
                    x = F.dropout(F.relu(self.norms[i](x)), options["dropout"], self.training)
            return x

    return Model()


def pyg_epoch(experiment: Experiment, graph: Graph, csr: bool = False, most: int | None = None) -> Callable[[], None]:
    """A function that trains PyG's model for one epoch on batches of PyG's loader. If ``csr``, it converts the
    ``edge_index`` of each batch to a CSR adjacency.

    The loader runs on the CPU, as in PyG's examples, and its batches move to the experiment's device. The number of
    batches is the number of parts in the experiment's sampler, but at most ``most``. If the sampler has no parts, the
    batch is the full graph.
    """
    pyg, data, device = require_pyg("epoch"), to_pyg(graph), torch.device(experiment.device)
    torch.manual_seed(experiment.seeds[0])
    model = pyg_model(experiment, graph).train().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=experiment.settings.lr)
    parts = experiment.sampler.options().get("parts", 1)
    batches: Iterable[Any] = pyg.loader.RandomNodeLoader(data, parts, shuffle=True) if parts > 1 else [data.to(device)]

    def epoch() -> None:
        for drawn in islice(batches, most):
            batch = drawn.to(device)
            edges = batch.edge_index
            if csr:  # rows are targets
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # CSR tensors are in beta
                    size = (batch.num_nodes, batch.num_nodes)
                    edges = pyg.utils.to_torch_csr_tensor(edges.flip(0), size=size)
            optimizer.zero_grad()
            loss = node_loss(model(batch.x, edges)[batch.train_mask], batch.y[batch.train_mask])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    return epoch
