from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData

from handful.convert import (
    from_mapping,
    from_networkx,
    from_pyg,
    from_scipy,
    split_fields,
    to_networkx,
    to_pyg,
    to_scipy,
)
from handful.errors import GraphError
from handful.graph import MASKS, Graph
from handful.pyg import NeighborLoader


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    n = draw(st.integers(1, 8))
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    edges = draw(st.lists(pair, max_size=20))
    weight = draw(st.none() | st.lists(st.integers(1, 9), min_size=len(edges), max_size=len(edges)))
    edge_index = np.array(edges, np.int64).reshape(-1, 2).T
    weights = None if weight is None else np.array(weight, np.float32)
    graph = Graph.from_edge_index(edge_index, n, edge_weight=weights)
    return graph.to_undirected() if draw(st.booleans()) else graph


def assert_same_topology(a: Graph, b: Graph) -> None:
    assert torch.equal(a.indptr, b.indptr)
    assert torch.equal(a.indices, b.indices)
    assert a.undirected == b.undirected
    if a.edge_weight is None or bool((a.edge_weight == 1).all()):
        assert b.edge_weight is None or bool((b.edge_weight == 1).all())
        return
    assert b.edge_weight is not None
    assert np.array_equal(_sorted_weights(a), _sorted_weights(b))


def _sorted_weights(graph: Graph) -> np.ndarray:
    """Weights by (target, source, weight): copies of one edge have no order among themselves."""
    assert graph.edge_weight is not None
    weight = graph.edge_weight.numpy()
    return weight[np.lexsort((weight, *graph.edge_index.numpy()))]


@settings(max_examples=60)
@given(graphs())
def test_round_trips_of_the_topology(graph: Graph) -> None:
    assert_same_topology(graph, from_pyg(to_pyg(graph)))
    assert_same_topology(graph, from_scipy(to_scipy(graph)))
    back = from_networkx(to_networkx(graph))
    assert back.num_nodes == graph.num_nodes
    assert_same_topology(graph, back)


# -- PyG ------------------------------------------------------------------------------------------------------------

EDGE_INDEX = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 2]])
X = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
Y = torch.tensor([0, 1, 1, 0])


def test_pyg_fields_come_and_go() -> None:
    masks = {name: torch.tensor([i == k for i in range(4)]) for k, name in enumerate(MASKS)}
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0])
    data = Data(x=X, y=Y[:, None], edge_index=EDGE_INDEX, edge_weight=weight, **masks)
    graph = from_pyg(data, name="tiny")
    assert graph.name == "tiny"
    assert graph.indices.tolist() == [2, 0, 1, 2]
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [3, 1, 2, 4]
    back = to_pyg(graph)
    assert torch.equal(back.x, X)
    assert torch.equal(back.y, Y)
    for name, mask in masks.items():
        assert torch.equal(back[name], mask)
    assert back.validate()


def test_no_attribute_is_lost_in_silence() -> None:
    data = Data(x=X, y=Y, edge_index=EDGE_INDEX, edge_attr=torch.ones(4, 2), pos=X)
    with pytest.raises(GraphError, match="cannot hold pos of this Data"):
        from_pyg(data)
    assert from_pyg(data, drop=["edge_attr", "pos"]).edge_attr is None


def test_features_of_edges_go_to_a_graph_and_back() -> None:
    attr = torch.arange(8.0).view(4, 2)
    back = to_pyg(from_pyg(Data(x=X, y=Y, edge_index=EDGE_INDEX, edge_attr=attr)))
    rows = {tuple(ends): row for ends, row in zip(EDGE_INDEX.T.tolist(), attr.tolist(), strict=True)}
    assert [rows[tuple(ends)] for ends in back.edge_index.T.tolist()] == back.edge_attr.tolist()
    kinds = from_pyg(Data(x=X, y=Y, edge_index=EDGE_INDEX, edge_type=torch.tensor([1, 0, 2, 1]))).edge_attr
    assert kinds is not None
    assert sorted(kinds.tolist()) == [[0.0], [1.0], [1.0], [2.0]]
    for wrong, why in ((torch.ones(3, 2), "6 values for 4"), (torch.ones(4, 2, 2), "shape"), (attr / 0, "finite")):
        with pytest.raises(GraphError, match=why):
            from_mapping({"edge_index": EDGE_INDEX, "edge_attr": wrong})
    graph = from_pyg(Data(edge_index=torch.tensor([[0, 0, 1], [1, 1, 1]]), edge_attr=torch.tensor([1.0, 2.0, 3.0])))
    assert graph.coalesce("first").edge_attr.flatten().tolist() == [1.0, 3.0]  # type: ignore[union-attr]
    assert graph.without_loops().edge_attr.flatten().tolist() == [1.0, 2.0]  # type: ignore[union-attr]
    for change in (graph.coalesce, graph.to_undirected):
        with pytest.raises(GraphError, match="edge_attr"):
            change()


