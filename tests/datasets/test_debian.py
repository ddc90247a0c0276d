from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
import torch

from handful.datasets import debian, load
from handful.datasets.registry import sources
from handful.errors import DatasetError
from handful.graph import MASKS, Graph
from scripts import script

builder = script("build_debian", "examples")

FROZEN = Path(__file__).parents[3] / "shared" / "data" / "debian" / "Packages.xz"

INDEX = """\
Package: beta
Version: 1
Depends: alpha (>= 1.0), gamma:any | delta [amd64], mail-agent
Description: a tool for editing text
 A long text that must not be used: zebra.
Section: contrib/text

Package: alpha
Suggests: beta, alpha, missing
Description: library for editing text
Section: libs
Tag: role::shared-lib,
 devel::library

Package: gamma
Provides: mail-agent
Pre-Depends: delta
Description: text editing library
Section: libs

Package: beta
Version: 2
Enhances: gamma
Description: a tool for editing text
Section: text

Package: delta
Description: (unusual)
Section: libs
"""


@pytest.fixture(scope="module")
def graph() -> Graph:
    return load("debian", split="rh")


def write(path: Path, text: str = INDEX) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_index_to_packages(tmp_path: Path) -> None:
    packages = builder.read_index(write(tmp_path / "Packages"))
    assert [p.name for p in packages] == ["alpha", "beta", "delta", "gamma"]
    assert [p.section for p in packages] == ["libs", "text", "libs", "libs"]
    assert packages[1].related == {"alpha", "gamma", "delta", "mail-agent"}
    assert packages[1].description == "a tool for editing text"


@pytest.mark.parametrize("opener", [gzip.open, lzma.open])
def test_index_may_be_packed(tmp_path: Path, opener: object) -> None:
    with opener(tmp_path / "packed", "wt", encoding="utf-8") as file:  # type: ignore[operator]
        file.write(INDEX)
    assert builder.read_index(tmp_path / "packed") == builder.read_index(write(tmp_path / "plain"))


def test_built_file_is_the_graph_of_the_index(tmp_path: Path) -> None:
    out = tmp_path / "small.npz"
    assert builder.main([str(write(tmp_path / "Packages")), str(out)]) == 0
    small = load(f"debian?file={out}", split="rh")
    # alpha–beta, beta–delta, beta–gamma, delta–gamma: no loop, no virtual package, nothing that is missing.
    assert sorted(map(tuple, small.edge_index.t().tolist())) == sorted(
        [(0, 1), (1, 0), (1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)]
    )
    assert small.class_names == ("libs", "text")
    assert small.y is not None
    assert small.y.tolist() == [0, 1, 0, 0]
    assert small.ids is not None
    assert small.ids.tolist() == ["alpha", "beta", "delta", "gamma"]
    assert small.x is not None
    assert torch.equal(small.x[2], torch.zeros(small.num_features))  # no word of delta is common
    assert sorted(p.name for p in tmp_path.iterdir()) == ["Packages", "small.npz"]


