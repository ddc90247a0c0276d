"""``handful diagnose`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from torch.nn.functional import cross_entropy

from cli.run import handful
from graphs import make_graph
from handful import Experiment, infer, load
from handful.training.record import load_model
from npz import write_npz

TERMS = {"bias", "loss_variance", "R", "grad_norm_sq", "adam_R", "adam_norm", "alpha_error"}
SMALL = ("--hidden", 8, "--layers", 2, "--batches", 6, "--repeats", 3)


def test_json(npz: Path, tmp_path: Path) -> None:
    options = ("-s", "cluster.clusters=8", "-s", "cluster.per_batch=2", "-s", "saint.roots=40", "--out", tmp_path / "d")
    result = handful("diagnose", npz, *SMALL, "--samplers", "rns,cluster,saint,neighbor,ladies", *options, "--json")
    assert result.code == 0, result.stderr
    found = result.json
    assert found["graph"] == "my"
    assert [s["name"] for s in found["samplers"]] == ["rns", "cluster", "saint", "neighbor", "ladies"]
    for sampler in found["samplers"]:
        assert all(set(sampler[term]) == {"mean", "ci95"} for term in TERMS)
        assert sampler["R"]["mean"] > 0
        assert sampler["bias"]["mean"] >= 0
    record = json.loads((tmp_path / "d" / "diagnose.json").read_text())
    assert len(record["samplers"][0]["repeats"]["R"]) == 3
    assert np.mean(record["samplers"][0]["repeats"]["R"]) == pytest.approx(found["samplers"][0]["R"]["mean"])
    assert record["samplers"][1]["options"]["clusters"] == 8
    for name in ("terms.svg", "alpha-R.svg"):
        assert "<svg" in (tmp_path / "d" / name).read_text()


def test_for_people(npz: Path) -> None:
    more = ("-s", "neighbor.batch_size=10", "--step", 0.1, "--momentum", 0.5)
    result = handful("diagnose", npz, *SMALL, "--samplers", "rns,neighbor,full", *more)
    assert result.code == 0, result.stderr
    for name in ("RNS", "Neighbour", "0.1"):
        assert name in result.stdout
    assert handful("diagnose", npz, *SMALL, "--samplers", "full").code == 0


@pytest.mark.slow
def test_at_trained_weights_the_model_is_the_one_that_was_saved(npz: Path, tmp_path: Path) -> None:
    shape = ("--hidden", 12, "--layers", 2, "--norm", "ln", "--model", "gcn")
    how = ("--epochs", 20, "--lr", 0.05, "--seeds", "1,2", "--label-features", "no", "--out", tmp_path / "run")
    trained = handful("train", npz, *shape, *how, "--json")
    assert trained.code == 0, trained.stderr
    losses = {}
    for place in ("run", "run/seed-1", "run/seed-2", "run/seed-1/model.safetensors"):
        out = tmp_path / "out" / place
        few = ("--samplers", "rns", "--batches", 4, "--repeats", 2)
        at = handful("diagnose", npz, *few, "--weights", tmp_path / place, "--out", out, "--json")
        assert at.code == 0, at.stderr
        record = json.loads((out / "diagnose.json").read_text())
        settings = record["settings"]
        assert (settings["model"], settings["hidden"], settings["layers"]) == ("gcn", 12, 2)
        (sampler,) = record["samplers"]
        assert sampler["full_loss"]["ci95"] == pytest.approx(0)  # every repeat is at the same weights
        losses[place] = sampler["full_loss"]["mean"]
    graph = load(str(npz))
    for seed in (1, 2):
        logits = infer(load_model(tmp_path / "run" / f"seed-{seed}"), graph)
        train = graph.train_mask
        expected = cross_entropy(logits[train], graph.y[train])
        assert losses[f"run/seed-{seed}"] == pytest.approx(float(expected), rel=1e-4)
    assert losses["run/seed-1/model.safetensors"] == losses["run/seed-1"]
    best = max(trained.json["runs"], key=lambda run: run["val"])["seed"]
    assert losses["run"] == losses[f"run/seed-{best}"]


def test_weights_bring_their_own_model_and_fit_one_graph(npz: Path, tmp_path: Path) -> None:
    run = Experiment(npz, hidden=4, layers=1, epochs=1, seeds=(1,)).run(tmp_path / "run").runs[0]
    beside = handful("diagnose", npz, "--weights", run.dir, "--hidden", 8, "--norm", "ln")
    assert beside.code == 2
    assert "--hidden, --norm" in beside.stderr
    other = write_npz(tmp_path / "other.npz", make_graph(100, features=5))
    unfit = handful("diagnose", other, "--weights", run.dir)
    assert unfit.code == 2
    assert "8 features" in unfit.stderr
    nothing = handful("diagnose", npz, "--weights", tmp_path / "none")
    assert nothing.code == 2
    assert "none" in nothing.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--samplers", "rns,neighbour"), "neighbor"),
        (("--samplers", ","), "--samplers"),
        (("-s", "parts=3"), "rns.parts"),
        (("-s", "ladies.budget=3"), "ladies"),
        (("--norm", "batch"), "batch"),
    ],
)
def test_mistakes_are_one_line(npz: Path, args: tuple[str, ...], says: str) -> None:
    result = handful("diagnose", npz, *SMALL, *args)
    assert result.code == 2
    assert result.stdout == ""
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
