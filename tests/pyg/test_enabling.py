"""PyG with and without our operators: flags, packages, undoing, and the versions that are known."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
import torch_geometric
import torch_geometric.typing
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import Node2Vec
from torch_geometric.sampler import NeighborSampler
from torch_geometric.testing import has_package

from handful.errors import HandfulError
from handful.pyg import disable, enable, enabled

EDGES = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = enabled()
    yield
    if before:
        enable(quiet=True)
    else:
        disable()


def test_it_says_in_one_line_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    disable()
    enable()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "run on handful's kernels" in said.err
    enable()  # there is nothing left to do
    assert capsys.readouterr().err == ""


def test_everything_is_undone() -> None:
    disable()
    flags = {key: value for key, value in vars(torch_geometric.typing).items() if key.startswith("WITH_")}
    data = Data(edge_index=EDGES, num_nodes=4)
    for _ in range(2):
        enable(quiet=True)
        assert has_package("pyg_lib")
        assert next(iter(NeighborLoader(data, [1, 1], batch_size=1))).n_id.tolist() == [0, 3, 2]
        Node2Vec(EDGES, 4, 3, 2)
        disable()
        assert not enabled()
        assert not has_package("pyg_lib")
        assert not hasattr(torch.ops.pyg, "neighbor_sample")
        assert flags == {key: value for key, value in vars(torch_geometric.typing).items() if key.startswith("WITH_")}
        with pytest.raises(ImportError, match="requires either 'pyg-lib' or 'torch-sparse'"), pytest.warns():
            next(iter(NeighborLoader(data, [1, 1], batch_size=1)))
        with pytest.raises(ImportError, match="requires 'pyg-lib"):
            Node2Vec(EDGES, 4, 3, 2)


def test_a_sampler_that_is_read_from_a_pickle_brings_the_operators() -> None:
    enable(quiet=True)
    pickled = pickle.dumps(NeighborLoader(Data(edge_index=EDGES, num_nodes=4), [1], batch_size=1).node_sampler)
    copied = pickle.loads(pickled)
    disable()
    assert "__reduce_ex__" not in vars(NeighborSampler)
    assert torch.equal(pickle.loads(pickled).colptr, copied.colptr)
    assert enabled()


def test_modules_of_pyg_that_have_copied_a_flag_have_it_too() -> None:
    disable()
    node2vec = importlib.import_module("torch_geometric.nn.models.node2vec")
    assert not node2vec.WITH_PYG_LIB
    enable(quiet=True)
    assert node2vec.WITH_PYG_LIB
    assert importlib.import_module("torch_geometric.testing.decorators").WITH_METIS
    assert not torch_geometric.typing.WITH_SEGMM  # what we have no kernel for stays off


def test_the_stand_in_has_pyg_libs_functions() -> None:
    enable(quiet=True)
    pyg_lib = importlib.import_module("pyg_lib")
    assert not hasattr(pyg_lib, "__version__")  # it is not pyg-lib
    rowptr, col = torch.tensor([0, 1, 2]), torch.tensor([1, 0])
    assert pyg_lib.sampler.random_walk(rowptr, col, torch.tensor([1]), 2).tolist() == [[1, 0, 1]]
    path = torch.tensor([0, 1, 3, 5, 6]), torch.tensor([1, 0, 2, 1, 3, 2])
    assert pyg_lib.partition.metis(*path, 2).bincount().tolist() == [2, 2]
    kind = ("a", "to", "a")
    out = pyg_lib.sampler.hetero_neighbor_sample({kind: rowptr}, {kind: col}, {"a": torch.tensor([0])}, {kind: [1]})
    assert out[0][kind].tolist() == [0]
    assert out[2]["a"].tolist() == [0, 1]
    assert out[5] == {kind: [1]}


def test_operators_take_positions_keywords_and_torchscript() -> None:
    enable(quiet=True)
    rowptr, col, seed = torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.tensor([0])
    by_place = torch.ops.pyg.neighbor_sample(
        rowptr, col, seed, [1], None, None, None, None, True, False, True, False, "uniform", False
    )
    by_name = torch.ops.pyg.neighbor_sample(rowptr=rowptr, col=col, seed=seed, num_neighbors=[1], csc=True)
    assert by_place[3] is None
    assert by_name[3].tolist() == [0]
    assert by_place[0].tolist() == by_name[0].tolist() == [1]

    @torch.jit.script  # type: ignore[untyped-decorator]
    def scripted(rowptr: torch.Tensor, col: torch.Tensor, seed: torch.Tensor) -> torch.Tensor:
        return torch.ops.pyg.random_walk(rowptr, col, seed, 1, 1.0, 1.0)  # type: ignore[no-any-return]

    assert scripted(rowptr, col, seed).tolist() == [[0, 1]]


def test_a_version_that_was_not_tested_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(torch_geometric, "__version__", "3.1.0")
        with pytest.raises(HandfulError, match=r"PyG 3\.1\.0 has not been tested with handful's operators: use 2\.8"):
            enable()


def test_it_steps_back_where_pyg_lib_is_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    disable()
    folder = tmp_path_factory.mktemp("site")
    (folder / "pyg_lib.py").write_text("")
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(folder))
        enable()
    assert "PyG keeps its own operators" in capsys.readouterr().err
    assert not enabled()


@pytest.mark.slow
def test_importing_handful_pyg_changes_nothing_until_a_loader_is_asked_for() -> None:
    code = """
import torch_geometric.typing as typing
import handful.pyg
from handful.pyg import RandomNodeLoader
assert not typing.WITH_PYG_LIB
from handful.pyg import NeighborLoader
assert typing.WITH_PYG_LIB and handful.pyg.enabled()
handful.pyg.disable()
from handful.pyg import NeighborLoader
assert typing.WITH_PYG_LIB
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