def test_what_is_no_data_and_what_it_does_not_have_is_told() -> None:
    data = Data(x=X, y=Y, edge_index=EDGE_INDEX)
    with pytest.raises(GraphError, match=r"takes one Data, got list: .*dataset\[0\]"):
        from_pyg([data])  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="drop names z, and this Data has edge_index, x, y"):
        from_pyg(data, drop=["x", "z"])
    assert from_pyg(data, drop="x").x is None


def test_whole_numbers_in_floats_are_classes_and_that_is_said() -> None:
    data = Data(x=X, y=Y.float(), edge_index=EDGE_INDEX)
    with pytest.warns(UserWarning, match="read as classes"):
        assert from_pyg(data).num_classes == 2
    assert from_pyg(data, task="regression").kind == "regression"


def test_ids_come_and_go() -> None:
    graph = from_pyg(Data(x=X, edge_index=EDGE_INDEX), ids=np.array([7, 5, 9, 11]))
    assert from_pyg(to_pyg(graph)).ids.tolist() == [7, 5, 9, 11]  # type: ignore[union-attr]


def test_a_loader_of_pyg_takes_a_graph_whose_ids_are_texts() -> None:
    graph = from_pyg(Data(x=X, edge_index=EDGE_INDEX), ids=np.array(["a", "b", "d", "c"]))
    with pytest.warns(UserWarning, match="ids that are texts"):
        data = to_pyg(graph)
    batch = next(iter(NeighborLoader(data, [-1], batch_size=2, shuffle=False)))
    assert graph.ids[batch.n_id[:2]].tolist() == ["a", "b"]  # type: ignore[index]


def test_labels_of_every_task_come() -> None:
    assert from_pyg(Data(x=X, y=Y + 0.5, edge_index=EDGE_INDEX)).task == "regression"
    assert from_pyg(Data(x=X, y=torch.eye(4), edge_index=EDGE_INDEX)).task == "multilabel"
    named = from_mapping({"edge_index": EDGE_INDEX, "y": Y, "class_names": ["bad", "good"], "positive": "good"})
    assert named.positive == 1
    assert from_mapping({"edge_index": EDGE_INDEX, "y": Y, "task": np.array("regression")}).kind == "regression"


def test_numbers_of_networkx_are_no_names_of_classes() -> None:
    path = nx.path_graph(3)
    nx.set_node_attributes(path, {0: 0.5, 1: 2.0, 2: 3}, "y")
    graph = from_networkx(path)
    assert (graph.task, graph.y.tolist()) == ("regression", [0.5, 2.0, 3.0])


def test_pyg_keeps_isolated_nodes() -> None:
    assert from_pyg(Data(edge_index=EDGE_INDEX, num_nodes=9)).num_nodes == 9


@pytest.mark.parametrize(
    "split",
    [
        {"train_idx": torch.tensor([0]), "val_idx": torch.tensor([1]), "test_idx": torch.tensor([3, 2])},
        {"train_idx": torch.tensor([0]), "valid_idx": torch.tensor([1]), "test_idx": torch.tensor([3, 2])},
        {"split_idx": {"train": torch.tensor([0]), "valid": torch.tensor([1]), "test": torch.tensor([2, 3])}},
        {
            "train_mask": torch.tensor([1, 0, 0, 0]).bool()[:, None],
            "val_mask": torch.tensor([0, 1, 0, 0]).bool(),
            "test_mask": torch.tensor([0, 0, 1, 1]).bool(),
        },
    ],
)
def test_index_splits(split: dict[str, object]) -> None:
    graph = from_pyg(Data(x=X, y=Y, edge_index=EDGE_INDEX, **split))
    assert [getattr(graph, m).nonzero().squeeze(1).tolist() for m in MASKS] == [[0], [1], [2, 3]]


def test_split_idx_as_ogb_gives_it() -> None:
    split = {"train": torch.tensor([3]), "valid": torch.tensor([0]), "test": torch.tensor([1])}
    graph = from_pyg(Data(x=X, y=Y, edge_index=EDGE_INDEX), split_idx=split)
    assert graph.train_nodes.tolist() == [3]


