from __future__ import annotations

import dataclasses
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import make_graph
from handful.errors import GraphError
from handful.graph import MASKS, Graph, fingerprint
from handful.kernels import sparse

EDGES = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
GOOD: dict[str, Any] = {
    "x": np.eye(4, 2, dtype=np.float32),
    "y": np.array([0, 1, 0, 1]),
    "train_mask": np.array([True, True, False, False]),
    "val_mask": np.array([False, False, True, False]),
    "test_mask": np.array([False, False, False, True]),
}


def make(edges: Any = EDGES, num_nodes: int | None = 4, **fields: Any) -> Graph:
    return Graph.from_edge_index(edges, num_nodes, **GOOD | fields)


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[int, np.ndarray, np.ndarray]:
    """A number of nodes, edges with loops and repetitions, and integer weights, which floats add up exactly."""
    n = draw(st.integers(1, 9))
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    edges = draw(st.lists(pair, max_size=30))
    weights = draw(st.lists(st.integers(0, 9), min_size=len(edges), max_size=len(edges)))
    return n, np.array(edges, np.int64).reshape(-1, 2).T, np.array(weights, np.float32)


def dense(n: int, edges: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Entry [u, v] is the sum of the values of the edges from u to v."""
    return sp.coo_array((values, (edges[0], edges[1])), shape=(n, n)).toarray()


def dense_of(graph: Graph, values: torch.Tensor | None = None) -> np.ndarray:
    values = torch.ones(graph.num_edges) if values is None else values
    return dense(graph.num_nodes, graph.edge_index.numpy(), values.numpy())


# -- making ---------------------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(edge_lists())
def test_the_csr_holds_every_edge_with_its_weight(case: tuple[int, np.ndarray, np.ndarray]) -> None:
    n, edges, weights = case
    graph = Graph.from_edge_index(edges, n, edge_weight=weights)
    order = np.lexsort((edges[0], edges[1]))  # Stable: copies of an edge keep their order.
    assert graph.edge_index.numpy().tolist() == edges[:, order].tolist()
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == weights[order].tolist()
    assert graph.in_degree.tolist() == np.bincount(edges[1], minlength=n).tolist()
    assert graph.has_loops == bool((edges[0] == edges[1]).any())
    assert graph.indices.dtype == torch.int32
    assert (graph.num_nodes, graph.num_edges) == (n, edges.shape[1])


@settings(max_examples=100)
@given(edge_lists())
def test_undirected_is_found_out(case: tuple[int, np.ndarray, np.ndarray]) -> None:
    n, edges, _ = case
    matrix = dense(n, edges, np.ones(edges.shape[1]))
    assert Graph.from_edge_index(edges, n).undirected == bool((matrix == matrix.T).all())


@settings(max_examples=100)
@given(edge_lists())
def test_simplifying(case: tuple[int, np.ndarray, np.ndarray]) -> None:
    n, edges, weights = case
    graph = Graph.from_edge_index(edges, n, edge_weight=weights)
    loops = edges[0] == edges[1]
    bare = graph.without_loops()
    assert np.array_equal(dense_of(bare), dense(n, edges[:, ~loops], np.ones((~loops).sum())))
    assert np.array_equal(dense_of(bare, bare.edge_weight), dense(n, edges[:, ~loops], weights[~loops]))
    assert not bare.has_loops
    merged = graph.coalesce()
    assert np.array_equal(dense_of(merged), dense(n, edges, np.ones(edges.shape[1])) > 0)
    assert np.array_equal(dense_of(merged, merged.edge_weight), dense(n, edges, weights))
    for simple in (bare, merged):
        checked = Graph(simple.indptr, simple.indices, edge_weight=simple.edge_weight)
        assert checked.undirected or not simple.undirected
        assert torch.equal(checked.indices, simple.indices)


@settings(max_examples=100)
@given(edge_lists(), st.booleans())
def test_to_undirected(case: tuple[int, np.ndarray, np.ndarray], weighted: bool) -> None:
    n, edges, weights = case
    graph = Graph.from_edge_index(edges, n, edge_weight=weights if weighted else None)
    out = graph.to_undirected()
    count = dense(n, edges, np.ones(edges.shape[1]))
    if graph.undirected:
        assert out is graph
        return
    assert np.array_equal(dense_of(out), (count + count.T) > 0)
    assert out.undirected
    assert Graph(out.indptr, out.indices, edge_weight=out.edge_weight).undirected
    if weighted:
        total = dense(n, edges, weights)
        with np.errstate(invalid="ignore"):
            mean = np.nan_to_num((total + total.T) / (count + count.T))
        np.testing.assert_allclose(dense_of(out, out.edge_weight), mean, rtol=1e-6)


def test_loops_and_repeated_edges_stay_until_told() -> None:
    graph = Graph.from_edge_index(np.array([[0, 0, 1, 1], [1, 1, 1, 1]]), 2)
    assert graph.edge_index.tolist() == [[0, 0, 1, 1], [1, 1, 1, 1]]
    assert graph.coalesce().edge_index.tolist() == [[0, 1], [1, 1]]
    assert graph.without_loops().edge_index.tolist() == [[0, 0], [1, 1]]
    assert graph.to_undirected().edge_index.tolist() == [[1, 0, 1], [0, 1, 1]]
    same = graph.without_loops()
    assert same.without_loops() is same


def test_simplifying_keeps_the_rest() -> None:
    graph = make(np.array([[0, 0, 1], [0, 1, 2]]), name="g", class_names=("a", "b")).without_loops()
    assert graph.train_nodes.tolist() == [0, 1]
    assert (graph.name, graph.class_names, graph.num_features) == ("g", ("a", "b"), 2)


def test_number_of_nodes() -> None:
    assert Graph.from_edge_index(EDGES).num_nodes == 4
    assert Graph.from_edge_index(EDGES[:, :1], x=np.zeros((6, 1))).num_nodes == 6
    assert Graph.from_edge_index(EDGES[:, :1], y=np.zeros(5, int)).num_nodes == 5
    empty = Graph.from_edge_index(np.empty((2, 0), np.int64))
    assert (empty.num_nodes, empty.num_edges, empty.undirected) == (0, 0, True)
    assert Graph.from_edge_index(np.empty((2, 0), np.int64), 3).coalesce().to_undirected().num_nodes == 3


def test_inputs_of_many_kinds() -> None:
    graph = make(torch.from_numpy(EDGES).to(torch.int32), x=[[1, 2]] * 4, y=torch.tensor([[0.0], [1], [-1], [1]]),
                 val_mask=None, train_mask=[0, 3], test_mask=torch.tensor([0, 1, 0, 0], dtype=torch.uint8))  # fmt: skip
    assert graph.x is not None
    assert graph.x.dtype == torch.float32
    assert graph.y is not None
    assert graph.y.tolist() == [0, 1, -1, 1]
    assert [getattr(graph, m).nonzero().squeeze(1).tolist() for m in MASKS] == [[0, 3], [], [1]]
    for dtype in (torch.float16, torch.bfloat16):
        x = make(x=torch.zeros(4, 1, dtype=dtype)).x
        assert x is not None
        assert x.dtype == dtype


def test_a_csr_with_unsorted_rows_is_sorted() -> None:
    graph = Graph(torch.tensor([0, 3, 3, 4]), torch.tensor([2, 0, 1, 1]))
    assert graph.indices.tolist() == [0, 1, 2, 1]
    with pytest.raises(GraphError, match="must ascend if edges have values"):
        Graph(torch.tensor([0, 2, 2]), torch.tensor([1, 0]), edge_weight=torch.ones(2))


def test_what_a_graph_says_of_itself() -> None:
    graph = make(num_classes=2, name="g")
    assert repr(graph) == "Graph(g: directed, 4 nodes, 4 edges, 2 features, 2 classes)"
    assert (graph.num_outputs, make(num_classes=3).num_outputs) == (1, 3)
    assert graph.checksum == make(x=None).checksum
    assert graph.checksum != make(EDGES[::-1]).checksum
    assert graph.to("cpu") is graph
    assert graph.replace(name="h").name == "h"
    with pytest.raises(GraphError, match="overlap"):
        graph.replace(test_mask=graph.train_mask)
    with pytest.raises(GraphError, match="1 class names"):
        graph.replace(class_names=("a",))
    other = graph.replace(train_mask=[2], val_mask=None, test_mask=[0, 1])
    assert [getattr(other, m).nonzero().squeeze(1).tolist() for m in MASKS] == [[2], [], [0, 1]]
    assert graph.replace(train_mask=None, val_mask=None, test_mask=None).train_mask is None
    with pytest.raises(GraphError, match="it has no x, y, train_mask, val_mask, test_mask"):
        _ = Graph.from_edge_index(EDGES).train_nodes


def test_what_labels_are_is_found_out_or_said() -> None:
    numbers = make(y=[0.5, 2, 3, 4])
    assert (numbers.task, numbers.metric, numbers.num_outputs, numbers.num_classes) == ("regression", "r2", 1, None)
    assert repr(numbers).endswith("a number to predict)")
    several = make(y=[[0, 1, 1], [1, 0, 0], [1, np.nan, 0], [0, 0, 0]])
    assert (several.task, several.metric, several.num_outputs) == ("multilabel", "roc_auc", 3)
    numbers = make(y=[[0.5, 2], [np.nan, 3], [1, np.nan], [2, 2]])
    assert (numbers.task, numbers.metric, numbers.num_outputs) == ("regression", "r2", 2)
    assert bool(numbers.labelled.all())
    assert several.y.dtype == torch.float32
    assert make(y=[0.0, 1.0, 2.0, 1.0]).task == "classification"  # whole numbers are classes, unless said otherwise
    ages = make(y=[30.0, 41.0, 22.0, 61.0], task="regression")
    assert ages.y.tolist() == [30, 41, 22, 61]
    unknown = make(y=[0, 1, 2, -1], test_mask=None).replace(task="regression")
    assert unknown.labelled.tolist() == [True, True, True, False]
    ages = make(y=[0, 2, 1, -1], class_names=("18", "42", "66"), test_mask=None).replace(task="regression")
    assert ages.y.tolist()[:3] == [18, 66, 42]  # and not the places of the classes
    with pytest.raises(GraphError, match="--task regression"):
        make(y=[0, 1, 1, 0], class_names=("fraud", "ok")).replace(task="regression")
    assert make(num_classes=2).replace(y=[0.5, 2, 3, 4]).metric == "r2"
    assert make(x=None, y=None, train_mask=None, val_mask=None, test_mask=None).task is None


def test_the_positive_class_is_the_rarer_one_or_the_one_named() -> None:
    names = ("fraud", "ok")
    fields = {"class_names": names, "train_mask": [0, 1], "val_mask": [2], "test_mask": [3]}
    assert make(y=[0, 1, 1, 1], **fields).positive == 0
    assert make(y=[0, 1, 1, 0], **fields).positive == 1  # of equals the second, as elsewhere
    assert make(y=[0, 1, 1, 1], positive="ok", **fields).positive == 1
    assert make(y=[0, 1, 2, 1], num_classes=3).positive is None
    graph = make(y=[0, 1, 1, 1], **fields)
    assert graph.identity() != graph.replace(positive=1).identity()


def test_a_notebook_shows_a_table() -> None:
    shown = make(num_classes=2, name="<g>")._repr_html_()
    assert "<caption>Graph &lt;g&gt;</caption>" in shown
    assert "<tr><th>nodes</th><td>4</td></tr>" in shown
    assert "2 classes, 4 nodes have one" in shown


# -- the door -------------------------------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], str]] = [
    ({"edges": np.array([[0, 1], [1, 4]])}, "edge 1 has target 4: node ids run from 0 to 3"),
    ({"edges": np.array([[0, 9], [1, 1]])}, "edge 1 has source 9"),
    ({"edges": np.array([[0, 1], [-1, 1]])}, "edge 0 has target -1"),
    ({"edges": np.array([[0, -3], [1, 1]])}, "edge 1 has source -3"),
    ({"edges": np.array([[0, 2**40], [1, 1]])}, "edge 1 has source 1099511627776"),
    ({"edges": np.array([[0, 2**63 + 1], [1, 1]], np.uint64)}, "edge 1 has source 9223372036854775809"),
    ({"edges": np.zeros((3, 2), int)}, r"edge_index must have shape \(2, E\), got \(3, 2\)"),
    ({"edges": np.zeros(4, int)}, r"edge_index must have shape \(2, E\), got \(4,\)"),
    ({"edges": np.zeros((2, 3))}, "edge_index must hold integers, got float64"),
    ({"edges": np.zeros((2, 3), bool)}, "edge_index must hold integers, got bool"),
    ({"x": np.zeros((3, 2))}, r"x must have shape \(4, features\), one row per node, got \(3, 2\)"),
    ({"x": np.zeros(4)}, r"x must have shape \(4, features\)"),
    ({"x": [[1, 2], [3]]}, "x is not an array of numbers"),
    ({"x": np.zeros((4, 1), complex)}, "x must be real"),
    ({"x": np.array([[0, 0], [0, np.nan], [0, 0], [0, 0]])}, r"x\[1, 1\] is nan: fill or drop"),
    ({"x": np.array([[0], [0], [0], [-np.inf]])}, r"x\[3, 0\] is -inf"),
    ({"x": np.array([[0], [1e39], [0], [0]])}, r"x\[1, 0\] is inf"),
    ({"y": np.zeros(3, int)}, r"y must have shape \(4,\) for classification, one row per node, got \(3,\)"),
    ({"y": np.zeros((4, 2), int), "task": "classification"}, r"y must have shape \(4,\) for classification"),
    ({"y": np.full((4, 2), 7)}, r"y\[0, 0\] is 7: y holds 0, 1, or NaN where unknown; give task='regression'"),
    ({"y": np.zeros((3, 2), int)}, r"y must have shape \(4, labels\) for multilabel"),
    ({"y": [0, 1, 2, 1.5], "task": "classification"}, "y must hold whole numbers"),
    ({"y": [0, 1, np.nan, 1]}, "node 2 is in val_mask but has no label"),
    ({"y": [0.5, 1, np.nan, 1]}, "node 2 is in val_mask but has no label"),
    ({"y": [0.5, 1, np.inf, 1]}, r"y\[2\] is inf: y holds numbers, NaN where unknown"),
    ({"y": [[0, 1], [1, 1], [0, 2], [0, 0]]}, r"y\[2, 1\] is 2: y holds 0, 1, or NaN where unknown"),
    ({"task": "ranking"}, "task 'ranking' is unknown: choose from classification, regression, multilabel"),
    ({"positive": "c", "class_names": ("a", "b")}, "positive 'c' is not a class: choose a or b"),
    ({"positive": 2}, "positive must be class 0 or 1, or its name, got 2"),
    ({"positive": 1, "num_classes": 3}, "positive is for two classes, and this graph has 3"),
    ({"y": [0, 1, 5, 1], "num_classes": 3}, r"y\[2\] is 5: labels run from 0 to 2"),
    ({"y": [0, -7, 0, 1]}, r"y\[1\] is -7"),
    ({"y": [-1, 1, 0, 1]}, r"node 0 is in train_mask but has no label"),
    ({"y": [0, 1, 0, -1]}, r"node 3 is in test_mask but has no label"),
    ({"train_mask": np.ones(4, bool)}, "train_mask and val_mask overlap in 1 nodes, the first being 2"),
    ({"test_mask": GOOD["val_mask"]}, "val_mask and test_mask overlap"),
    ({"train_mask": np.zeros(4, bool)}, "train_mask is empty"),
    ({"train_mask": None}, "train_mask is empty"),
    ({"train_mask": np.zeros(5, bool)}, "train_mask has 5 values for 4 nodes"),
    ({"train_mask": np.zeros((4, 3), bool)}, "train_mask must be a vector"),
    ({"train_mask": np.zeros(4)}, "train_mask must be boolean or hold node ids"),
    ({"train_mask": [0, 4]}, r"train_mask\[1\] is node 4: node ids run from 0 to 3"),
    ({"train_mask": [0, -1]}, r"train_mask\[1\] is node -1"),
    ({"edge_weight": np.ones(3)}, "edge_weight has 3 values for 4 edges"),
    ({"edge_weight": np.ones((4, 2))}, r"edge_weight must have shape \(4,\)"),
    ({"edge_weight": [1, 2, np.inf, 1]}, "edge_weight.* is inf"),
    ({"edge_weight": [1, 2, -3, 1]}, "edge_weight.* is -3: a weight is a finite number, 0 or more"),
    ({"metric": "g1"}, "metric 'g1' is not one for two classes: choose from accuracy"),
    ({"metric": "roc_auc", "num_classes": 3}, "metric 'roc_auc' is not one for 3 classes"),
    ({"metric": "r2"}, "metric 'r2' is not one for two classes"),
    ({"metric": "accuracy", "task": "regression"}, "metric 'accuracy' is not one for regression"),
    ({"class_names": ("a",)}, "1 class names for 2 classes"),
    ({"undirected": True}, "said to be undirected, but an edge lacks its reverse"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD, ids=[m[:36] for _, m in BAD])
def test_nothing_bad_gets_past_the_door(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message) as caught:
        make(**changes)
    assert "\n" not in str(caught.value)


BAD_CSR: list[tuple[Any, Any, str]] = [
    ([], [], "indptr is empty"),
    ([0, 1], [[0]], "indices must be a vector of integers"),
    ([0.0, 1.0], [0], "indptr must be a vector of integers"),
    ([0, 1, 3], [0, 1], "indptr must rise from 0 to the number of edges, 2"),
    ([1, 2], [0, 0], "indptr must rise from 0"),
    ([0, 2, 1, 3], [0, 0, 0], "indptr must rise from 0"),
    ([0, 1], [1], "edge 0 has source 1: node ids run from 0 to 0"),
    ([0, 1], [-1], "edge 0 has source -1"),
]


@pytest.mark.parametrize(("indptr", "indices", "message"), BAD_CSR, ids=[m[:36] for *_, m in BAD_CSR])
def test_a_bad_csr(indptr: Any, indices: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Graph(*(np.array(a, None if a else int) for a in (indptr, indices)))  # type: ignore[arg-type]


def test_many_features_are_checked_to_the_last() -> None:
    x = np.zeros((70_000, 1), np.float32)
    x[-1] = np.nan
    with pytest.raises(GraphError, match=r"x\[69999, 0\] is nan"):
        Graph.from_edge_index(np.empty((2, 0), int), x=x)


def test_every_array_has_a_part_in_the_identity() -> None:
    graph = make_graph(60)
    graph = graph.replace(edge_weight=torch.ones(graph.num_edges), undirected=None)
    arrays = [f.name for f in dataclasses.fields(graph) if isinstance(getattr(graph, f.name), torch.Tensor)]
    assert set(arrays) >= {"indptr", "indices", "x", "y", "train_mask", "val_mask", "test_mask", "edge_weight"}
    for name in arrays:
        value = getattr(graph, name).clone()
        value[-1] = ~value[-1] if value.dtype == torch.bool else value[-1] + 1
        assert dataclasses.replace(graph, **{name: value}).identity() != graph.identity(), name


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.int8])
def test_a_mask_of_integers_is_a_mask_and_said_to_be_read_as_one(dtype: type) -> None:
    mask = np.array([1, 0, 1, 1, 0], dtype)
    with pytest.warns(UserWarning, match="train_mask holds 0 and 1 for each of 5 nodes: it is read as a mask"):
        graph = Graph.from_edge_index([[0], [1]], y=[0, 1, 0, 1, 0], train_mask=mask, val_mask=[1, 4])
    assert graph.train_mask is not None
    assert graph.train_mask.nonzero().squeeze(1).tolist() == [0, 2, 3]


@pytest.mark.parametrize(("n", "mask"), [(2, [0, 1]), (2, [1, 1]), (1, [0])])
def test_what_may_be_a_mask_or_ids_is_refused(n: int, mask: list[int]) -> None:
    with pytest.raises(GraphError, match="which may be a mask or node ids: give booleans"):
        Graph.from_edge_index([[0], [0]], y=[0] * n, train_mask=mask)


def test_bytes_that_are_ids_are_ids() -> None:
    graph = Graph.from_edge_index([[0], [1]], y=[0, 1, 0], train_mask=np.array([2, 0, 1], np.uint8))
    assert graph.train_mask is not None
    assert graph.train_mask.tolist() == [True] * 3


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("edge_weight", torch.ones(3).to_sparse()),
        ("x", torch.eye(3).to_sparse_csc()),
        ("x", torch.eye(3, dtype=torch.complex64).to_sparse_csr()),
        ("x", torch.eye(3, dtype=torch.complex64).to_sparse_coo()),
        ("x", torch.zeros(3, 2, device="meta")),
        ("x", torch.zeros(3, 2, dtype=torch.complex64)),
        ("x", [["a"], ["b"], ["c"]]),
        ("x", [[1], [2, 3], [4]]),
        ("x", {"a": 1}),
        ("y", np.zeros(3, [("a", "<i4")])),
        ("y", torch.tensor(1)),
        ("edge_index", None),
        ("edge_index", [[0, 1], [1]]),
        ("edge_index", torch.zeros(2, 3, device="meta", dtype=torch.int64)),
        ("edge_weight", [1.0, "a", 2.0]),
        ("edge_weight", torch.tensor(1.0)),
        ("num_nodes", 3.0),
        ("num_nodes", -1),
        ("num_nodes", True),
        ("num_nodes", 10**30),
        ("num_classes", "two"),
        ("class_names", "ab"),
        ("class_names", (1, 2)),
        ("undirected", "yes"),
        ("name", 7),
        ("train_mask", [[0, 1], [2]]),
    ],
)
def test_fields_of_other_types_are_refused(field: str, value: object) -> None:
    fields = {"edge_index": [[0, 1, 2], [1, 2, 0]], "x": np.eye(3), "y": [0, 1, 1], field: value}
    with pytest.raises(GraphError):
        Graph.from_edge_index(**fields)  # type: ignore[arg-type]


def test_ids_are_integers_or_text() -> None:
    edges = [[0], [1]]
    assert Graph.from_edge_index(edges, ids=np.array([7, 2], np.uint8)).ids.dtype == np.int64  # type: ignore[union-attr]
    assert Graph.from_edge_index(edges, ids=["b", "a"]).to_undirected().ids.tolist() == ["b", "a"]  # type: ignore[union-attr]
    for wrong, words in (([1.5, 2.0], "integers below"), ([2**63, 1], "integers below"), (["a"], "one for every node")):
        with pytest.raises(GraphError, match=words):
            Graph.from_edge_index(edges, 2, ids=wrong)


def test_weights_that_differ_by_rounding_are_one_weight() -> None:
    edges = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    graph = Graph.from_edge_index(edges, edge_weight=[1 / 3, 0.333333, 2.0, 2.0])
    assert graph.undirected
    assert graph.edge_weight is not None
    assert graph.edge_weight[0] == graph.edge_weight[1] != 1 / 3
    assert not Graph.from_edge_index(edges, edge_weight=[1 / 3, 0.3334, 2.0, 2.0]).undirected


def test_ways_to_merge_repeated_edges() -> None:
    graph = Graph.from_edge_index([[0, 2, 0, 0], [1, 1, 1, 1]], edge_weight=[4.0, 9.0, 1.0, 1.0])
    for weights, expected in {"sum": [6, 9], "mean": [2, 9], "first": [4, 9], "count": [3, 1]}.items():
        merged = graph.coalesce(weights)  # type: ignore[arg-type]
        assert merged.edge_weight is not None
        assert (merged.edge_index.tolist(), merged.edge_weight.tolist()) == ([[0, 2], [1, 1]], expected)


def test_names_of_classes_differ() -> None:
    with pytest.raises(GraphError, match="class_names holds a name twice"):
        Graph.from_edge_index([[0], [1]], y=[0, 1], class_names=("a", "a"))


@pytest.mark.parametrize("kind", ["csr_array", "csc_matrix", "coo_array", "lil_array"])
def test_sparse_features_of_scipy(kind: str) -> None:
    x = np.where(np.random.default_rng(0).random((9, 5)) < 0.3, 1.5, 0)
    graph = Graph.from_edge_index([[0, 1], [8, 2]], 9, x=getattr(sp, kind)(x))
    assert graph.x is not None
    assert sparse.is_sparse(graph.x)
    assert graph.num_features == 5
    assert graph.x.dtype == torch.float32
    assert np.array_equal(sparse.dense(graph.x).numpy(), x.astype(np.float32))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("place", [-1, 4, 99_999_999])
def test_sparse_features_of_scipy_outside_of_the_matrix(kind: str, place: int) -> None:
    """scipy's conversions write to these places."""
    x = sp.coo_array(np.eye(4)).asformat(kind)
    if kind == "coo":
        x.coords = (np.array([0, 1, 2, place]), x.coords[1])
    else:
        x.indices = np.array([0, 1, 2, place], x.indices.dtype)
    with pytest.raises(GraphError, match="x is no sparse matrix"):
        Graph.from_edge_index([[0], [1]], 4, x=x)


def test_sparse_features_with_fractions_as_columns() -> None:
    x = sp.csr_array(np.eye(3))
    x.indices = np.array([0.9, 1.7, 2.2])
    with pytest.raises(GraphError, match="whole numbers"):
        Graph.from_edge_index([[0], [1]], 3, x=x)


def test_stored_zeros_do_not_change_the_identity() -> None:
    x = sp.csr_array(np.eye(3))
    more = sp.csr_array((np.array([1.0, 0, 1, 5, -5, 1]), np.array([0, 2, 1, 0, 0, 2]), np.array([0, 2, 3, 6])), (3, 3))
    graphs = [Graph.from_edge_index([[0], [1]], 3, x=one) for one in (x, more)]
    assert graphs[0].identity() == graphs[1].identity()
    assert more.nnz == 6  # the matrix itself is as it was


def test_sparse_features_of_torch_are_put_in_order() -> None:
    """The columns of a row ascend, and a column that is there twice has the sum."""
    arrays = torch.tensor([0, 3, 3, 4]), torch.tensor([2, 0, 2, 1]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    x = torch.sparse_csr_tensor(*arrays, (3, 3), check_invariants=False)
    for value in (x, torch.tensor([[2.0, 0, 4], [0, 0, 0], [0, 4, 0]]).to_sparse_coo()):
        graph = Graph.from_edge_index([[0], [1]], 3, x=value)
        assert graph.x is not None
        assert graph.x.col_indices().tolist() == [0, 2, 1]
        assert graph.x.values().tolist() == [2, 4, 4]
        assert graph.x.crow_indices().tolist() == [0, 2, 2, 3]


@pytest.mark.parametrize(
    ("indptr", "columns", "values", "words"),
    [
        ([0, 1, 2], [0, 1], [1.0, 2.0], "one row per node"),
        ([0, 1, 3, 2], [0, 1], [1.0, 2.0], "the starts of its rows"),
        ([0, 1, 1, 3], [0, 1], [1.0, 2.0], "the starts of its rows"),
        ([1, 1, 1, 2], [0, 1], [1.0, 2.0], "the starts of its rows"),
        ([0, 1, 1, 2], [0, 1], [1.0], "the starts of its rows"),
        ([0, 1, 1, 2], [0, 5], [1.0, 2.0], "value 1 is in column 5"),
        ([0, 1, 1, 2], [-1, 1], [1.0, 2.0], "value 0 is in column -1"),
        ([0, 1, 1, 2], [0, 1], [1.0, np.nan], "x.values\\(\\)"),
    ],
)
def test_sparse_features_that_are_no_matrix(indptr: Any, columns: Any, values: Any, words: str) -> None:
    arrays = torch.tensor(indptr), torch.tensor(columns), torch.tensor(values)
    x = torch.sparse_csr_tensor(*arrays, (len(indptr) - 1, 4), check_invariants=False)
    with pytest.raises(GraphError, match=words):
        Graph.from_edge_index([[0], [1]], 3, x=x)


def test_the_fingerprint_of_sparse_features() -> None:
    x = torch.eye(4)
    others = [x, x.to_sparse_csr(), (2 * x).to_sparse_csr(), x.flip(0).to_sparse_csr(), torch.eye(4, 5).to_sparse_csr()]
    assert len({fingerprint(one) for one in others}) == len(others)
    assert fingerprint(others[1]) == fingerprint(x.to_sparse_csr())


def test_sparse_features_reach_another_process() -> None:
    graph = Graph.from_edge_index([[0, 1], [1, 2]], 3, x=torch.eye(3).to_sparse_csr())
    again = pickle.loads(ForkingPickler.dumps(graph))
    assert again.identity() == graph.identity()
    assert torch.equal(sparse.dense(again.x), torch.eye(3))
