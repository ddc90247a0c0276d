from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.programs import finished
from handful.datasets import load, write
from handful.datasets.synthetic import BlockModel, generate, write_within
from handful.errors import HandfulError
from handful.graph import MASKS, Graph
from handful.kernels.threads import get_threads, set_threads
from handful.storage import save


@pytest.fixture(scope="module")
def large() -> Graph:
    return generate(BlockModel(nodes=200_000, degree=12, exponent=2.5, classes=4, homophily=0.7, features=8))


def homophily(graph: Graph) -> float:
    assert graph.y is not None
    sources, targets = graph.edge_index
    return float((graph.y[sources] == graph.y[targets]).double().mean())


@given(
    st.builds(
        BlockModel,
        nodes=st.integers(100, 400),
        degree=st.floats(0, 10),
        exponent=st.floats(2.05, 8),
        classes=st.integers(2, 5),
        homophily=st.floats(0, 1),
        features=st.integers(0, 5),
        half=st.booleans(),
        train=st.floats(0.1, 0.5),
        seed=st.integers(0, 5),
    )
)
@settings(max_examples=60, deadline=None)
def test_simple_undirected_and_of_the_size_asked_for(model: BlockModel) -> None:
    graph = generate(model)
    assert graph.undirected
    assert not graph.has_loops
    assert graph.coalesce().num_edges == graph.num_edges <= model.nodes * model.degree + 1
    assert graph.y is not None
    sizes = torch.bincount(graph.y, minlength=model.classes)
    assert int(sizes.max() - sizes.min()) <= 1
    assert graph.num_features == model.features
    if graph.x is not None:
        assert graph.x.dtype == (torch.float16 if model.half else torch.float32)
    assert graph.train_mask is not None
    assert int(graph.train_mask.sum()) == round(model.nodes * model.train)


def test_mean_degree_and_homophily_are_close_below_what_was_asked(large: Graph) -> None:
    mean = large.num_edges / large.num_nodes
    assert 0.98 * 12 < mean <= 12
    assert homophily(large) == pytest.approx(0.7, abs=0.01)
    assert homophily(generate(BlockModel(nodes=20_000, homophily=0.1, features=0))) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("exponent", [2.3, 3.0])
def test_degrees_have_the_exponent_asked_for(exponent: float) -> None:
    model = BlockModel(nodes=200_000, degree=12, exponent=exponent, classes=2, features=0)
    degree = generate(model).in_degree.numpy()
    # Slope of log P(degree >= k) against log k between the mean and a third of the cutoff: 1 - exponent.
    ks = np.unique(np.geomspace(24, degree.max() / 3, 12).astype(int))
    tail = np.array([(degree >= k).mean() for k in ks])
    slope = np.polyfit(np.log(ks), np.log(tail), 1)[0]
    assert 1 - slope == pytest.approx(exponent, abs=0.2)


def test_edges_follow_the_weights_and_not_the_ids(large: Graph) -> None:
    """Degree-corrected: a neighbour of a node is a hub or not whatever the node's own degree."""
    degree = large.in_degree.double()
    sources, targets = large.edge_index
    own, other = degree[targets].log(), degree[sources].log()
    assert abs(float(torch.corrcoef(torch.stack([own, other]))[0, 1])) < 0.05
    ids = torch.arange(large.num_nodes).double()
    assert abs(float(torch.corrcoef(torch.stack([ids, degree]))[0, 1])) < 0.02


def test_other_classes_are_met_equally(large: Graph) -> None:
    assert large.y is not None
    sources, targets = large.edge_index
    table = torch.bincount(large.y[targets] * 4 + large.y[sources], minlength=16).reshape(4, 4).double()
    table /= table.sum(1, keepdim=True)
    expected = torch.full((4, 4), 0.1, dtype=torch.float64).fill_diagonal_(0.7)
    assert float((table - expected).abs().max()) < 0.02


def test_features_are_the_mean_of_the_class_and_standard_noise(large: Graph) -> None:
    assert large.x is not None
    assert large.y is not None
    for c in range(4):
        x = large.x[large.y == c].double()
        assert float(x.mean(0).norm()) == pytest.approx(2, abs=0.05)
        noise = x - x.mean(0)
        assert torch.allclose(torch.cov(noise.t()), torch.eye(8, dtype=torch.float64), atol=0.03)
        assert float((noise**4).mean()) == pytest.approx(3, abs=0.1)


def same(a: Graph, b: Graph) -> bool:
    return all(torch.equal(getattr(a, n), getattr(b, n)) for n in ("indices", "indptr", "x", "y", "train_mask"))


