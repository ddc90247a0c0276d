"""``handful bench epoch``: a training epoch, PyG's ways and ours by turns in one process, against its products alone.

All train the same GraphSAGE (BatchNorm, residual, dropout, Adam) on parts of the same graph. The floor is the dense
products of our epoch, forward and backward, and nothing else: no aggregation, norm, dropout, loss, sampling or
optimiser.
"""

from __future__ import annotations

import os
import warnings
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from handful.cli.app import (
    GRAPH_HELP,
    HiddenOption,
    JsonOption,
    LayersOption,
    RootOption,
    SplitOption,
    ThreadsOption,
    bench,
    console,
    emit_json,
    out,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

    from handful.graph import Graph

LABELS = {
    "pyg_edge_index": "PyG, edge_index",
    "pyg_csr": "PyG, CSR",
    "handful_fp32": "handful fp32",
    "handful_bf16": "handful bf16",
    "floor_fp32": "floor fp32",
    "floor_bf16": "floor bf16",
}
PIECES: dict[str, tuple[str, ...]] = {
    "aggregation": (
        "_Product",
        "_TransposedProduct",
        "_Convolution",
        "sparse",
        "scatter",
        "index_select",
        "index_add",
        "gather",
    ),
    "products": ("mm", "linear"),
    "norm, ReLU, dropout": ("NormAct", "_Act", "norm", "relu", "threshold", "dropout", "bernoulli"),
    "optimiser": ("Optimizer", "adam", "addcdiv", "addcmul", "lerp", "sqrt"),
}
"""What a profiled operation belongs to: the first piece that has a part of its name."""


@bench.command("epoch")
def bench_epoch(
    graph: Annotated[str, typer.Option(help=GRAPH_HELP)] = "debian",
    split: SplitOption = None,
    root: RootOption = None,
    parts: Annotated[int, typer.Option(help="m, the number of parts; 1 is the full graph.", min=1)] = 4,
    hidden: HiddenOption = 256,
    layers: LayersOption = 4,
    rounds: Annotated[int, typer.Option(help="How often each is measured; the median counts.", min=1)] = 5,
    seed: Annotated[int, typer.Option(help="Of weights, parts and dropout.")] = 42,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """A training epoch against PyG's and against its matrix products alone: seconds, ratios, where the time goes."""
    from handful.datasets import load

    with console.status("loading the graph…") as status:
        result = measure(
            load(graph, split=split, root=root), parts, hidden, layers, rounds, seed, lambda text: status.update(text)
        )
    emit_json(result) if as_json else _show(result)


def measure(
    graph: Graph, parts: int, hidden: int, layers: int, rounds: int, seed: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Seconds an epoch of every way, their ratios, and the pieces of each."""
    from handful.kernels.threads import get_threads

    epochs: dict[str, Callable[[], None]] = {
        **pyg_epochs(graph, parts, hidden, layers, seed),
        **handful_epochs(graph, parts, hidden, layers, seed),
        **floor_epochs(graph, parts, hidden, layers),
    }
    seconds: dict[str, list[float]] = {name: [] for name in epochs}
    pieces: dict[str, dict[str, float]] = {}
    for k in range(rounds + 1):  # the first round warms up and tells the pieces
        for name, epoch in epochs.items():
            say(f"round {k} of {rounds}: {LABELS[name]}…")
            if k == 0:
                epoch()
                pieces[name] = profile(epoch)
                continue
            start = perf_counter()
            epoch()
            seconds[name].append(perf_counter() - start)
    middle = {name: median(times) for name, times in seconds.items()}
    return {
        "graph": graph.name,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "parts": parts,
        "threads": get_threads(),
        "rounds": rounds,
        "seconds": middle,
        "ratio": {
            "handful_fp32_over_floor": middle["handful_fp32"] / middle["floor_fp32"],
            "handful_bf16_over_floor": middle["handful_bf16"] / middle["floor_bf16"],
            **{
                f"{theirs}_over_{ours}": middle[theirs] / middle[ours]
                for theirs in ("pyg_edge_index", "pyg_csr")
                for ours in ("handful_fp32", "handful_bf16")
            },
        },
        "pieces": pieces,
    }


# -- the ways to train ------------------------------------------------------------------------------------------------


def pyg_epochs(graph: Graph, parts: int, hidden: int, layers: int, seed: int) -> dict[str, Callable[[], None]]:
    """PyG's RandomNodeLoader and SAGEConv, on ``edge_index`` and on a CSR adjacency made for each batch."""
    import torch

    from handful.convert import to_pyg
    from handful.training.loss import node_loss

    try:
        from torch_geometric.loader import RandomNodeLoader
        from torch_geometric.nn import SAGEConv
        from torch_geometric.utils import to_torch_csr_tensor
    except ImportError as error:
        from handful.errors import HandfulError

        raise HandfulError("bench epoch measures against PyG: pip install 'handful[pyg]'") from error

    data = to_pyg(graph)

    def way(csr: bool) -> Callable[[], None]:
        torch.manual_seed(seed)
        model = pyg_model(SAGEConv, layer_widths(graph, hidden, layers), torch.nn.BatchNorm1d, 0.5)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def epoch() -> None:
            model.train()
            for batch in RandomNodeLoader(data, parts, shuffle=True):
                edges = batch.edge_index
                if csr:  # rows are targets
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # CSR tensors are in beta
                        edges = to_torch_csr_tensor(edges.flip(0), size=(batch.num_nodes, batch.num_nodes))
                optimizer.zero_grad()
                loss = node_loss(model(batch.x, edges)[batch.train_mask], batch.y[batch.train_mask])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()

        return epoch

    return {"pyg_edge_index": way(csr=False), "pyg_csr": way(csr=True)}


def layer_widths(graph: Graph, hidden: int, layers: int) -> list[int]:
    """How many numbers a node has before, between and after the layers."""
    return [graph.num_features, *[hidden] * (layers - 1), graph.num_outputs]


def pyg_model(
    conv: Callable[[int, int], nn.Module], widths: list[int], norm: Callable[[int], nn.Module], dropout: float
) -> nn.Module:
    """The same model as a PyG user writes it."""
    from torch import nn
    from torch.nn import functional as F

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
                    x = F.dropout(F.relu(self.norms[i](x)), dropout, self.training)
            return x

    return Model()


def handful_epochs(graph: Graph, parts: int, hidden: int, layers: int, seed: int) -> dict[str, Callable[[], None]]:
    """The training loop itself, without evaluation."""
    import torch

    from handful.nn import make_model
    from handful.samplers import RandomNodes
    from handful.training.fit import Settings, begin, train_epoch

    def way(precision: str) -> Callable[[], None]:
        torch.manual_seed(seed)
        model = make_model("sage", graph.num_features, graph.num_outputs, hidden=hidden, layers=layers, residual=True)
        loop = begin(model, graph, RandomNodes(parts), Settings(precision=precision, seed=seed))

        def epoch() -> None:
            train_epoch(loop)
            loop.epoch += 1

        return epoch

    return {f"handful_{precision}": way(precision) for precision in ("fp32", "bf16")}


def floor_epochs(graph: Graph, parts: int, hidden: int, layers: int) -> dict[str, Callable[[], None]]:
    """The dense products of an epoch on buffers that are already there."""
    import torch

    widths = layer_widths(graph, hidden, layers)
    rows = -(-graph.num_nodes // parts)

    def way(dtype: torch.dtype) -> Callable[[], None]:
        def random(*shape: int) -> Tensor:
            return torch.randn(*shape).to(dtype)

        h = [random(rows, width) for width in widths]
        grads = [torch.empty_like(t) for t in h]
        weights = [random(a, b) for a, b in pairwise(widths)]
        steps = [torch.empty_like(w) for w in weights]

        @torch.no_grad()
        def epoch() -> None:
            # Each layer has two products, of the neighbours and of the node itself; its input needs no gradient below.
            for _ in range(2 * parts):
                for i, weight in enumerate(weights):
                    torch.mm(h[i], weight, out=grads[i + 1])
                for i in reversed(range(len(weights))):
                    torch.mm(h[i].T, h[i + 1], out=steps[i])
                    if i:
                        torch.mm(h[i + 1], weights[i].T, out=grads[i])

        return epoch

    return {"floor_fp32": way(torch.float32), "floor_bf16": way(torch.bfloat16)}


# -- where the time goes ----------------------------------------------------------------------------------------------


def profile(epoch: Callable[[], None]) -> dict[str, float]:
    """The share of an epoch's time that each of ``PIECES`` takes in the main thread; the rest is ``other``."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else the profiler writes to stderr
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as torch_profile

    with torch_profile(activities=[ProfilerActivity.CPU]) as record:
        begin = perf_counter()
        epoch()
        wall = perf_counter() - begin
    total: dict[str, float] = defaultdict(float)
    for event in record.key_averages():
        for piece, names in PIECES.items():
            if any(name in event.key for name in names):
                total[piece] += event.self_cpu_time_total / 1e6
                break
    shares = {piece: total[piece] / wall for piece in PIECES}
    return {**shares, "other": max(0.0, 1.0 - sum(shares.values()))}


def _show(result: dict[str, Any]) -> None:
    table = Table(
        title=f"A training epoch on {result['graph']}: {result['nodes']:,} nodes, {result['edges']:,} edges, "
        f"{result['parts']} parts, {result['threads']} threads",
        caption=f"Median of {result['rounds']}; shares of time are those of one profiled epoch.",
    )
    for column in ("", "seconds", "over its floor", "PyG CSR over it", *PIECES, "other"):
        table.add_column(column, justify="left" if column == "" else "right")
    seconds = result["seconds"]
    for name, label in LABELS.items():
        floor = seconds["floor_bf16" if name.endswith("bf16") else "floor_fp32"]
        table.add_row(
            label,
            f"{seconds[name]:.3f}",
            f"{seconds[name] / floor:.2f}",
            f"{seconds['pyg_csr'] / seconds[name]:.2f}",
            *(f"{100 * share:.0f} %" for share in result["pieces"][name].values()),
        )
    out.print(table)
