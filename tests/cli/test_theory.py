"""``handful diagnose``, ``structure`` and ``study`` as a user meets them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cli.run import handful
from graphs import make_graph
from handful.kernels.threads import get_threads, set_threads

TERMS = {"bias", "loss_variance", "R", "grad_norm_sq", "alpha_error"}
MEASURES = {
    "edges",
    "average_degree",
    "isolated",
    "components",
    "largest_component",
    "diameter_lower_bound",
    "average_distance",
}
SMALL = ("--hidden", 8, "--layers", 2, "--batches", 6, "--repeats", 3)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """The graphs of these tests are so small that a second thread only waits."""
    before = get_threads()
    set_threads(1)
    yield
    set_threads(before)


@pytest.fixture
def npz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HANDFUL_HOME", str(tmp_path / "home"))
    graph = make_graph(400)
    named = {name: getattr(graph, name).numpy() for name in ("x", "y", "train_mask", "val_mask", "test_mask")}
    np.savez(tmp_path / "my.npz", edge_index=graph.edge_index.numpy(), **named)
    return tmp_path / "my.npz"


def test_diagnose_json(npz: Path, tmp_path: Path) -> None:
    options = ("-s", "cluster.clusters=8", "-s", "cluster.per_batch=2", "-s", "saint.roots=40", "--out", tmp_path / "d")
    result = handful("diagnose", npz, *SMALL, "--samplers", "rns,cluster,saint,neighbor,ladies", *options, "--json")
    assert result.code == 0, result.stderr
    found = result.json
    assert set(found) == {"graph", "samplers"}
    assert found["graph"] == "my"
    assert [s["name"] for s in found["samplers"]] == ["rns", "cluster", "saint", "neighbor", "ladies"]
    for sampler in found["samplers"]:
        assert set(sampler) == {"name", *TERMS}
        assert all(set(sampler[term]) == {"mean", "ci95"} for term in TERMS)
        assert sampler["R"]["mean"] > 0
        assert sampler["bias"]["mean"] >= 0
    record = json.loads((tmp_path / "d" / "diagnose.json").read_text())
    assert len(record["samplers"][0]["repeats"]["R"]) == 3
    assert np.mean(record["samplers"][0]["repeats"]["R"]) == pytest.approx(found["samplers"][0]["R"]["mean"])
    assert record["samplers"][1]["options"]["clusters"] == 8
    for name in ("terms.svg", "alpha-R.svg"):
        assert "<svg" in (tmp_path / "d" / name).read_text()


def test_diagnose_for_people(npz: Path) -> None:
    more = ("-s", "neighbor.batch_size=10", "--step", 0.1, "--momentum", 0.5)
    result = handful("diagnose", npz, *SMALL, "--samplers", "rns,neighbor,full", *more)
    assert result.code == 0, result.stderr
    assert "rns has the least gradient variance" in " ".join(result.stdout.split())
    assert "L̃ at α = 0.1" in result.stdout
    whole = handful("diagnose", npz, *SMALL, "--samplers", "full")
    assert "Every batch is the whole graph" in whole.stdout


def test_diagnose_at_trained_weights(npz: Path, tmp_path: Path) -> None:
    shape = ("--hidden", 8, "--layers", 2, "--no-residual")
    trained = handful(
        "train", npz, *shape, "--epochs", 30, "--lr", 0.05, "--seeds", 1, "--out", tmp_path / "run", "--json"
    )
    assert trained.code == 0, trained.stderr
    at = handful(
        "diagnose",
        npz,
        *SMALL,
        "--samplers",
        "rns",
        "--weights",
        tmp_path / "run" / "seed-1",
        "--out",
        tmp_path,
        "--json",
    )
    assert at.code == 0, at.stderr
    sampler = json.loads((tmp_path / "diagnose.json").read_text())["samplers"][0]
    assert sampler["full_loss"]["mean"] < 1.0
    assert sampler["full_loss"]["ci95"] == pytest.approx(0)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--samplers", "rns,neighbour"), "neighbor"),
        (("--samplers", ","), "names no sampler"),
        (("-s", "parts=3"), "sampler.name=value"),
        (("-s", "ladies.budget=3"), "not among --samplers"),
        (("--norm", "batch"), "there is no norm 'batch'"),
    ],
)
def test_diagnose_mistakes_are_one_line(npz: Path, args: tuple[str, ...], says: str) -> None:
    result = handful("diagnose", npz, *SMALL, *args)
    assert result.code == 2
    assert result.stdout == ""
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_structure_json(npz: Path, tmp_path: Path) -> None:
    result = handful("structure", npz, "--parts", "1,2,8", "--epochs", 3, "--out", tmp_path / "s", "--json")
    assert result.code == 0, result.stderr
    found = result.json
    assert set(found) == {"graph", "parts"}
    assert [row["m"] for row in found["parts"]] == [1, 2, 8]
    for row in found["parts"]:
        assert set(row) == {"m", *MEASURES}
        assert all(set(row[name]) == {"mean", "sd"} for name in MEASURES)
    assert found["parts"][0]["edges"] == {"mean": make_graph(400).without_loops().coalesce().num_edges, "sd": 0}
    assert json.loads((tmp_path / "s" / "structure.json").read_text())["settings"]["epochs"] == 3
    assert "<svg" in (tmp_path / "s" / "structure.svg").read_text()
    people = handful("structure", npz, "--parts", "1,2", "--epochs", 2)
    assert people.code == 0
    assert "From m = 1 to 2" in people.stdout


def test_structure_of_a_graph_without_labels(tmp_path: Path) -> None:
    edges = np.random.default_rng(0).integers(0, 100, (2, 300))
    np.savez(tmp_path / "bare.npz", edge_index=edges, num_nodes=100)
    result = handful("structure", tmp_path / "bare.npz", "--epochs", 1)
    assert result.code == 0, result.stderr
    assert "homophily" not in result.stdout
    refused = handful("structure", tmp_path / "bare.npz", "--parts", "1,200")
    assert refused.code == 2
    assert "--parts 200" in refused.stderr


def test_studies_are_listed_and_refused() -> None:
    listed = handful("study", "--json").json["studies"]
    assert {"backward-error", "bias-bound", "degree-law", "explicit-penalty"} <= {row["name"] for row in listed}
    assert all(row["shows"] for row in listed)
    assert "did you mean backward-error" in handful("study", "backwards-error").stderr
    assert handful("study", "backward-error", "--budget", "huge").code == 2


def test_study_backward_error(tmp_path: Path) -> None:
    result = handful("study", "backward-error", "--budget", "smoke", "--out", tmp_path, "--json")
    assert result.code == 0, result.stderr
    slopes = result.json["slopes"]
    assert slopes["modified"] == pytest.approx(3, abs=0.15)
    assert slopes["unmodified"] == pytest.approx(2, abs=0.15)
    assert slopes["appendix_coefficient"] == pytest.approx(2, abs=0.15)
    assert json.loads((tmp_path / "backward-error.json").read_text())["slopes"] == slopes
    assert (tmp_path / "backward-error.svg").exists()


@pytest.mark.parametrize("name", ["bias-bound", "degree-law", "explicit-penalty"])
def test_studies_on_a_graph_of_the_users(npz: Path, tmp_path: Path, name: str) -> None:
    result = handful("study", name, "--graph", npz, "--budget", "smoke", "--out", tmp_path / "out")
    assert result.code == 0, result.stderr
    payload = json.loads((tmp_path / "out" / f"{name}.json").read_text())
    assert payload["graph"] == "my"
    if name == "bias-bound":
        assert all(b["bias"] <= b["bound"] + (b["bias_ci95"] or 0) for b in payload["bounds"])
    if name == "degree-law":
        assert all(row["distance"] < 0.1 for row in payload["parts"])
        assert payload["parts"][0]["distance"] < 1e-9
    if name == "explicit-penalty":
        assert len(payload["regimes"]) == 5
