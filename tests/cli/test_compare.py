"""``handful compare`` as a user meets it, on a small graph."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cli.run import Result, handful
from graphs import make_graph
from handful import Experiment, FullGraph, RandomWalks
from handful.report.page import read_findings
from npz import write_npz
from studies.smoke import trained_here

SMALL = ("--hidden", 8, "--layers", 2, "--epochs", 3, "--lr", 0.01, "--seeds", "1,2", "--jobs", 2)
SAINT = ("-s", "saint.roots=20")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Result]:
    """A graph, the folder of a comparison of three samplers on it, and what was printed.

    RNS is trained in a process of its own. The others are found done: each process takes seconds to start.
    """
    place = tmp_path_factory.mktemp("compared")
    graph = write_npz(place / "my.npz", make_graph(200))
    asked = Experiment(str(graph), hidden=8, layers=2, epochs=3, lr=0.01, seeds=(1, 2))
    done = {"full": FullGraph(), "saint": RandomWalks(roots=20)}
    trained_here({name: asked.with_(sampler=sampler) for name, sampler in done.items()}, place / "out")
    samplers = ("--samplers", "full,saint,rns", *SAINT)
    result = handful("compare", graph, *SMALL, *samplers, "--out", place / "out")
    assert result.code == 0, result.stderr
    return graph, place / "out", result


def stamps(folder: Path) -> dict[Path, int]:
    return {path.relative_to(folder): path.stat().st_mtime_ns for path in folder.glob("*/seed-*/*")}


def test_the_table_and_what_is_written(compared: tuple[Path, Path, Result]) -> None:
    _, out, result = compared
    for word in ("Full graph", "GraphSAINT", "RNS", "report.html", "curves.svg"):
        assert word in result.stdout
    written = {path.name for path in out.iterdir()}
    assert {"compare.json", "finding.json", "table.md", "report.html", "costs.svg", "curves.svg"} <= written
    assert (out / "curves.svg").read_text().lstrip().startswith("<svg")
    (found,), unreadable = read_findings(out)
    assert not unreadable
    assert found.facts["hidden"] == "8"
    assert [row[0].text for row in found.details[0].rows] == ["Full graph", "GraphSAINT", "RNS"]
    rows = (out / "table.md").read_text()
    assert "**" in rows
    assert "*" in rows.replace("**", "")


def test_asked_again_nothing_is_trained_again_and_the_numbers_are_those_of_the_records(
    compared: tuple[Path, Path, Result],
) -> None:
    graph, out, _ = compared
    before = stamps(out)
    again = handful("compare", graph, *SMALL, "--samplers", "full,saint,rns", *SAINT, "--out", out, "--json")
    assert again.code == 0, again.stderr
    assert {p: t for p, t in stamps(out).items() if p.name != "lock"} == {
        p: t for p, t in before.items() if p.name != "lock"
    }
    told = again.json
    assert set(told) == {"graph", "metric", "rows", "baselines"}
    assert [row["sampler"] for row in told["rows"]] == ["full", "saint", "rns"]
    for row in told["rows"]:
        assert set(row) == {
            "sampler",
            "options",
            "test",
            "val",
            "seconds",
            "prepare_seconds",
            "epoch_seconds",
            "peak_memory_bytes",
            "steps",
            "dir",
            "paper",
        }
        results = [json.loads((Path(row["dir"]) / f"seed-{s}" / "result.json").read_text()) for s in (1, 2)]
        assert row["test"]["mean"] == pytest.approx(np.mean([one["test"] for one in results]))
        assert row["steps"]["mean"] == np.mean([one["steps"] for one in results])
        assert row["peak_memory_bytes"]["ram"] == max(one["peak_ram_bytes"] for one in results)
    assert json.loads((out / "compare.json").read_text()) == told


@pytest.mark.slow
def test_a_sampler_that_fails_is_a_row_that_says_why_and_exit_1(
    compared: tuple[Path, Path, Result], tmp_path: Path
) -> None:
    graph, out, _ = compared
    shutil.copytree(out, tmp_path / "out")
    samplers = ("--samplers", "full,cluster,rns", "-s", "cluster.clusters=1000")
    result = handful("compare", graph, *SMALL, *samplers, "--out", tmp_path / "out", "--json")
    assert result.code == 1
    assert "cluster" in result.stderr
    full, cluster, rns = result.json["rows"]
    assert "1000 clusters" in cluster["error"]
    assert "test" not in cluster
    assert full["test"]["mean"] > 0
    assert rns["test"]["mean"] > 0
    assert "cannot cut 200 nodes" in (tmp_path / "out" / "table.md").read_text()


def test_another_question_in_the_same_folder_is_refused(compared: tuple[Path, Path, Result]) -> None:
    graph, out, _ = compared
    samplers = ("--samplers", "full,saint,rns", *SAINT, "--out", out)
    for change, words in (
        (("--lr", 0.1), "lr was 0.01 and is now 0.1"),
        (("-s", "rns.parts=3"), "parts was 4 and is now 3"),
    ):
        result = handful("compare", graph, *SMALL, *samplers, *change)
        assert (result.code, result.stdout) == (2, "")
        assert words in result.stderr
    try:
        write_npz(graph, make_graph(200), x=make_graph(200).x.numpy() + 1)
        result = handful("compare", graph, *SMALL, *samplers)
    finally:
        write_npz(graph, make_graph(200))
    assert (result.code, result.stdout) == (2, "")
    (line,) = result.stderr.strip().splitlines()
    assert "is of other data: features was " in line


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--samplers", "full,rsn"), "rns"),
        (("-s", "rns.prats=2"), "parts"),
        (("--optimizer", "adma"), "optimizer"),
        (("--hidden", 0), "hidden"),
    ],
)
def test_mistakes_are_one_line(npz: Path, tmp_path: Path, args: tuple[object, ...], words: str) -> None:
    result = handful("compare", npz, *args, "--out", tmp_path / "out")
    assert (result.code, result.stdout) == (2, "")
    (line,) = result.stderr.strip().splitlines()
    assert words in line
    assert not (tmp_path / "out").exists()
