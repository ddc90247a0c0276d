from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from handful.datasets import prepared as module
from handful.datasets.prepared import Built, is_prepared, prepared, prepared_splits
from handful.errors import DatasetError
from handful.graph import MASKS, Graph


def build() -> Built:
    graph = Graph.from_edge_index(np.array([[0, 1], [1, 2]]), 4, x=np.eye(4), y=[0, 1, 1, -1])
    masks = {m: torch.tensor([i == k for i in range(4)]) for k, m in enumerate(MASKS)}
    other = {m: masks[MASKS[(i + 1) % 3]] for i, m in enumerate(MASKS)}
    return graph, {"one": masks, "two": other}


def split_of(graph: Graph) -> list[list[int]]:
    return [getattr(graph, m).nonzero().squeeze(1).tolist() for m in MASKS]


def test_built_once_and_opened_after_that(tmp_path: Path) -> None:
    count = [0]

    def counted() -> Built:
        count[0] += 1
        return build()

    assert not is_prepared(tmp_path / "d")
    assert split_of(prepared(tmp_path / "d", counted, "one")) == [[0], [1], [2]]
    assert split_of(prepared(tmp_path / "d", counted, "two")) == [[1], [2], [0]]
    assert prepared(tmp_path / "d", counted, None).train_mask is None
    assert count == [1]
    assert is_prepared(tmp_path / "d")
    assert prepared_splits(tmp_path / "d") == ["one", "two"]


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> Built:
        raise DatasetError("no")

    with pytest.raises(DatasetError):
        prepared(tmp_path / "d", fail, None)
    assert not (tmp_path / "d").exists()


def test_where_nothing_can_be_kept_the_graph_is_built_anyway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError

    monkeypatch.setattr(module, "save", refuse)
    assert split_of(prepared(tmp_path / "d", build, "one")) == [[0], [1], [2]]
    assert not is_prepared(tmp_path / "d")


def test_a_broken_split_says_what_to_do(tmp_path: Path) -> None:
    prepared(tmp_path / "d", build, None)
    (tmp_path / "d" / "splits" / "one.npy").write_bytes(b"junk")
    with pytest.raises(DatasetError, match=r"one\.npy is missing or broken: remove .*d and load"):
        prepared(tmp_path / "d", build, "one")
