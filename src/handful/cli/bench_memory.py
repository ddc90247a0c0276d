"""``handful bench memory``: the peak memory and the time of a training epoch, each way in a process of its own.

What is reported is the largest resident size above that of the loaded graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from handful.cli.app import (
    GRAPH_HELP,
    HiddenOption,
    JsonOption,
    LayersOption,
    ThreadsOption,
    bench,
    console,
    emit_json,
    out,
)

if TYPE_CHECKING:
    from handful.graph import Graph

WAYS = {
    "pyg_full": "PyG, full graph",
    "pyg_rns": "PyG, random parts",
    "handful_full": "handful, full graph",
    "handful_rns": "handful, random parts",
    "handful_rns_untrimmed": "handful, random parts, untrimmed",
    "handful_rns_bf16": "handful, random parts, bf16",
}
SMALL = "synthetic?nodes=2000&degree=5&features=8&classes=3"
"""A graph on which each way is run first, so that compiling is not measured."""


@dataclass(frozen=True)
class Shape:
    """What is trained."""

    graph: str
    parts: int
    model: str
    hidden: int
    layers: int
    norm: str
    dropout: float
    pyg_steps: int
    threads: int
    seed: int


@bench.command("memory")
def bench_memory(
    graph: Annotated[
        str, typer.Option(help=GRAPH_HELP)
    ] = "synthetic?nodes=245000&degree=50&features=100&classes=47&train=0.08&val=0.02",
    parts: Annotated[int, typer.Option(help="m, the number of parts.", min=1)] = 10,
    model: Annotated[str, typer.Option(help="sage or gat.")] = "sage",
    hidden: HiddenOption = 256,
    layers: LayersOption = 5,
    norm: Annotated[str, typer.Option(help="bn or ln.")] = "ln",
    dropout: Annotated[float, typer.Option(help="Share of activations dropped.")] = 0.3,
    ways: Annotated[str, typer.Option(help=f"Some of {','.join(WAYS)}.")] = ",".join(WAYS),
    pyg_steps: Annotated[
        int, typer.Option(help="How many parts PyG trains on; the rest is taken to last as long. 0 for all.", min=0)
    ] = 0,
    seed: Annotated[int, typer.Option(help="Of weights, parts and dropout.")] = 42,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Peak memory of full-graph and random-part epochs, PyG's and ours, each in its own process."""
    from handful.errors import HandfulError, unknown
    from handful.kernels.threads import get_threads

    chosen = [way.strip() for way in ways.split(",") if way.strip()]
    for way in chosen:
        if way not in WAYS:
            raise HandfulError(unknown("way", way, WAYS))
    for option, value, known in (("model", model, ("sage", "gat")), ("norm", norm, ("bn", "ln"))):
        if value not in known:
            raise HandfulError(unknown(option, value, known))
    shape = Shape(graph, parts, model, hidden, layers, norm, dropout, pyg_steps or parts, get_threads(), seed)
    results: dict[str, dict[str, float] | None] = {}
    for way in chosen:
        with console.status(f"{WAYS[way]}…"):
            results[way] = in_own_process(way, shape)
    payload = {"shape": asdict(shape), "ways": results}
    emit_json(payload) if as_json else out.print(_table(payload))


def in_own_process(way: str, shape: Shape) -> dict[str, float] | None:
    """Seconds an epoch and bytes above the graph; ``None`` where the system ended the process for want of memory."""
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(way, shape, theirs), name=f"bench-{way}")
    process.start()
    theirs.close()
    try:
        answer = ours.recv()
    except EOFError:
        answer = None
    process.join()
    if isinstance(answer, Exception):
        raise answer
    return answer  # type: ignore[no-any-return]


def _child(way: str, shape: Shape, answer: Connection) -> None:
    from handful.errors import HandfulError

    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # if memory runs out, this is the process to end
    except OSError:
        pass
    try:
        answer.send(measure(way, shape))
    except HandfulError as error:
        answer.send(error)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        answer.send(None)


