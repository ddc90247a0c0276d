from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from handful.datasets import registry
from handful.datasets.registry import Query, Source, load, sources
from handful.errors import DatasetError
from handful.graph import Graph

EDGES = np.array([[0, 1, 2, 3], [1, 0, 3, 2]])


@dataclass(frozen=True)
class Options:
    size: int = 4
    noise: float = 0.5
    hard: bool = False
    file: str | None = None


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Query]:
    """Sources that note what they were asked for."""
    queries: list[Query] = []

    def loader(query: Query) -> Graph:
        queries.append(query)
        return Graph.from_edge_index(EDGES, y=torch.tensor([0, 1, 0, 1]))

    known = (
        Source("plain", "a test", loader, splits=("first", "second"), options=Options),
        Source("family", "many tests", loader, scheme=True),
        Source("bare", "no splits", loader),
    )
    monkeypatch.setattr(registry, "sources", lambda: {s.name: s for s in known})
    return queries


def test_what_a_loader_is_asked_for(asked: list[Query], tmp_path: Path) -> None:
    load("plain?size=1e3&noise=0.25&hard=true&file=a b.npz", root=tmp_path, seed=7)
    load("plain", split="second")
    load("family:Some/Name", root=tmp_path)
    assert asked[0].options == Options(1000, 0.25, True, "a b.npz")
    assert (asked[0].split, asked[0].seed, asked[0].home) == ("first", 7, tmp_path)
    assert (asked[1].split, asked[1].options) == ("second", Options())
    assert (asked[2].rest, asked[2].split, asked[2].options) == ("Some/Name", None, None)


def test_a_split_to_draw_replaces_the_own_one(asked: list[Query]) -> None:
    graph = load("plain", split="stratified:50/50/0", seed=1)
    assert asked[0].split == "first"
    assert graph.train_mask is not None
    assert int(graph.train_mask.sum()) == 2


def test_splits_of_families_and_of_sources_without_any(asked: list[Query]) -> None:
    assert load("family:a", split="geom").train_mask is None
    mask = load("bare", split="rh").train_mask
    assert mask is not None
    assert int(mask.sum()) == 2
    assert [query.split for query in asked] == ["geom", None]


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("plane", None, "did you mean plain"),
        ("nothing-like-it", None, "choose from bare, family:…, plain"),
        ("plain:rest", None, "no data set or file 'plain:rest'"),
        ("plain", "third", "no split 'third'"),
        ("plain?sise=3", None, "no option 'sise': did you mean size"),
        ("plain?size=3.5", None, "size must be a whole number, got 3.5"),
        ("plain?size=inf", None, "size must be a whole number"),
        ("plain?noise=loud", None, "noise must be a finite number, got 'loud'"),
        ("plain?hard=perhaps", None, "hard must be true or false"),
        ("plain?size", None, "option=value"),
        ("family:x?a=1", None, "takes no options"),
        ("family:", None, "write family:NAME"),
        ("plain", "random:9/9", "random:60/20/20"),
    ],
)
def test_mistakes_are_one_line_that_helps(asked: list[Query], name: str, split: str | None, message: str) -> None:
    with pytest.raises(DatasetError, match=message.replace("?", r"\?")) as error:
        load(name, split=split)
    assert "\n" not in str(error.value)


def test_a_path_is_read_as_a_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", edge_index=EDGES, x=np.eye(4, dtype=np.float32), y=np.array([0, 1, 0, 1]))
    graph = load(tmp_path / "mine.npz")
    assert (graph.num_nodes, graph.num_edges, graph.train_mask) == (4, 4, None)
    split = load(str(tmp_path / "mine.npz"), split="rh", seed=3)
    assert split.train_mask is not None
    assert int(split.train_mask.sum()) == 2


def test_every_source_is_described() -> None:
    for name, source in sources().items():
        assert name == source.name
        assert source.description
        assert "\n" not in source.description


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "~nobody-of-this-name", "\ud800", "", "debian/none", "."])
def test_what_cannot_be_a_graph_is_a_name_that_does_not_exist(name: str) -> None:
    with pytest.raises(DatasetError):
        load(name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": 7}, "a graph is given by its name or path, got 7"),
        ({"name": "debian", "split": 7}, "split takes a name"),
        ({"name": "debian", "seed": -1}, "seed must be a whole number from 0"),
        ({"name": "debian", "seed": 2**63}, "seed must be a whole number from 0"),
        ({"name": "debian", "seed": 1.5}, "seed must be a whole number from 0"),
        ({"name": "debian", "seed": None}, "seed must be a whole number from 0"),
        ({"name": "synthetic?nodes=100&nodes=200"}, "an option is given twice"),
        ({"name": "synthetic?nodes="}, "option nodes must be a whole number, got ''"),
    ],
)
def test_arguments_of_other_types(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        load(**arguments)  # type: ignore[arg-type]


def test_large_whole_numbers_are_exact() -> None:
    first, second = (load(f"synthetic?nodes=100&degree=2&seed={2**62 - k}") for k in (0, 1))
    assert first.checksum != second.checksum