def test_mask_matrices_need_a_fold() -> None:
    eye = torch.eye(4).bool()
    data = Data(
        x=X, y=Y, edge_index=EDGE_INDEX, train_mask=eye, val_mask=eye.roll(1, 1), test_mask=eye.roll(2, 0)[:, 0]
    )
    with pytest.raises(GraphError, match="train_mask holds 4 splits, one per column: choose one with fold=0 to fold=3"):
        from_pyg(data)
    with pytest.raises(GraphError, match="fold=4 is not among the 4 splits"):
        from_pyg(data, fold=4)
    graph = from_pyg(data, fold=1)
    assert [getattr(graph, m).nonzero().squeeze(1).tolist() for m in MASKS] == [[1], [0], [2]]
    with pytest.raises(GraphError, match="has none: leave it out"):
        split_fields({"train_mask": eye[0]}, fold=0)
    with pytest.raises(GraphError, match="both train_mask and train_idx"):
        split_fields({"train_mask": eye[0], "train_idx": eye[0]})


@pytest.mark.filterwarnings("ignore:Sparse")
def test_adj_t_and_what_cannot_be_used() -> None:
    adj_t = torch.sparse_coo_tensor(EDGE_INDEX.flip(0), torch.ones(4), (4, 4)).to_sparse_csr()
    assert_same_topology(from_pyg(Data(x=X, adj_t=adj_t)), from_pyg(Data(x=X, edge_index=EDGE_INDEX)))
    with pytest.raises(GraphError, match="neither edge_index nor"):
        from_pyg(Data(x=X))
    with pytest.raises(GraphError, match="several node types"):
        from_pyg(HeteroData())
    with pytest.raises(GraphError, match=r"x\[0, 1\] is nan"):
        from_pyg(Data(x=torch.tensor([[0.0, torch.nan]]), edge_index=torch.zeros(2, 0).long()))


# -- scipy ----------------------------------------------------------------------------------------------------------


def test_scipy_rows_are_sources() -> None:
    matrix = sp.coo_array((np.array([2.0, 0.0]), ([0, 1], [1, 2])), shape=(3, 3))
    graph = from_scipy(matrix, y=[0, 1, 1])
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [2, 0]
    assert graph.num_classes == 2
    assert to_scipy(graph).toarray()[0, 1] == 2
    assert from_scipy(sp.csr_array(np.eye(3, dtype=bool))).edge_weight is None


def test_scipy_refusals() -> None:
    with pytest.raises(GraphError, match="square"):
        from_scipy(sp.csr_array((2, 3)))
    with pytest.raises(GraphError, match="real numbers"):
        from_scipy(sp.csr_array(np.eye(2) * 1j))


# -- networkx -------------------------------------------------------------------------------------------------------


def test_networkx_attributes() -> None:
    source = nx.Graph()
    source.add_node("b", feat=[1, 2], club="red", train_mask=True)
    source.add_node("a", feat=[3, 4], club="blue", train_mask=False)
    source.add_node("c", feat=[5, 6], club="red", train_mask=True)
    source.add_edge("a", "b", w=2)
    source.add_edge("c", "c", w=3)
    graph = from_networkx(source, x="feat", y="club", weight="w", name="club")
    assert graph.edge_index.tolist() == [[1, 0, 2], [0, 1, 2]]
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [2, 2, 3]
    assert graph.undirected
    assert graph.x is not None
    assert graph.x.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert graph.class_names == ("blue", "red")
    assert graph.train_mask is not None
    assert graph.train_mask.tolist() == [True, False, True]
    back = to_networkx(graph)
    assert back.nodes[1] == {"x": [3, 4], "y": 0, "train_mask": False, "val_mask": False, "test_mask": False}
    assert back.edges[2, 2] == {"weight": 3}
    assert not back.is_directed()


def test_networkx_refusals() -> None:
    source = nx.path_graph(3)
    source.nodes[0]["y"] = 1
    with pytest.raises(GraphError, match="node 1 has no 'y'"):
        from_networkx(source)
    source = nx.path_graph(2)
    nx.set_node_attributes(source, {0: [1, 2], 1: [3]}, "x")
    with pytest.raises(GraphError, match="x is not an array of numbers"):
        from_networkx(source)
    source = nx.path_graph(3)
    source.edges[0, 1]["weight"] = 2
    with pytest.raises(GraphError, match="edge 1 to 2 has no 'weight'"):
        from_networkx(source)
    assert from_networkx(nx.Graph()).num_nodes == 0


def test_ids_of_a_file_are_the_nodes_own() -> None:
    store = {"edge_index": [[0, 1], [1, 0]], "y": [0, 1]}
    assert from_mapping({**store, "ids": np.array(["b", "a"])}).ids.tolist() == ["b", "a"]  # type: ignore[union-attr]
    for ids, words in (
        (["a", "a"], "ids holds an id twice"),
        ([0.5, 1.5], "ids must be integers"),
        ([1], r"ids must have shape \(2,\)"),
        ([[1], [1, 2]], "ids must be integers or texts"),
    ):
        with pytest.raises(GraphError, match=words):
            from_mapping({**store, "ids": ids})