def measure(way: str, shape: Shape) -> dict[str, float]:
    """Train one epoch in this process."""
    from handful.datasets import load
    from handful.kernels.threads import set_threads
    from handful.training.memory import peak_ram, resting_ram

    set_threads(shape.threads)
    make = pyg_epoch if way.startswith("pyg") else handful_epoch
    make(load(SMALL), way, shape)()
    graph = load(shape.graph)
    epoch = make(graph, way, shape)
    before, start = resting_ram(), perf_counter()
    share = epoch()
    seconds = (perf_counter() - start) / share
    return {
        "seconds": seconds,
        "peak_rss_bytes": peak_ram(),
        "graph_rss_bytes": before,
        "above_graph_bytes": peak_ram() - before,
    }


def handful_epoch(graph: Graph, way: str, shape: Shape) -> Callable[[], float]:
    """One epoch of the training loop; the share of an epoch that it was."""
    import torch

    from handful.nn import make_model
    from handful.samplers import FullGraph, RandomNodes
    from handful.training.fit import Settings, begin, train_epoch

    torch.manual_seed(shape.seed)
    model = make_model(
        shape.model,
        graph.num_features,
        graph.num_outputs,
        hidden=shape.hidden,
        layers=shape.layers,
        norm=shape.norm,
        dropout=shape.dropout,
        residual=True,
    )
    settings = Settings(
        precision="bf16" if way.endswith("bf16") else "fp32", trim=not way.endswith("untrimmed"), seed=shape.seed
    )
    sampler = FullGraph() if "full" in way else RandomNodes(shape.parts)
    loop = begin(model, graph, sampler, settings)

    def epoch() -> float:
        train_epoch(loop)
        return 1.0

    return epoch


def pyg_epoch(graph: Graph, way: str, shape: Shape) -> Callable[[], float]:
    """PyG on ``edge_index``, for as many parts as were asked for; the share of an epoch that they are."""
    import torch

    from handful.cli.bench_epoch import layer_widths, pyg_model
    from handful.convert import to_pyg
    from handful.errors import HandfulError
    from handful.training.loss import node_loss

    try:
        from torch_geometric.loader import RandomNodeLoader
        from torch_geometric.nn import GATConv, SAGEConv
    except ImportError as error:
        raise HandfulError("bench memory measures against PyG: pip install 'handful[pyg]'") from error

    torch.manual_seed(shape.seed)
    widths = layer_widths(graph, shape.hidden, shape.layers)
    norm = torch.nn.LayerNorm if shape.norm == "ln" else torch.nn.BatchNorm1d
    model = pyg_model({"sage": SAGEConv, "gat": GATConv}[shape.model], widths, norm, shape.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = to_pyg(graph)
    parts = 1 if "full" in way else shape.parts

    def epoch() -> float:
        done = 0
        for batch in [data] if parts == 1 else RandomNodeLoader(data, parts, shuffle=True):
            optimizer.zero_grad()
            loss = node_loss(model(batch.x, batch.edge_index)[batch.train_mask], batch.y[batch.train_mask])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            done += 1
            if done == min(parts, shape.pyg_steps):
                break
        return done / parts

    return epoch


def _table(payload: dict[str, Any]) -> Table:
    shape = payload["shape"]
    what = f"{shape['layers']}×{shape['hidden']} {shape['model']} ({shape['norm']})"
    table = Table(title=f"An epoch of {what}, {shape['parts']} parts, {shape['threads']} threads\n{shape['graph']}")
    for column in ("", "seconds", "above the graph, GiB", "the graph, GiB"):
        table.add_column(column, justify="right" if column else "left")
    for way, row in payload["ways"].items():
        if row is None:
            table.add_row(WAYS[way], "does not fit", "", "")
            continue
        sizes = (f"{row[key] / 2**30:.2f}" for key in ("above_graph_bytes", "graph_rss_bytes"))
        table.add_row(WAYS[way], f"{row['seconds']:.2f}", *sizes)
    return table
