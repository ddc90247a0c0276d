"""``handful plan``: tables for people, JSON for programs."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from handful.cli import app
from handful.cli.train import format_duration

PAPERS = "synthetic?nodes=111000000&degree=14.4&features=128&half=true&train=0.011"


@pytest.mark.slow
def test_the_command_estimates_the_run_time() -> None:
    words = ["plan", "synthetic?nodes=3000&degree=6&features=8", "--hidden", "16", "--layers", "2", "--parts", "3"]
    answer = CliRunner().invoke(app, [*words, "--memory", "4GiB", "--processes", "2"])
    assert answer.exit_code == 0, answer.output
    assert "m = 3" in answer.output


def test_the_command() -> None:
    answer = CliRunner().invoke(
        app, ["plan", PAPERS, "--parts", "8", "--no-timed", "--json", "--hidden", "8", "--layers", "2"]
    )
    found = json.loads(answer.stdout)
    assert found["arithmetic"]
    assert found["epoch_seconds"] is None
    assert found["graph"]["edges"] == 1_598_400_000
    assert [row["parts"] for row in found["by_parts"]] == [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize(("seconds", "text"), [(0.0312, "0.031 s"), (75, "75 s"), (1500, "25 min"), (9000, "2.5 h")])
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
