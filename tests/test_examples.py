"""The examples run, and the script before and after differ in one import."""

from __future__ import annotations

import difflib
import json
import os
import runpy
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_one_import_is_all_that_changes() -> None:
    before, after = ((EXAMPLES / f"pyg_{name}.py").read_text().splitlines()[1:] for name in ("before", "after"))
    changed = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert changed == [
        "- from torch_geometric.loader import RandomNodeLoader",
        "+ from handful.pyg import RandomNodeLoader",
    ]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pyg_after", "epoch   1"),
        pytest.param("pyg_before", "epoch   1", marks=pytest.mark.slow),
        ("pyg_hetero", "epoch   1  test accuracy 0."),
        ("pyg_links", "epoch   1  loss"),
        ("pyg_node2vec", "epoch   1  loss"),
        pytest.param("pyg_links_parts", "random parts", marks=pytest.mark.slow),
        pytest.param("pyg_accelerate", "times as fast per epoch", marks=pytest.mark.slow),
        pytest.param("lightning_loader", "val accuracy 0.", marks=pytest.mark.slow),
    ],
)
def test_examples_run(
    name: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "1"])
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runpy.run_path(str(EXAMPLES / f"{name}.py"))
    assert says in capsys.readouterr().out


@pytest.mark.slow
def test_each_process_of_lightning_has_its_share(tmp_path: Path) -> None:
    path = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
    command = [sys.executable, str(EXAMPLES / "lightning_loader.py"), "1", "2"]
    ended = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    for rank in range(2):
        assert f"process {rank} of 2: 31718 of 63436 nodes an epoch" in ended.stdout


def test_the_cells_of_the_first_notebook_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in json.loads((EXAMPLES / "first_steps.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)  # kept without what they print
            exec("".join(cell["source"]), names)
    assert "random nodes: test " in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("first_steps", ["random nodes: test ", "m = 4: 500 nodes, "]),
        ("pyg_loader", ["test accuracy ", "True"]),
    ],
)
def test_notebooks_run(name: str, says: list[str], tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = "".join(
        out.get("text", "") or out.get("data", {}).get("text/plain", "") for c in cells for out in c.outputs
    )
    for words in says:
        assert words in shown
