"""Batches with stand-ins: numba and torch against each other, and against loops."""

from __future__ import annotations

import pytest
import torch

from handful.kernels.dispatch import use
from handful.kernels.stand_in import add_stand_ins, gather_hops

ROWS, TARGETS = 40, 30
Drawn = tuple[tuple[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor, torch.Tensor]


@pytest.fixture
def drawn() -> Drawn:
    """The edges of a sample, the factors of its rows, and the shares of a stand-in for each third row."""
    count = torch.randint(0, 5, (TARGETS,))
    edges = torch.cat([torch.zeros(1, dtype=torch.int64), count.cumsum(0)]), torch.randint(0, ROWS, (int(count.sum()),))
    share = torch.zeros(TARGETS).index_fill_(0, torch.arange(0, TARGETS, 3), 0.25)
    return (*edges, torch.rand(len(edges[1]))), torch.rand(TARGETS), share


@pytest.mark.parametrize("ends", [[ROWS, TARGETS, 0], [ROWS, TARGETS, 20, 0], [TARGETS, TARGETS, TARGETS, 7, 0]])
@pytest.mark.parametrize("weighted", [False, True])
def test_edges_are_renumbered_and_each_stand_in_has_one(drawn: Drawn, ends: list[int], weighted: bool) -> None:
    (begin, sources, values), scale, share = drawn
    sources = sources % ends[0]
    edges = begin, sources, values if weighted else None
    result = add_stand_ins(edges, scale, share, ends)
    with use("torch"):
        twin = add_stand_ins(edges, scale, share, ends)
    for one, other in zip(result, twin, strict=True):
        torch.testing.assert_close(one, other)
    rows, level, sizes = result[:3]
    needed = torch.tensor([sum(int(v) < end for end in ends[level[i] :]) for i, v in enumerate(rows)])
    assert (needed.diff() <= 0).all()
    assert sizes == [int((needed >= i).sum()) for i in range(1, len(ends))]
    assert sorted(rows[level == 0].tolist()) == list(range(ends[0]))
    assert sorted(rows[level == 1].tolist()) == list(range(0, TARGETS, 3))
    dense = torch.zeros(sizes[1], sizes[0])
    for i in range(sizes[1]):
        v = int(rows[i])
        if level[i]:
            dense[i, i] = 1
            continue
        for e in range(int(begin[v]), int(begin[v + 1])):
            at = int(((rows == sources[e]) & (level == 0)).nonzero())
            dense[i, at] += scale[v] * (values[e] if weighted else 1)
        dense[i, (rows == v) & (level == 1)] += share[v]
    of_row = torch.repeat_interleave(torch.arange(sizes[1]), result.indptr.diff())
    ours = torch.zeros_like(dense).index_put_((of_row, result.indices), result.weight, accumulate=True)
    torch.testing.assert_close(ours, dense)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("features", [1, 5])
def test_rows_have_their_hop_and_those_with_edges_the_sum_over_them(
    drawn: Drawn, dtype: torch.dtype, features: int
) -> None:
    rows, level, sizes, indptr, indices, weight = add_stand_ins(*drawn, [ROWS, TARGETS, 20, 0])
    weight = weight.to(torch.float64 if dtype == torch.float64 else torch.float32)
    x = torch.randn(ROWS, 3 * features).to(dtype)
    hops = x.double().view(ROWS, 3, features)
    around = hops[rows, level + 1]
    for i in (level[: sizes[1]] == 0).nonzero().squeeze(1).tolist():
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
