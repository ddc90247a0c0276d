"""``RandomNodeLoader`` in PyG's place: the same subgraphs and attributes, a new deal every epoch, plain messages."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import RandomNodeLoader as PyGRandomNodeLoader

from handful.errors import GraphError, SamplerError
from handful.kernels.threads import get_threads, set_threads
from handful.pyg import RandomNodeLoader
from pyg_data import any_data, assert_carried, assert_induced, edges_of, make_data


def test_a_batch_is_pygs_subgraph_with_every_attribute() -> None:
    data, for_pyg = make_data(), make_data()
    del for_pyg.table  # numpy arrays are more than PyG's own subgraph takes
    seen = []
    for batch in RandomNodeLoader(data, num_parts=3, seed=1):
        assert_carried(data, batch)
        want = for_pyg.subgraph(batch.n_id)
        assert edges_of(batch, "edge_attr", "edge_weight") == edges_of(want, "edge_attr", "edge_weight")
        assert torch.equal(batch.x, want.x)
        assert batch.names == want.names
        assert batch.num_nodes == len(batch.n_id) == want.num_nodes
        seen.append(batch.n_id)
    assert torch.cat(seen).sort().values.tolist() == list(range(40))


@settings(deadline=None)  # the first example compiles
@given(any_data(), st.integers(1, 12), st.booleans(), st.booleans(), st.integers(0, 1000))
def test_edges_are_those_of_pygs_subgraph(data: Data, m: int, shuffle: bool, drop_last: bool, seed: int) -> None:
    m = min(m, data.num_nodes)
    loader = RandomNodeLoader(data, m, shuffle, drop_last, seed)
    batches = list(loader)
    assert len(batches) == len(loader) == m
    everyone = torch.cat([batch.n_id for batch in batches]).tolist()
    assert len(set(everyone)) == len(everyone) == (m * (data.num_nodes // m) if drop_last else data.num_nodes)
    for batch in batches:
        assert_induced(data, batch)
        by_target = (batch.edge_index[1] * data.num_nodes + batch.edge_index[0]).diff()
        assert (by_target >= 0).all()
        assert ("e_id" in batch) == ("edge_weight" in data)


def test_parts_are_even_and_shuffle_false_gives_runs() -> None:
    data = make_data(n=10)
    assert [len(batch.n_id) for batch in RandomNodeLoader(data, 4)] == [3, 3, 2, 2]
    assert [len(batch.n_id) for batch in RandomNodeLoader(data, 4, drop_last=True)] == [2, 2, 2, 2]
    runs = RandomNodeLoader(data, 4, shuffle=False)
    for _ in range(2):
        assert [batch.n_id.tolist() for batch in runs] == [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]


def test_threads_change_nothing() -> None:
    data, before = make_data(4_000, 100_000), get_threads()
    try:
        made = []
        for threads in (1, 2, 3):
            set_threads(threads)
            made.append([(b.n_id, b.edge_index, b.e_id) for b in RandomNodeLoader(data, 3, seed=0)])
    finally:
        set_threads(before)
    for other in made[1:]:
        assert all(torch.equal(a, b) for x, y in zip(made[0], other, strict=True) for a, b in zip(x, y, strict=True))


# -- heterogeneous ----------------------------------------------------------------------------------------------------


def make_hetero(seed: int = 0) -> HeteroData:
    rng = torch.Generator().manual_seed(seed)
    data = HeteroData()
    data["paper"].x = torch.randn(20, 4, generator=rng)
    data["paper"].y = torch.randint(0, 3, (20,), generator=rng)
    data["author"].x = torch.randn(15, 2, generator=rng)
    data["place"].num_nodes = 5
    for source, relation, target, count in (
        ("paper", "cites", "paper", 90),
        ("author", "writes", "paper", 60),
        ("paper", "at", "place", 40),
        ("author", "knows", "author", 0),
    ):
        sizes = data[source].num_nodes, data[target].num_nodes
        ends = [torch.randint(0, size, (count,), generator=rng) for size in sizes]
        data[source, relation, target].edge_index = torch.stack(ends)
        data[source, relation, target].weight = torch.rand(count, generator=rng)
    data.title = "a heterogeneous graph"
    return data


@pytest.mark.parametrize("m", [1, 3, 40])
def test_hetero_data_is_cut_as_pyg_cuts_it(m: int) -> None:
    data = make_hetero()
    seen: dict[str, list[int]] = {t: [] for t in data.node_types}
    edges = 0
    for batch in RandomNodeLoader(data, m, seed=2):
        assert isinstance(batch, HeteroData)
        want = data.subgraph({t: batch[t].n_id for t in data.node_types})
        assert batch.node_types == data.node_types
        assert batch.edge_types == data.edge_types
        assert batch.title == data.title
        for t in data.node_types:
            seen[t] += batch[t].n_id.tolist()
            assert batch[t].num_nodes == want[t].num_nodes
            for key in ("x", "y"):
                assert key not in want[t] or torch.equal(batch[t][key], want[t][key])
        for t in data.edge_types:
            assert edges_of(batch[t], "weight") == edges_of(want[t], "weight")
            assert torch.equal(batch[t].weight, data[t].weight[batch[t].e_id])
            edges += batch[t].num_edges
    assert {t: sorted(ids) for t, ids in seen.items()} == {t: list(range(data[t].num_nodes)) for t in data.node_types}
    assert edges == (data.num_edges if m == 1 else edges)


def test_hetero_data_deals_all_types_together() -> None:
    sizes = [batch.num_nodes for batch in RandomNodeLoader(make_hetero(), 7)]
    assert sizes == [6, 6, 6, 6, 6, 5, 5]
    pygs = [batch.num_nodes for batch in PyGRandomNodeLoader(make_hetero(), 7, shuffle=True)]
    assert sum(pygs) == sum(sizes)


# -- at the door ------------------------------------------------------------------------------------------------------


def test_hetero_data_without_edges_is_refused() -> None:
    bare = HeteroData()
    bare["a"].num_nodes = 3
    bare["a", "to", "a"].weight = torch.ones(2)
    with pytest.raises(GraphError, match="edge_index"):
        RandomNodeLoader(bare, 2)


def test_wrong_arguments_are_refused() -> None:
    data = make_data(6, 10)
    for parts in (0, 7, -1):
        with pytest.raises(SamplerError, match="num_parts must lie between 1 and the number of nodes, 6"):
            RandomNodeLoader(data, parts)


# -- in Lightning -----------------------------------------------------------------------------------------------------


def test_trains_in_lightning() -> None:
    lightning = pytest.importorskip("lightning")
    from torch_geometric.nn import SAGEConv

    data = make_data()
    seen: list[tuple[int, ...]] = []

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv = SAGEConv(5, 3)

        def training_step(self, batch: Data, _: int) -> torch.Tensor:
            seen.append(tuple(batch.n_id.tolist()))
            out = self.conv(batch.x, batch.edge_index)
            return torch.nn.functional.cross_entropy(out[batch.train_mask], batch.y[batch.train_mask])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    model = Model()
    before = model.conv.lin_l.weight.detach().clone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lightning.Trainer(max_epochs=2, enable_model_summary=False, **quiet).fit(
            model, RandomNodeLoader(data, 4, seed=0)
        )
    assert len(seen) == 8
    assert len(set(seen)) == 8
    for half in (seen[:4], seen[4:]):
        assert sorted(node for part in half for node in part) == list(range(40))
    assert not torch.equal(before, model.conv.lin_l.weight)


def test_without_pyg_the_import_says_what_to_install() -> None:
    code = "import sys; sys.modules['torch_geometric'] = None; import handful; import handful.pyg"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "pip install 'handful[pyg]'" in result.stderr
