"""What is installed here, against what Python itself says."""

from __future__ import annotations

import json
import tomllib
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from cli.run import handful
from handful.cli.lists import FEATURES


def test_it_says_what_is_there_and_how_to_get_the_rest() -> None:
    result = handful("doctor", "--json")
    assert result.code == 0
    said = json.loads(result.stdout)
    assert said["machine"]["torch"] == version("torch")
    assert said["machine"]["kernels on cpu"] == "numba"
    assert "writable" in said["machine"]["folder of data sets"]
    for extra, module in {"networkx": "networkx", "ray": "ray", "mlflow": "mlflow", "pyg": "torch_geometric"}.items():
        row = said["extras"][extra]
        assert (row["install"] == "") == (find_spec(module) is not None)
        assert row["install"] in ("", f"pip install 'handful[{extra}]'")


def test_every_extra_for_users_is_explained() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert {*FEATURES} == {*extras} - {"dev", "docs", "slow"}
    assert all(len(modules) == len(extras[extra]) for extra, (_, *modules) in FEATURES.items())


@pytest.mark.slow
def test_the_demo_runs_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = handful("demo")
    assert result.code == 0, result.stderr
    assert (tmp_path / "runs" / "demo" / "report.html").exists()
