"""Each kernel against what it replaces, by turns in one process: ``python benchmarks/kernels.py [rows] [edges]``.

Forward and backward of one layer of width 256, medians in milliseconds. Ratios are what to read: the machine's load
moves all columns together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn import GATConv
from torch_geometric.utils import scatter

from handful.adjacency import Adjacency
from handful.kernels import csr
from handful.kernels.activation import batch_norm_act, layer_norm_act
from handful.kernels.aggregate import Scaled, spmm_torch
from handful.kernels.attention import attention
from handful.kernels.linear import linear
from handful.random import generator

WIDTH, ROUNDS = 256, 7
Piece = Callable[[Tensor], Tensor]


def undirected(rows: int, edges: int) -> Adjacency:
    """Random edges in both directions."""
    half = generator(0).integers(0, rows, (2, edges // 2))
    indptr, indices, _ = csr.coo_to_csr(half.flatten(), half[::-1].flatten(), rows, rows)
    return Adjacency(torch.from_numpy(indptr), torch.from_numpy(indices), rows, symmetric=True)


def pieces(adj: Adjacency) -> dict[str, dict[str, Piece]]:
    """What is measured: for each piece, the ways to compute it."""
    gat = GATConv(WIDTH, WIDTH, bias=False)
    weight, bias = torch.ones(WIDTH, requires_grad=True), torch.zeros(WIDTH, requires_grad=True)
    dense = torch.randn(WIDTH, WIDTH, requires_grad=True)
    sources, targets = adj.edge_index

    def gather_scatter(x: Tensor) -> Tensor:
        return scatter(x[sources], targets, dim_size=adj.num_targets, reduce="mean")

    def torch_csr(x: Tensor) -> Tensor:
        return _Symmetric.apply(x, adj)

    def gat_kernel(x: Tensor) -> Tensor:
        h = linear(x, gat.lin.weight).view(-1, 1, WIDTH)
        scores = ((h * weight.to(h)).sum(-1) for weight in (gat.att_src, gat.att_dst))
        return attention(adj, h, *scores).flatten(1)

    def torch_batch(x: Tensor) -> Tensor:
        return F.dropout(F.batch_norm(x, None, None, weight.to(x), bias.to(x), True).relu(), 0.5)

    def torch_layer(x: Tensor) -> Tensor:
        return F.dropout(F.layer_norm(x, (WIDTH,), weight.to(x), bias.to(x)).relu(), 0.5)

    return {
        "mean of neighbours": {"gather and scatter": gather_scatter, "torch CSR": torch_csr, "handful": adj.mean},
        "attention, 1 head": {"PyG GATConv": lambda x: gat(x, adj.edge_index), "handful": gat_kernel},
        "BatchNorm, ReLU, dropout": {
            "torch": torch_batch,
            "handful": lambda x: batch_norm_act(x, weight, bias, None, None, True, p=0.5, seed=1),
        },
        "LayerNorm, ReLU, dropout": {
            "torch": torch_layer,
            "handful": lambda x: layer_norm_act(x, weight, bias, p=0.5, training=True, seed=1),
        },
        "Linear": {"torch": lambda x: F.linear(x, dense.to(x.dtype)), "handful": lambda x: linear(x, dense)},
    }


class _Symmetric(torch.autograd.Function):
    """torch's CSR product with its own transpose as backward: the best that it can do on an undirected graph."""

    @staticmethod
    def forward(ctx: object, x: Tensor, adj: Adjacency) -> Tensor:
        ctx.adj = adj  # type: ignore[attr-defined]
        return spmm_torch(Scaled(adj.indptr, adj.indices, None, adj.mean_scale), x)

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> tuple[Tensor, None]:
        adj: Adjacency = ctx.adj  # type: ignore[attr-defined]
        return spmm_torch(Scaled(adj.indptr, adj.indices, None, None, adj.mean_scale), grad), None


def milliseconds(ways: dict[str, Piece], x: Tensor) -> dict[str, float]:
    """Forward and backward of every way, by turns."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    grad = torch.randn_like(x)
    for k in range(ROUNDS + 1):
        for name, way in ways.items():
            start = perf_counter()
            way(x).backward(grad)
            if k:
                times[name].append(1e3 * (perf_counter() - start))
            x.grad = None
    return {name: median(values) for name, values in times.items()}


def main(rows: int = 42_000, edges: int = 400_000) -> None:
    adj = undirected(rows, edges)
    columns = {"fp32": torch.float32, "bf16": torch.bfloat16}
    print(f"{rows} rows, {edges} edges, {torch.get_num_threads()} threads")
    print(f"{'':46}" + "".join(f"{name:>12}" for name in columns))
    for piece, ways in pieces(adj).items():
        table: dict[str, list[str]] = {name: [] for name in ways}
        for dtype in columns.values():
            fit = {
                name: way for name, way in ways.items() if dtype == torch.float32 or name in ("handful", "torch")
            }  # PyG's layers take one type
            took = milliseconds(fit, torch.randn(rows, WIDTH).to(dtype).requires_grad_())
            for name in ways:
                table[name].append(f"{took[name]:12.1f}" if name in took else f"{'':>12}")
        for name, cells in table.items():
            print(f"{piece:26}{name:20}" + "".join(cells))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
