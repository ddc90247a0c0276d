"""PyG with and without our operators: flags, packages, undoing, and the versions that are known."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch_geometric
import torch_geometric.typing
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import Node2Vec
from torch_geometric.sampler import HGTSampler, NeighborSampler
from torch_geometric.testing import has_package

from handful.errors import HandfulError
from handful.pyg import disable, enable, enabled
from handful.pyg.enabling import FLAGS

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


def names_of_pyg() -> dict[tuple[str, str], Any]:
    """Every name of every module of PyG, and of the classes that are changed."""
    owners = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "torch_geometric"}
    owners |= {kind.__name__: kind for kind in (NeighborSampler, HGTSampler, Node2Vec)}
    return {(owner, name): value for owner, found in owners.items() for name, value in list(vars(found).items())}


def changed(before: dict[tuple[str, str], Any], after: dict[tuple[str, str], Any]) -> set[tuple[str, str]]:
    return {key for key in {*before, *after} if before.get(key) is not after.get(key)}


def test_it_changes_what_it_supplies_and_nothing_else() -> None:
    disable()
    before = names_of_pyg()
    enable(quiet=True)
    found = changed(before, names_of_pyg())
    exact = {key for key in found if key[1] in FLAGS}
    assert found - exact == {
        ("torch_geometric.sampler.neighbor_sampler", "torch_geometric"),
        ("torch_geometric.sampler.hgt_sampler", "WITH_TORCH_SPARSE"),
        ("torch_geometric.loader.cluster", "pyg_lib"),
        ("torch_geometric.loader.graph_saint", "SparseTensor"),
        ("torch_geometric.nn.models.node2vec", "WITH_PYG_LIB"),
        ("torch_geometric.testing.decorators", "WITH_PYG_LIB"),
        *(("NeighborSampler", name) for name in ("__init__", "__reduce_ex__", "_sample")),
        *(("HGTSampler", name) for name in ("__init__", "__reduce_ex__")),
        ("Node2Vec", "loader"),
    }
    assert {("torch_geometric.typing", name) for name in FLAGS} <= exact
    assert not has_package("pyg_lib")  # knn, segment_matmul and others are not there
    assert not torch_geometric.typing.WITH_PYG_LIB
    disable()
    assert not changed(before, names_of_pyg())


@pytest.mark.slow
def test_torchscript_compiles_what_it_compiled_before() -> None:
    """In a process of its own: a class that torch failed to compile once stays broken."""
    code = """
import torch
import handful.pyg
handful.pyg.enable(quiet=True)
from torch_geometric.nn import GCNConv
from torch_geometric.utils import softmax, spmm
for one in (softmax, spmm, GCNConv(3, 3)):
    torch.jit.script(one)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_everything_is_undone() -> None:
    disable()
    data = Data(edge_index=EDGES, num_nodes=4)
    for _ in range(2):
        enable(quiet=True)
        assert next(iter(NeighborLoader(data, [1, 1], batch_size=1))).n_id.tolist() == [0, 3, 2]
        Node2Vec(EDGES, 4, 3, 2)
        disable()
        assert not enabled()
        assert not hasattr(torch.ops.pyg, "neighbor_sample")
        with pytest.raises(ImportError, match="requires either 'pyg-lib' or 'torch-sparse'"), pytest.warns():
            next(iter(NeighborLoader(data, [1, 1], batch_size=1)))
        with pytest.raises(ImportError, match="requires 'pyg-lib"):
            Node2Vec(EDGES, 4, 3, 2)


LOADED = """
import torch
from numba.core.dispatcher import Dispatcher
import handful.pyg
import handful.kernels.csr, handful.kernels.inside, handful.kernels.neighbors, handful.kernels.walks
from handful.pyg import {name}
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import Node2Vec

def known():
    modules = [handful.kernels.csr, handful.kernels.inside, handful.kernels.neighbors, handful.kernels.walks]
    kernels = [one for module in modules for one in vars(module).values() if isinstance(one, Dispatcher)]
    return {{(one.__module__, one.__name__, kind) for one in kernels for kind in one.signatures}}

n, edges = 40, torch.arange(400) % 39
data = Data(edge_index=torch.stack([edges, edges + 1]), num_nodes=n, x=torch.eye(n), w=torch.ones(400))
data.time = torch.arange(400)
hetero = HeteroData({{"a": {{"x": torch.eye(n)}}, "b": {{"x": torch.eye(n)}}}})
hetero["a", "to", "b"].edge_index = hetero["b", "of", "a"].edge_index = data.edge_index
loader = {made}
iterator = torch.utils.data.dataloader._MultiProcessingDataLoaderIter
before = []
made = iterator.__init__
iterator.__init__ = lambda *args: (before.append(known()), made(*args))[1]
torch.set_num_threads(1)
loader.num_workers, loader.prefetch_factor = 1, 2
next(iter(loader))
loader.num_workers, loader.prefetch_factor = 0, None
list(loader)
assert len(before) == 1 and before[0], before
lacking = known() - before[0]
assert not lacking, lacking
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("NeighborLoader", "NeighborLoader(data, [2, 2], batch_size=8)"),
        ("NeighborLoader", "NeighborLoader(data, [2, 2], batch_size=8, weight_attr='w', replace=True)"),
        ("NeighborLoader", "NeighborLoader(data, [2], batch_size=8, subgraph_type='induced')"),
        (
            "LinkNeighborLoader",
            "LinkNeighborLoader(data, [2], edge_label=None, edge_label_index=data.edge_index, batch_size=8, "
            "time_attr='time', edge_label_time=torch.full((400,), 300))",
        ),
        ("HGTLoader", "HGTLoader(hetero, [3, 3], input_nodes='a', batch_size=8)"),
        ("NeighborLoader", "NeighborLoader(hetero, [2, 2], input_nodes='a', batch_size=8)"),
        ("GraphSAINTRandomWalkSampler", "GraphSAINTRandomWalkSampler(data, 6, 2, num_steps=3)"),
        ("RandomNodeLoader", "RandomNodeLoader(data, 2)"),
        ("enable", "(enable(), Node2Vec(data.edge_index, 4, 3, 2, p=2.0).loader(batch_size=8))[1]"),
    ],
)
def test_workers_are_forked_with_every_kernel_that_they_need(name: str, made: str) -> None:
    code = LOADED.format(name=name, made=made)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
def test_importing_handful_pyg_changes_nothing_until_a_loader_is_made() -> None:
    code = """
import torch
import torch_geometric.typing as typing
import handful.pyg
from handful.pyg import ClusterData, NeighborLoader, RandomNodeLoader
from torch_geometric.data import Data
data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
list(RandomNodeLoader(data, 2))
assert not typing.WITH_METIS
NeighborLoader(data, [1])
assert typing.WITH_METIS and handful.pyg.enabled()
handful.pyg.disable()
ClusterData(data, 2, log=False)
assert typing.WITH_METIS
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
