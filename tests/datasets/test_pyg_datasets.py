from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric import datasets as pyg

from handful.datasets.pyg_datasets import _convert
from handful.datasets.registry import load
from handful.errors import DatasetError, GraphError
from handful.graph import MASKS

SHARED = Path(__file__).parents[3] / "shared" / "data" / "pyg"
needs_data = pytest.mark.skipif(not SHARED.exists(), reason="the shared data are absent")


def copied(home: Path, name: str) -> Path:
    """The raw files of one data set, and nothing that PyG may have written beside them."""
    shutil.copytree(SHARED / name / "raw", home / "pyg" / name / "raw", copy_function=shutil.copyfile)
    return home


@needs_data
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes", "splits"),
    [
        ("Planetoid/Cora", 2_708, 2 * 5_278, 1_433, 7, [140, 500, 1000]),
        ("Planetoid/CiteSeer", 3_327, 2 * 4_552, 3_703, 6, [120, 500, 1000]),
        ("Planetoid/PubMed", 19_717, 2 * 44_324, 500, 3, [60, 500, 1000]),
        ("HeterophilousGraphDataset/tolokers", 11_758, 2 * 519_000, 10, 2, [5_879, 2_939, 2_940]),
        ("HeterophilousGraphDataset/minesweeper", 10_000, 2 * 39_402, 7, 2, [5_000, 2_500, 2_500]),
        ("Amazon/Photo", 7_650, 2 * 119_081, 745, 8, [3_825, 1_912, 1_913]),
        pytest.param(
            "Coauthor/Physics", 34_493, 2 * 247_962, 8_415, 5, [17_246, 8_623, 8_624], marks=pytest.mark.slow
        ),
    ],
)  # fmt: skip
def test_known_counts(
    tmp_path: Path, name: str, nodes: int, edges: int, features: int, classes: int, splits: list[int]
) -> None:
    home = copied(tmp_path, name)
    graph = load(f"pyg:{name}", root=home)
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (
        nodes,
        edges,
        features,
        classes,
    )
    assert graph.undirected
    assert [int(getattr(graph, m).sum()) for m in MASKS] == splits
    assert graph.metric == ("roc_auc" if "Heterophilous" in name else "accuracy")
    shutil.rmtree(home / "pyg" / name)  # Converted once: nothing of PyG's is needed any more.
    assert load(f"pyg:{name}", root=home).num_edges == edges


@needs_data
def test_folds_and_seeds(tmp_path: Path) -> None:
    name = "HeterophilousGraphDataset/minesweeper"
    home = copied(tmp_path, name)
    reference = pyg.HeterophilousGraphDataset(str(home / "pyg" / "HeterophilousGraphDataset"), "minesweeper")[0]
    first, fourth = load(f"pyg:{name}", root=home), load(f"pyg:{name}?fold=3", root=home)
    assert torch.equal(first.train_mask, reference.train_mask[:, 0])
    assert torch.equal(fourth.test_mask, reference.test_mask[:, 3])
    with pytest.raises(DatasetError, match="there is no fold 10: the data set has 10, counted from 0"):
        load(f"pyg:{name}?fold=10", root=home)
    home = copied(tmp_path, "Amazon/Photo")
    one, again, two = (load("pyg:Amazon/Photo", root=home, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.train_mask, again.train_mask)
    assert not torch.equal(one.train_mask, two.train_mask)
    assert int(load("pyg:Amazon/Photo", split="rl", root=home).train_mask.sum()) == 765
    with pytest.raises(DatasetError, match="split 'official' is unknown"):
        load("pyg:Amazon/Photo", split="official", root=home)
    with pytest.raises(DatasetError, match="there is no fold 0: the data set has 0"):
        load("pyg:Amazon/Photo?fold=0", root=home)


@needs_data
def test_a_root_that_holds_the_classes_themselves(tmp_path: Path) -> None:
    copied(tmp_path, "Planetoid/Cora")
    assert load("pyg:Planetoid/Cora", root=tmp_path / "pyg").num_nodes == 2_708


def test_a_data_set_without_files(tmp_path: Path) -> None:
    graph = load("pyg:KarateClub", root=tmp_path)
    assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (34, 156, 4)
    assert graph.train_nodes.tolist() == np.flatnonzero(pyg.KarateClub()[0].train_mask.numpy()).tolist()


def test_names_that_do_not_exist_or_do_not_fit(tmp_path: Path) -> None:
    for name, message in (
        ("pyg:Planetoit/Cora", "there is no data set in PyG 'Planetoit': did you mean Planetoid"),
        ("pyg:Planetoid", "is not complete: write pyg:Planetoid/NAME"),
        ("pyg:WikiCS/x", "WikiCS takes no name: write pyg:WikiCS"),
        ("pyg:", "is not complete"),
        ("pyg:Planetoid/../../x", "is not of the form pyg:CLASS or pyg:CLASS/NAME"),
        ("pyg:../x", "is not of the form pyg:CLASS or pyg:CLASS/NAME"),
    ):
        with pytest.raises(DatasetError, match=message) as caught:
            load(name, root=tmp_path)
        assert "\n" not in str(caught.value)


@needs_data
def test_a_broken_raw_file_is_one_line(tmp_path: Path) -> None:
    home = copied(tmp_path, "Amazon/Photo")
    raw = home / "pyg" / "Amazon" / "Photo" / "raw" / "amazon_electronics_photo.npz"
    raw.write_bytes(raw.read_bytes()[:1000])
    with pytest.raises(
        DatasetError, match=r"'pyg:Amazon/Photo' of PyG cannot be read .*: put its raw files into"
    ) as caught:
        load("pyg:Amazon/Photo", root=home)
    assert "\n" not in str(caught.value)


def test_graphs_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"'pyg:FakeHeteroDataset' cannot be used: .* several node types"):
        load("pyg:FakeHeteroDataset", root=tmp_path)
    data = pyg.KarateClub()[0]
    data.x, data.num_nodes = None, 34
    with pytest.raises(GraphError, match="it has no node features"):
        _convert(data, "X", "pyg:X")
