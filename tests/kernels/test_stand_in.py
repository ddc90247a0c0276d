"""Batches with stand-ins: numba and torch against each other, and against loops."""

from __future__ import annotations

import pytest
import torch

from handful.kernels.dispatch import use
from handful.kernels.stand_in import add_stand_ins, gather_hops

ROWS, TARGETS = 40, 30


@pytest.fixture
def drawn() -> tuple[tuple[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor, torch.Tensor, torch.Tensor]:
    """The edges of a sample, a batch with a stand-in for each third row, and the shares."""
    count = torch.randint(0, 5, (TARGETS,))
    edges = torch.cat([torch.zeros(1, dtype=torch.int64), count.cumsum(0)]), torch.randint(0, ROWS, (int(count.sum()),))
    served = torch.arange(0, TARGETS, 3)
    rows = torch.cat([torch.arange(TARGETS), served, torch.arange(TARGETS, ROWS)])
    level = torch.cat([torch.zeros(TARGETS), torch.ones(len(served)), torch.zeros(ROWS - TARGETS)]).long()
    share = torch.zeros(TARGETS).index_fill_(0, served, 0.25)
    return (*edges, torch.rand(len(edges[1]))), rows, level, share


@pytest.mark.parametrize("targets", [TARGETS, TARGETS + 10])
def test_edges_are_renumbered_and_each_stand_in_has_one(drawn: tuple, targets: int) -> None:
    edges, rows, level, share = drawn
    result = add_stand_ins(edges, rows, level, targets, share)
    with use("torch"):
        twin = add_stand_ins(edges, rows, level, targets, share)
    for one, other in zip(result, twin, strict=True):
        torch.testing.assert_close(one, other)
    dense = torch.zeros(targets, len(rows))
    for i in range(targets):
        v = int(rows[i])
        if level[i]:
            dense[i, i] = 1
            continue
        for e in range(int(edges[0][v]), int(edges[0][v + 1])):
            dense[i, int(((rows == edges[1][e]) & (level == 0)).nonzero())] += edges[2][e] * (1 - share[v])
        dense[i, (rows == v) & (level == 1)] += share[v]
    of_row = torch.repeat_interleave(torch.arange(targets), result[0].diff())
    ours = torch.zeros(targets, len(rows)).index_put_((of_row, result[1]), result[2], accumulate=True)
    torch.testing.assert_close(ours, dense)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("features", [1, 5])
def test_rows_have_their_hop_and_those_with_edges_the_sum_over_them(
    drawn: tuple, dtype: torch.dtype, features: int
) -> None:
    edges, rows, level, share = drawn
    indptr, indices, weight = add_stand_ins(edges, rows, level, TARGETS + 10, share)
    weight = weight.to(torch.float64 if dtype == torch.float64 else torch.float32)
    x = torch.randn(ROWS, 3 * features).to(dtype)
    hops = x.double().view(ROWS, 3, features)
    around = hops[rows, level + 1]
    for i in (level[: TARGETS + 10] == 0).nonzero().squeeze(1).tolist():
        at = slice(int(indptr[i]), int(indptr[i + 1]))
        ends = indices[at].long()
        around[i] = (weight[at, None].double() * hops[rows[ends], level[ends]]).sum(0)
    expected = torch.cat([hops[rows, level], around], 1).to(dtype)
    for which in ("numba", "torch"):
        with use(which):
            result = gather_hops(x, rows, level, features, (indptr, indices, weight))
        # A row has at most five terms below 4 in size; the twins add them in any order.
        torch.testing.assert_close(result, expected, rtol=0, atol=5 * 4 * 5 * torch.finfo(dtype).eps)


def test_a_row_that_is_not_there_is_refused() -> None:
    edges = torch.tensor([0, 0]), torch.empty(0, dtype=torch.int64), torch.empty(0)
    with pytest.raises(IndexError):
        gather_hops(torch.zeros(2, 3), torch.tensor([2]), torch.tensor([0]), 1, edges)
