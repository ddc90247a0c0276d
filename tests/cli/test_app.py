"""The frame of the command: one JSON object or a table, one line for a mistake."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from cli.run import handful
from handful import cli
from handful.cli.app import Answer, emit
from handful.finding import Cell, Table
from handful.kernels.threads import get_threads
from handful.version import __version__


def test_json_has_neither_nan_nor_infinity_nor_numbers_of_numpy(capsys: pytest.CaptureFixture[str]) -> None:
    payload = {"a": float("nan"), "b": [np.float64(0.5), torch.tensor(3)], "c": {"d": float("inf")}, "e": (1, "ü")}
    emit(Answer(payload), as_json=True)
    text = capsys.readouterr().out
    assert json.loads(text) == {"a": None, "b": [0.5, 3], "c": {"d": None}, "e": [1, "ü"]}
    assert "ü" in text


def test_a_result_is_json_or_tables_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("Two", ["Method", "Test"], [[Cell("[red]RNS"), Cell("72.5", 1)]])
    answer = Answer({"a": 1}, [table], ["a [bold]line"])
    emit(answer, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"a": 1}
    emit(answer, as_json=False)
    text = capsys.readouterr().out
    assert "[red]RNS" in text
    assert "a [bold]line" in text


def test_a_warning_is_one_line_without_a_place_in_the_program(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target,when\n0,1,2020\n1,2,2021\n")
    (tmp_path / "nodes.csv").write_text("id,size\n0,1.5\n1,2.5\n2,9\n")
    result = handful("info", tmp_path)
    assert result.code == 0
    (line,) = [line for line in result.stderr.splitlines() if "edges.csv" in line]
    assert line.startswith("note: ")
    assert "when" in line


def test_every_file_beside_it_is_a_command() -> None:
    result = handful("-h")
    assert result.code == 0
    shared = {"app", "params", "progress", "graphs", "lists"}
    own = {path.stem for path in Path(cli.__file__).parent.glob("[a-z]*.py")} - shared
    for name in own | {"info", "import", "doctor", "plan", "compare"}:
        assert f" {name} " in result.stdout, name


def test_threads_are_taken_over() -> None:
    result = handful("info", "synthetic?nodes=100&degree=4", "--threads", 2, "--json")
    assert result.code == 0, result.stderr
    assert get_threads() == 2
    assert handful("info", "debian", "--threads", 0).code == 2


def test_in_a_real_process_a_mistake_is_one_line_and_exit_2() -> None:
    command = [sys.executable, "-m", "handful", "info", "no[such]graph"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "no[such]graph" in line


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("train debain", "debian"),
        ("train pyh:Planetoid/Cora", "pyh:Planetoid/Cora"),
        ("train debian --sampler rsn", "rns"),
        ("compare debian --samplers full,rsn", "rns"),
        ("train debian --model sag", "sage"),
        ("train debian --epochs 0", "epochs"),
        ("train debian --optimizer adma", "adam"),
        ("train debian --seeds one", "--seeds"),
        ("train debian --memory 8", "8GiB"),
        ("train debian --epoch 3", "--epochs"),
        ("train debian --epochs many", "--epochs"),
        ("train", "GRAPH"),
        ("trian debian", "train"),
        ("walk", "walk"),
    ],
)
def test_a_mistake_is_told_in_one_line_before_torch_is_imported(line: str, says: str) -> None:
    code = f"import sys; sys.argv[1:] = {line.split()!r}\nfrom handful.cli import main\n"
    code += "try: main()\nfinally: print('torch' in sys.modules or 'numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False)
    assert (done.returncode, done.stdout) == (2, "False\n")
    (told,) = done.stderr.splitlines()
    assert told.startswith("error: ")
    assert says in told


def test_without_a_command_there_is_the_help() -> None:
    result = handful()
    assert "Usage: handful" in result.stdout
    assert "error" not in result.stderr


def test_the_version() -> None:
    result = handful("--version")
    assert (result.code, result.stdout) == (0, f"handful {__version__}\n")


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("handful tr", ["train"]),
        ("handful train ogbn-p", ["ogbn-products", "ogbn-proteins", "ogbn-papers100M"]),
        ("handful train debian --model s", ["sage", "sgformer"]),
        ("handful train debian --sampler c", ["cluster"]),
    ],
)
def test_a_shell_completes_commands_and_names(
    monkeypatch: pytest.MonkeyPatch, words: str, completed: list[str]
) -> None:
    monkeypatch.setenv("_HANDFUL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert handful().stdout.split() == completed


def test_a_bug_of_ours_says_so_and_where_to_report_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**options: object) -> None:
        raise ZeroDivisionError("by [nothing]")

    monkeypatch.setattr(cli, "app", broken)
    result = handful("info", "debian")
    assert (result.code, result.stdout) == (70, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("bug: ZeroDivisionError: by [nothing]")
    details = Path(line.split()[-1])
    assert "ZeroDivisionError: by [nothing]" in details.read_text()
    details.unlink()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(28, "No space left on device", "/there"), r"No space left on device \(/there\)"),
        (PermissionError(13, "Permission denied", "/there"), r"Permission denied \(/there\)"),
        (MemoryError("9 TiB"), "memory.*9 TiB"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "memory"),
    ],
)
def test_what_the_system_refuses_is_one_line(error: Exception, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**options: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", refuse)
    result = handful("info", "debian")
    assert (result.code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert re.search(words, line)