def test_the_seed_decides_and_threads_do_not() -> None:
    model = BlockModel(nodes=30_000, degree=8, features=5)
    before = get_threads()
    try:
        graphs = []
        for threads in (1, 3):
            set_threads(threads)
            graphs.append(generate(model))
    finally:
        set_threads(before)
    assert same(*graphs)
    other = load("synthetic?nodes=30000&degree=8&features=5&seed=1")
    assert not torch.equal(graphs[0].indices, other.indices)
    assert same(graphs[0], load("synthetic?nodes=3e4&degree=8&features=5"))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("nodes=5", "nodes must be between 20 and"),
        ("nodes=-5", "nodes must be between"),
        ("degree=-1", "degree must be between 0"),
        ("nodes=100&degree=9", "degree must be between 0 and 5, got 9"),
        ("exponent=2", "exponent must lie in (2, 1,000]"),
        ("exponent=nan", "exponent must be a finite number"),
        ("classes=1", "classes must lie in [2, 32,768]"),
        ("homophily=1.5", "homophily must lie in [0, 1]"),
        ("train=0", "train must be"),
        ("train=0.9&val=0.2", "val must be between 0 and 0.1"),
        ("signal=nan", "signal must be"),
        ("train=0.5&val=0.2&test=0.4", "test must be between 0 and 0.3"),
        ("half=1&bfloat16=1", "give half or bfloat16"),
    ],
)
def test_options_that_make_no_graph(query: str, message: str) -> None:
    with pytest.raises(HandfulError, match=re.escape(message)):
        load(f"synthetic?{query}")


@given(
    st.builds(
        BlockModel,
        nodes=st.integers(100, 1000),
        degree=st.floats(0, 10),
        classes=st.integers(2, 5),
        features=st.integers(0, 5),
        half=st.booleans(),
        train=st.floats(0.1, 0.5),
        test=st.none() | st.floats(0, 0.2),
        seed=st.integers(0, 5),
    ),
    st.sampled_from([10_000, 50_000, 1 << 24]),
)
@settings(max_examples=15, deadline=None)
def test_straight_to_a_folder_it_is_the_same_whatever_the_room(model: BlockModel, room: int) -> None:
    with TemporaryDirectory() as folder:
        whole, pieces = save(generate(model), Path(folder, "whole")), Path(folder, "pieces")
        write_within(model, pieces, room)
        assert sorted(path.name for path in pieces.iterdir()) == sorted(path.name for path in whole.iterdir())
        for path in whole.iterdir():
            assert path.read_bytes() == (pieces / path.name).read_bytes(), path.name


def test_brain_floats_and_a_share_of_test_nodes(tmp_path: Path) -> None:
    name = "synthetic?nodes=400&degree=4&features=3&bfloat16=1&train=0.1&val=0.1&test=0.2"
    graph = load(name)
    assert graph.x is not None
    assert graph.x.dtype == torch.bfloat16
    assert [int(getattr(graph, mask).sum()) for mask in MASKS] == [40, 40, 80]
    write(name, tmp_path / "g", memory="8GiB")
    assert (tmp_path / "g" / "x.npy").read_bytes() == (save(graph, tmp_path / "h") / "x.npy").read_bytes()


def test_too_little_memory_names_what_would_do(tmp_path: Path) -> None:
    with pytest.raises(HandfulError, match=r"synthetic with 1,000 nodes needs 64.0 MiB beside .*: give at least"):
        write("synthetic?nodes=1000", tmp_path / "g", memory="1MiB")
    assert not (tmp_path / "g").exists()


WATCHED = """
import sys, threading, time
from handful.budget import anonymous
from handful.datasets import write
small, name, folder = sys.argv[1:]
write(small, folder, "8GiB")  # compile first
peak, held = [0], anonymous()
def watch():
    while True:
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.01)
threading.Thread(target=watch, daemon=True).start()
budget = held + (80 << 20)
write(name, folder, budget)
print(budget - peak[0], peak[0] - held)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell")
def test_the_budget_is_kept(tmp_path: Path) -> None:
    """Two million edges and 51 MB of features, while 80 MiB may be held beside what Python and its libraries take."""
    small, large = (f"synthetic?nodes={nodes}&degree=10&half=1&features=128" for nodes in (1000, 200_000))
    out, _ = finished("-c", WATCHED, small, large, tmp_path / "g", timeout=300)
    spare, used = map(int, out.split())
    assert spare >= 0
    assert used > 10 << 20
