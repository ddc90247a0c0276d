"""Importance of columns, and what is left out, against predictions for graphs that were changed by hand."""

from __future__ import annotations

import numpy as np
import pytest

import handful as hf
from handful.datasets.importer import import_tables
from handful.errors import HandfulError
from handful.studies.explain import column_groups, explain, moved_by

pa = pytest.importorskip("pyarrow")
NODES = 240


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> hf.OpenedRun:
    """The class is that of the column ``plan``; ``noise`` and ``city`` say nothing."""
    folder, rng = tmp_path_factory.mktemp("explained"), np.random.default_rng(0)
    plan = rng.integers(0, 2, NODES)
    nodes = {"id": [f"n{i}" for i in range(NODES)], "label": np.where(plan == 1, "good", "bad").tolist()}
    nodes |= {"noise": rng.normal(size=NODES), "plan": np.array(["a", "b"])[plan].tolist()}
    nodes["city"] = np.array(["Oslo", "Rome", "Lyon"])[rng.integers(0, 3, NODES)].tolist()
    ends = rng.integers(0, NODES, (2, 3 * NODES))
    edges = {"source": [f"n{i}" for i in ends[0]], "target": [f"n{i}" for i in ends[1]]}
    graph = import_tables(pa.table(edges), pa.table(nodes)).to_undirected()
    hf.save(graph.replace(**hf.datasets.stratified_split(graph.y, (0.5, 0.25, 0.25), 0)), folder / "graph")
    hf.Experiment(folder / "graph", hidden=16, layers=2, epochs=30, lr=0.02, seeds=(1,)).run(folder / "run")
    return hf.open_run(folder / "run")


def test_the_column_that_decides_matters_most(run: hf.OpenedRun) -> None:
    graph = run.load()
    groups = column_groups(graph)
    assert {name: place.stop - place.start for name, place in groups.items()} == {"noise": 1, "plan": 3, "city": 4}
    found = explain(run, graph)
    lost = found.payload["importance"]
    assert max(lost, key=lost.__getitem__) == "plan"
    assert lost["plan"] > 0.2
    assert next(row[0].text for row in found.tables[0].rows) == "plan"
    assert len(found.tables) == 1


def test_what_is_left_out_is_what_another_graph_predicts(run: hf.OpenedRun) -> None:
    graph, node = run.load(), 7
    _, base, moves = moved_by(run, graph, node, column_groups(graph))
    p = run.predict_proba(graph)[node]
    assert base == pytest.approx(100 * p.max(), abs=1e-3)
    edges = graph.edge_index.numpy()
    neighbour = int(edges[0][edges[1] == node][0])
    kept = [{u, v} != {node, neighbour} for u, v in edges.T.tolist()]
    cut = hf.Graph.from_edge_index(edges[:, kept], NODES, x=graph.x, schema=graph.schema)
    (move,) = [change for name, change in moves.items() if name.startswith(f"neighbour n{neighbour} ")]
    assert move == pytest.approx(100 * (p - run.predict_proba(cut)[node])[p.argmax()], abs=1e-3)
    x = graph.x.clone()
    x[node, 1:4] = graph.x[:, 1:4].mean(0)
    without = run.predict_proba(graph.replace(x=x))[node]
    assert moves["plan"] == pytest.approx(100 * (p - without)[p.argmax()], abs=1e-3)
    assert len(explain(run, graph, np.array([node])).charts) == 2


def test_what_cannot_be_explained(run: hf.OpenedRun) -> None:
    with pytest.raises(HandfulError, match="at most 20"):
        explain(run, run.load(), np.arange(21))
