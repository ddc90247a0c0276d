"""Every other study end to end under ``smoke``, on the Debian graph cut down; and what ``handful study`` leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.run import handful
from graphs import make_graph
from handful.datasets.prepared import prepared
from handful.errors import DatasetError, HandfulError
from handful.graph import MASKS
from handful.studies import BUDGETS, Request, presets, run_study, study_folder, study_names
from handful.studies.architectures import model_job
from handful.studies.budget import benchmark, job, pair
from handful.studies.graphland import data_job
from handful.studies.samplers import SCALE, in_words
from handful.training.record import RunFolder


def test_every_study_says_what_it_shows() -> None:
    names = study_names()
    wanted = "regimes samplers curves speedup architectures graphland parts fanout implicit powerlaw structure datasets"
    assert {*wanted.split(), "backward-error"} <= set(names)
    assert all(text.endswith((".", "?")) for text in names.values())


def test_seeds_are_the_budget_s_unless_given() -> None:
    assert Request(budget="paper").seeds == presets.seeds() == BUDGETS["paper"]
    assert Request(budget="smoke").seeds == (42,)
    assert Request(budget="paper", seeds=(7,)).seeds == (7,)
    with pytest.raises(HandfulError, match="there is no budget 'labtop'"):
        Request(budget="labtop")


def test_the_same_question_has_the_same_folder() -> None:
    assert study_folder("parts", "a/b c.npz", "smoke") == Path("runs/study-parts-b-c.npz-smoke")
    assert study_folder("parts", None, "laptop") == Path("runs/study-parts-laptop")


def test_the_paper_s_budget_is_the_paper_s_tables() -> None:
    request = Request(budget="paper")
    full, rns = pair(request, "pokec", SCALE)
    assert (full.settings["lr"], full.settings["epochs"], full.architecture["dropout"]) == (1e-3, 2000, 0.7)
    assert (rns.sampler_options, rns.settings["weight_decay"]) == ({"parts": 2}, 1e-4)
    ladies = job(request, "ladies", "pokec", *benchmark(request, "pokec", "ladies", SCALE))
    assert (ladies.model, ladies.architecture["layers"]) == ("gcn", 5)
    neighbor = job(request, "neighbor", "pokec", *benchmark(request, "pokec", "neighbor", SCALE))
    assert (neighbor.settings["epochs"], neighbor.settings["evaluation"]) == (20, "sampled")
    assert model_job(request, "pokec", "gat", "rns") is None  # the paper ran out of memory
    gat = model_job(request, "ogbn-arxiv", "gat", "rns")
    assert gat is not None
    assert (gat.architecture["layers"], gat.architecture["dropout"], gat.settings["weight_decay"]) == (5, 0.5, 5e-4)
    web = data_job(Request(budget="paper", device="cuda"), "web-topics", "rl", "full")
    assert (web.split, web.model, web.settings["devices"]) == ("rl", "graphland-sage", ["cuda:0", "cuda:1"])
    with pytest.raises(HandfulError, match="the paper's tables"):
        pair(request, "debian", SCALE)


def test_on_a_laptop_methods_differ_in_the_sampler_alone() -> None:
    full, rns = pair(Request(budget="laptop"), "debian", SCALE)
    assert full.settings == rns.settings
    assert full.architecture == rns.architecture


@pytest.mark.parametrize(
    ("name", "picture"),
    [("structure", "structure.svg"), ("implicit", "implicit.svg"), ("powerlaw", "alpha-R.svg"), ("datasets", None)],
)
def test_studies_of_this_process(small_debian: str, tmp_path: Path, name: str, picture: str | None) -> None:
    result = handful("study", name, "--graph", small_debian, "--budget", "smoke", "--out", tmp_path, "--json")
    assert result.code == 0, result.stderr
    assert json.loads((tmp_path / f"{name}.json").read_text()) == result.json
    assert (tmp_path / "table.md").read_text().count("\n") > 2
    if picture is not None:
        assert "<svg" in (tmp_path / picture).read_text()


def test_data_sets_that_are_not_here_are_named(tmp_path: Path) -> None:
    found = run_study("datasets", Request(budget="smoke", root=str(tmp_path)))
    assert found.rows[0][0].text == "debian"
    assert found.payload["datasets"][0]["nodes"] == 63_436
    assert [row["name"] for row in found.payload["datasets"] if "missing" in row][:2] == ["ogbn-arxiv", "ogbn-products"]
    with pytest.raises(DatasetError, match="handful info pokec"):
        run_study("datasets", Request("pokec", budget="smoke", root=str(tmp_path)))
    with pytest.raises(DatasetError, match=r"none of hm-categories, .* is in"):
        run_study("graphland", Request(budget="smoke", root=str(tmp_path)))
    with pytest.raises(HandfulError, match="there is no data set of GraphLand 'debian'"):
        run_study("graphland", Request("debian", budget="smoke", root=str(tmp_path)))


def test_words_of_the_main_table() -> None:
    tests = {"full": 0.70, "rns": 0.72, "saint": 0.71, "cluster": 0.60}
    assert "+2.00 points from full" in in_words(tests)
    assert "+1.00 from GraphSAINT" in in_words(tests)
    assert "nothing to compare" in in_words({"full": 0.7, "rns": 0.7})


@pytest.mark.slow
def test_graphland_end_to_end(tmp_path: Path) -> None:
    graph = make_graph(200, classes=2)
    masks = {name: getattr(graph, name) for name in MASKS}
    bare = graph.replace(**dict.fromkeys(MASKS), name="tolokers-2", metric="average_precision")
    prepared(tmp_path / "home" / "tolokers-2", lambda: (bare, {"rl": masks, "rh": masks}), "rl")
    request = Request(budget="smoke", root=str(tmp_path / "home"), out=tmp_path / "out", jobs=2)
    found = run_study("graphland", request)
    assert found.failed == ()
    entries = {entry["dataset"]: entry for entry in found.payload["datasets"]}
    assert "missing" in entries["web-fraud"]
    for split in ("rl", "rh"):
        cell = entries["tolokers-2"][split]
        assert cell["delta"] == cell["rns"]["mean"] - cell["full"]["mean"]
        assert cell["paper"]["full"]["mean"] == {"rl": 0.5441, "rh": 0.5883}[split]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows"), [("samplers", 6), ("architectures", 4), ("fanout", 2), ("parts", 2)])
def test_studies_in_processes(small_debian: str, tmp_path: Path, name: str, rows: int) -> None:
    args = ("study", name, "--graph", small_debian, "--budget", "smoke", "--jobs", 2, "--out", tmp_path)
    result = handful(*args)
    assert result.code == 0, result.stderr
    table = (tmp_path / "table.md").read_text()
    assert table.count("\n") == rows + 2
    assert "failed" not in table
    assert json.loads((tmp_path / f"{name}.json").read_text())["graph"] == "cut"


@pytest.mark.slow
def test_a_run_that_fails_is_a_row_and_exit_code_1(small_debian: str, tmp_path: Path) -> None:
    (tmp_path / "m-2").mkdir()
    (tmp_path / "m-2" / "seed-42").write_text("in the way of the run's folder")
    result = handful("study", "parts", "--graph", small_debian, "--budget", "smoke", "--out", tmp_path)
    assert result.code == 1
    assert "failed: m-2" in result.stderr
    assert "failed" in (tmp_path / "table.md").read_text()


@pytest.mark.slow
def test_a_killed_study_goes_on_where_it_was(small_debian: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "handful", "study", "parts", "--graph", small_debian, "--budget", "smoke"]
    process = subprocess.Popen([*command, "--out", str(tmp_path)], stdout=subprocess.DEVNULL, env=os.environ)
    first, second = tmp_path / "m-1", tmp_path / "m-2"
    while not (second / "stderr.txt").exists():  # the second job has begun, so the first is done
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    stamp = (first / "summary.json").stat().st_mtime_ns
    result = handful(*command[3:], "--out", tmp_path, "--json")
    assert result.code == 0, result.stderr
    assert [point["m"] for point in result.json["curve"]] == [1, 2]
    assert (first / "summary.json").stat().st_mtime_ns == stamp
    assert len(RunFolder(second / "seed-42").lines()) == 2
