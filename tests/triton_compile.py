"""Compile every launch of the Triton kernels for GPUs that are not here, and print how many there were.

It runs in a process of its own, without the interpreter. The functions are called with real tensors; in place of each
launch, the kernel is compiled for these arguments.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections import Counter
from typing import Any

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime import JITFunction

from handful.adjacency import Adjacency
from handful.kernels import activation, aggregate_triton, subgraph_triton
from handful.kernels.aggregate import Scaled
from handful.kernels.attention import attention
from handful.kernels.dispatch import use

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
BINARY = {"cuda": "cubin", "hip": "hsaco"}
NAMES = {
    torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16",
    torch.int32: "i32", torch.int64: "i64",
}  # fmt: skip
compiled: Counter[str] = Counter()
kernels: set[str] = set()
known: set[Any] = set()


def compile_for_all(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
    given = inspect.signature(self.fn).bind(*args, **options).arguments
    types, constants = {}, {}
    for place, parameter in enumerate(self.params):
        value = given[parameter.name]
        # As Triton does when it launches: a number 1 is a constant, others are as wide as they must be.
        if parameter.is_constexpr or value is None or (isinstance(value, int) and value == 1):
            types[parameter.name], constants[(place,)] = "constexpr", value
        elif isinstance(value, Tensor):
            types[parameter.name] = "*" + NAMES[value.dtype]
        else:
            types[parameter.name] = "i32" if -(2**31) <= value < 2**31 else "i64"
    told = self.fn.__qualname__, tuple(types.items()), tuple(constants.items())
    if told in known:
        return
    known.add(told)
    kernels.add(self.fn.__qualname__)
    for name, target in TARGETS.items():
        binary = triton.compile(ASTSource(self, types, constexprs=constants), target=target).asm[BINARY[target.backend]]
        assert len(binary) > 1000, (self.fn.__name__, name)
        compiled[name] += 1


def main(names: list[str]) -> None:
    JITFunction.run = compile_for_all
    indptr, indices = torch.tensor([0, 3, 3 + aggregate_triton.CHUNK + 5]), torch.zeros(3 + 1029, dtype=torch.int32)
    for dtype in (getattr(torch, name) for name in names):
        real = torch.float64 if dtype == torch.float64 else torch.float32
        x = torch.zeros(2, 96, dtype=dtype, requires_grad=True)
        weight, bias, scale, ends = (
            torch.ones(96, dtype=real),
            torch.ones(96, dtype=real),
            torch.ones(1032),
            torch.ones(2),
        )
        aggregate_triton.spmm(Scaled(indptr, indices), x)
        aggregate_triton.spmm(Scaled(indptr, indices, scale, ends, ends), x, torch.zeros(2, 96, dtype=dtype), bias)
        adj = Adjacency(indptr, indices, 2)
        with use("triton"):
            for out in (
                activation.batch_norm_act(x, weight, bias, None, None, True, p=0.5, seed=1),
                activation.layer_norm_act(x, weight, bias, p=0.5, training=True, seed=1),
                activation.act(x, 0.5, True, 1),
                activation.dropout(x, 0.5, True, 1),
                attention(adj, x.view(2, 2, 48), x[:, :2], x[:, 2:4]),
            ):
                out.sum().backward()
    part = torch.zeros(2, dtype=torch.uint8)
    for weighted in (False, True):
        list(subgraph_triton.parts(indptr, indices, part, 2, weighted))
    subgraph_triton.induced(indptr, indices, torch.tensor([1]))
    subgraph_triton.spread(indptr, indices, torch.zeros(2, dtype=torch.int32), 2)
    long = torch.tensor([0, len(indices)])  # a graph of one node: what is 1 is compiled as a constant
    aggregate_triton.spmm(Scaled(long, indices), torch.zeros(1, 96))
    list(subgraph_triton.parts(long, indices, part[:1], 1, False))
    subgraph_triton.spread(long, indices, torch.zeros(1, dtype=torch.int32), 1)
    print(json.dumps({"kernels": sorted(kernels), "compiled": compiled}))


if __name__ == "__main__":
    main(sys.argv[1:])