def test_features_are_the_projected_words(tmp_path: Path) -> None:
    packages = builder.read_index(write(tmp_path / "Packages"))
    arrays = builder.build(packages)
    assert arrays["words"].tobytes().decode().split() == ["editing", "text"]
    x = debian.description_features(arrays)
    # The three packages hold the same two common words, so they cannot be told apart.
    assert torch.equal(x[0], x[1])
    assert torch.equal(x[0], x[3])
    assert float(x[0].square().mean()) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no package"),
        ("Package: a\nSection: b\n", "line 1: the stanza has no Description"),
        ("Package: a\nSection: b\nDescription: c\n\nPackage: d\n", "line 5: the stanza has no Section"),
        ("this is not an index\n", "line 1: expected 'Field: value'"),
        ("Package: a\nPackage: b\n", "line 2: expected 'Field: value'"),
        ("Package: a\nSection: b\nDescription: some words\n", "too few to make features"),
    ],
)
def test_broken_index(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        builder.build(builder.read_index(write(tmp_path / "Packages", text)))


def test_index_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cut.xz").write_bytes(lzma.compress(INDEX.encode())[:-30])
    assert builder.main([str(tmp_path / "cut.xz"), str(tmp_path / "out.npz")]) == 2
    assert builder.main([str(tmp_path / "none"), str(tmp_path / "out.npz")]) == 2
    assert builder.main([]) == 2
    assert capsys.readouterr().err.count("cannot be read") == 2
    assert not (tmp_path / "out.npz").exists()


def test_file_that_is_not_ours(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="does not exist"):
        load(f"debian?file={tmp_path}/none.npz")
    np.savez(tmp_path / "other.npz", a=np.arange(3))
    (tmp_path / "text.npz").write_text("hello")
    for name, message in (("other", "build it with"), ("text", "cannot be read")):
        with pytest.raises(DatasetError, match=message):
            load(f"debian?file={tmp_path}/{name}.npz")
    arrays = builder.build(builder.read_index(write(tmp_path / "Packages")))
    builder.save_arrays(arrays | {"word_gaps": arrays["word_gaps"] + 9}, tmp_path / "bad.npz")
    with pytest.raises(DatasetError, match="not in its vocabulary"):
        load(f"debian?file={tmp_path}/bad.npz")


def test_embedded_graph_has_the_known_size(graph: Graph) -> None:
    source = sources()["debian"]
    assert (graph.num_nodes, graph.num_edges) == (source.nodes, source.edges) == (63_436, 590_600)
    assert (graph.num_features, graph.num_classes) == (source.features, source.classes) == (128, 58)
    assert graph.undirected
    assert not graph.has_loops
    assert graph.coalesce().num_edges == graph.num_edges
    assert graph.y is not None
    sources_, targets = graph.edge_index
    assert float((graph.y[sources_] == graph.y[targets]).double().mean()) == pytest.approx(0.467, abs=0.001)


def test_embedded_names_stand_at_their_nodes(graph: Graph) -> None:
    assert graph.ids is not None
    place = {name: i for i, name in enumerate(graph.ids.tolist())}
    assert graph.class_names is not None
    assert graph.y is not None
    for name, section in [("bash", "shells"), ("libc6", "libs"), ("python3-numpy", "python"), ("gimp", "graphics")]:
        assert graph.class_names[graph.y[place[name]]] == section
    row = graph.indices[graph.indptr[place["python3-numpy"]] : graph.indptr[place["python3-numpy"] + 1]]
    assert place["python3-scipy"] in row.tolist()


@pytest.mark.parametrize(("split", "shares"), [("rh", (0.5, 0.25, 0.25)), ("rl", (0.1, 0.1, 0.8))])
def test_embedded_splits_are_stratified(split: str, shares: tuple[float, ...]) -> None:
    graph = load("debian", split=split)
    assert graph.y is not None
    total = torch.bincount(graph.y).double()
    for name, share in zip(MASKS, shares, strict=True):
        mask = getattr(graph, name)
        assert abs(int(mask.sum()) - share * graph.num_nodes) <= 1
        assert float((torch.bincount(graph.y[mask], minlength=58) - share * total).abs().max()) < 2


def test_embedded_features_tell_sections_apart_without_the_graph(graph: Graph) -> None:
    """The nearest class mean is right for far more than the 10.6% of the largest class."""
    assert graph.x is not None
    assert graph.y is not None
    assert graph.train_mask is not None
    assert graph.test_mask is not None
    means = torch.zeros(58, 128).index_add_(0, graph.y[graph.train_mask], graph.x[graph.train_mask])
    means /= means.norm(dim=1, keepdim=True)
    right = (graph.x[graph.test_mask] @ means.t()).argmax(1) == graph.y[graph.test_mask]
    assert float(right.double().mean()) > 0.4


@pytest.mark.slow
@pytest.mark.skipif(not FROZEN.exists(), reason="the frozen index is not here")
def test_embedded_file_is_what_the_frozen_index_builds(graph: Graph) -> None:
    arrays = builder.build(builder.read_index(FROZEN))
    rebuilt = debian.assemble(arrays, "rh")
    assert torch.equal(rebuilt.indptr, graph.indptr)
    assert torch.equal(rebuilt.indices, graph.indices)
    for name in ("y", *MASKS):
        assert torch.equal(getattr(rebuilt, name), getattr(graph, name))
    assert rebuilt.x is not None
    assert graph.x is not None
    # Singular vectors may turn a little with the linear algebra library; inner products stay.
    pick = torch.arange(0, graph.num_nodes, 50)
    assert torch.allclose(rebuilt.x[pick] @ rebuilt.x[pick].t(), graph.x[pick] @ graph.x[pick].t(), atol=1.0)
