"""Importance of columns, and what is left out, against predictions for graphs that were changed by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import handful as hf
from handful.datasets.importer import import_tables
from handful.errors import HandfulError
from handful.graph import MASKS
from handful.report.page import write_finding
from handful.runs import refit
from handful.studies.explain import column_groups, explain, importance, moved_by

pa = pytest.importorskip("pyarrow")
NODES = 240


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> hf.OpenedRun:
    """The class is that of the column ``plan``; ``noise`` and ``city`` say nothing."""
    folder, rng = tmp_path_factory.mktemp("explained"), np.random.default_rng(0)
    plan = rng.integers(0, 2, NODES)
    nodes = {"id": [f"n{i}" for i in range(NODES)], "label": np.where(plan == 1, "good", "bad").tolist()}
    nodes |= {"noise": rng.normal(size=NODES), "plan": np.array(["a", "b"])[plan].tolist()}
    nodes["name"] = [f"Ann {i}" for i in range(NODES)]
    nodes["city"] = np.array(["Oslo", "Rome", "Lyon"])[rng.integers(0, 3, NODES)].tolist()
    ends = rng.integers(0, NODES, (2, 3 * NODES))
    edges = {"source": [f"n{i}" for i in ends[0]], "target": [f"n{i}" for i in ends[1]]}
    graph = import_tables(pa.table(edges), pa.table(nodes), keep="name").to_undirected()
    hf.save(graph.replace(**hf.datasets.stratified_split(graph.y, (0.5, 0.25, 0.25), 0)), folder / "graph")
    hf.Experiment(folder / "graph", hidden=16, layers=2, epochs=30, lr=0.02, seeds=(1,)).run(folder / "run")
    return hf.open_run(folder / "run")


def test_the_column_that_decides_matters_most(run: hf.OpenedRun) -> None:
    graph = run.load()
    groups = column_groups(graph)
    assert groups == {"noise": (0, 1), "plan": (1, 3), "city": (4, 4)}
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
    (move,) = [change for name, change in moves.items() if name.startswith(f"neighbour n{neighbour}, ")]
    assert move == pytest.approx(100 * (p - run.predict_proba(cut)[node])[p.argmax()], abs=1e-3)
    x = graph.x.clone()
    x[node, 1:4] = graph.x[:, 1:4].mean(0)
    without = run.predict_proba(graph.replace(x=x))[node]
    assert moves["plan"] == pytest.approx(100 * (p - without)[p.argmax()], abs=1e-3)


def test_sparse_features_are_explained_as_dense_ones(run: hf.OpenedRun) -> None:
    graph = run.load()
    sparse = graph.replace(x=graph.x.to_sparse_csr())
    groups = column_groups(graph)
    wanted, lost = (importance(run, one, groups, print)[0] for one in (graph, sparse))
    assert lost == pytest.approx(wanted, abs=1e-6)
    assert moved_by(run, sparse, 7, groups)[2] == pytest.approx(moved_by(run, graph, 7, groups)[2], abs=1e-3)


def test_a_node_is_explained_by_the_models_that_predict_it(run: hf.OpenedRun, tmp_path: Path) -> None:
    assert run.experiment is not None
    run.experiment.with_(epochs=3, seeds=(1, 2)).run(tmp_path / "run")
    opened = hf.open_run(tmp_path / "run")
    before = moved_by(opened, opened.load(), 7, {})[1]
    assert before == pytest.approx(100 * opened.predict_proba()[7].max(), abs=1e-3)
    refit(opened)
    after = moved_by(opened, opened.load(), 7, {})[1]
    assert after == pytest.approx(100 * opened.predict_proba()[7].max(), abs=1e-3)
    assert after != before


def test_the_neighbours_of_a_node_are_a_picture_with_names(run: hf.OpenedRun, tmp_path: Path) -> None:
    graph, node = run.load(), 7
    _, _, moves = moved_by(run, graph, node, column_groups(graph))
    near = {name.removeprefix("neighbour "): change for name, change in moves.items() if name.startswith("neighbour ")}
    finding = explain(run, graph, np.array([node]))
    chart = finding.charts[1]
    bars, star = chart.views
    assert (chart.name, bars.mark, star.mark, star.x.label) == ("node-n7", "bar", "star", "n7, Ann 7")
    assert star.x.of == list(near)[:8]
    drawn = {name: y for one in star.series for name, y in zip(one.x, one.y, strict=True)}
    assert drawn == pytest.approx({name: near[name] for name in star.x.of})
    raises, lowers = star.series
    assert raises.color != lowers.color
    assert min(raises.y, default=0) >= 0 >= max(lowers.y, default=0)
    assert all(name.split(", Ann ")[0].removeprefix("n") == name.split(", Ann ")[1].split(" ")[0] for name in near)
    write_finding(finding, tmp_path)
    assert "Ann 7" in (tmp_path / "node-n7-neighbours.svg").read_text()


def test_a_node_without_neighbours_has_no_picture_of_them(run: hf.OpenedRun) -> None:
    graph = run.load()
    edges = graph.edge_index[:, (graph.edge_index != 7).all(0)].numpy()
    fields = {name: getattr(graph, name) for name in ("x", "y", "ids", "kept", "schema", *MASKS)}
    alone = hf.Graph.from_edge_index(edges, NODES, num_classes=2, **fields)
    assert [view.mark for view in explain(run, alone, np.array([7])).charts[1].views] == ["bar"]


def test_what_cannot_be_explained(run: hf.OpenedRun) -> None:
    with pytest.raises(HandfulError, match="at most 20"):
        explain(run, run.load(), np.arange(21))
