"""Batches and inference on graphs in shards are those of one process."""

from __future__ import annotations

from functools import cache

import pytest
import torch

import ranks_jobs
from in_ranks import Launch, shared_launch
from training.test_group import assert_same

__all__ = ["shared_launch"]


def test_the_batches_are_those_of_one_process_byte_for_byte(shared_launch: Launch) -> None:
    expected = ranks_jobs.batches(shared_launch.folder)
    found = shared_launch["batches"]
    assert all(set(one) == set(expected) for one in found)
    for name, checksums in expected.items():
        owned = list(zip(*(one[name] for one in found), strict=True))
        assert all(sum(bool(text) for text in of_batch) == 1 for of_batch in owned), name
        assert ["".join(of_batch) for of_batch in owned] == checksums, name


in_one_process = cache(ranks_jobs.sharded)


@pytest.mark.parametrize("model", ["gcn", "sage", "gat", "graphland-sage"])
def test_a_run_comes_to_what_one_process_comes_to(shared_launch: Launch, model: str) -> None:
    expected = in_one_process(shared_launch.folder)[model]
    logits = []
    for found in (one[model] for one in shared_launch["sharded"]):
        assert_same(found, expected)
        assert found["checksums"] == expected["checksums"]
        assert found["identity"] == expected["identity"]
        lo, hi = found["rows"]
        assert torch.allclose(found["logits"], expected["logits"][lo:hi], atol=1e-4)
        logits.append(found["logits"])
    assert sum(map(len, logits)) == len(expected["logits"])
