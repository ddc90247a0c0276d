"""What commands make of their options, and the list of all names that ``--set`` takes."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from cli.run import handful
from handful import Experiment, RandomNodes
from handful.cli.lists import list_options
from handful.cli.params import DEFAULTS, choose_folder, make_answer, make_comparison, make_experiment
from handful.errors import HandfulError
from handful.nn import MODELS, model_defaults
from handful.report.page import read_findings
from handful.samplers import sampler_class, sampler_names
from handful.settings import QUICK, SETTING_NAMES
from handful.training.record import environment
from made_records import samplers


def test_an_experiment_has_its_own_defaults_where_nothing_is_given() -> None:
    assert make_experiment("debian", {}) == Experiment("debian")
    given = {"layers": 3, "lr": 0.1, "seeds": (7, 8), "jobs": 2, "processes": 2}
    asked = make_experiment("debian", given, {"hidden": 8, "layers": 2}, epochs=7)
    assert asked == Experiment("debian", hidden=8, layers=3, lr=0.1, seeds=(7, 8), epochs=7)


def test_by_name_and_by_set_are_the_same() -> None:
    named = make_experiment("debian", {"clip": 1.0, "norm": "ln", "parts": 8})
    paired = make_experiment("debian", {"set": ["clip=1", "norm=ln", "rns.parts=8"]})
    assert named == paired
    assert paired.sampler == RandomNodes(8)
    assert make_experiment("debian", {"norm": "ln", "set": ["norm=ln"]}).options["norm"] == "ln"
    with pytest.raises(HandfulError, match="norm"):
        make_experiment("debian", {"norm": "ln", "set": ["norm=bn"]})


def test_what_a_model_does_not_have_is_left_out_of_the_usual() -> None:
    usual = {"hidden": 8, "layers": 2, "residual": False}
    assert "residual" not in make_experiment("debian", {"model": "graphland-sage"}, usual).options


@pytest.mark.parametrize(("epochs", "every"), [(1, 1), (19, 1), (40, 2), (1000, 50)])
def test_runs_of_a_comparison_are_evaluated_twenty_times_unless_told(epochs: int, every: int) -> None:
    for given in ({"epochs": epochs}, {"set": [f"epochs={epochs}"]}):
        assert make_experiment("debian", given, DEFAULTS["parts"]).settings.evaluate_every == every
        assert make_experiment("debian", {**given, "evaluate_every": 3}, DEFAULTS["parts"]).settings.evaluate_every == 3
        assert make_experiment("debian", given).settings.evaluate_every == 1


@pytest.mark.parametrize(
    ("pair", "near"),
    [("hiden=3", "hidden"), ("prats=3", "parts"), ("epoch=3", "epochs"), ("saint.roots=3", "rns"), ("lr=high", "lr")],
)
def test_a_wrong_name_or_value_is_told(pair: str, near: str) -> None:
    with pytest.raises(HandfulError, match=near):
        make_experiment("debian", {"set": [pair]})


def test_options_of_several_samplers() -> None:
    asked, options = make_comparison("debian", {"set": ["rns.parts=8", "saint.roots=20", "lr=0.1"]}, "rns, saint", {})
    assert asked.settings.lr == 0.1
    assert options == {"rns": {"parts": 8}, "saint": {"roots": 20}}
    for text, pairs in ((",", []), ("rns,saint", ["parts=8"]), ("rns", ["saint.roots=8"])):
        with pytest.raises(HandfulError, match=r"--samplers|rns"):
            make_comparison("debian", {"set": pairs}, text, {})


def test_all_names_are_listed_with_type_default_and_meaning() -> None:
    result = handful("options", "--json")
    assert result.code == 0, result.stderr
    rows = result.json["options"]
    expected = {*SETTING_NAMES, *(name for model in MODELS for name in model_defaults(model))}
    expected |= {field.name for name in sampler_names() for field in fields(sampler_class(name))}
    assert {row["name"] for row in rows} == expected
    assert all(row["of"] and row["takes"] for row in rows)
    assert {row["name"]: row["default"] for row in rows}["epochs"] == QUICK["epochs"]
    assert "first_hop=auto" in handful("options").stdout
    assert handful("options", "dance").code == 2


@pytest.mark.parametrize("of", ["compare", "parts", "diagnose"])
def test_defaults_of_a_command_are_those_that_it_has(of: str) -> None:
    rows = {row["name"]: row["default"] for row in reversed(list_options(of))}
    usual: dict[str, Any] = {name: value for name, value in DEFAULTS[of].items() if name in rows}
    assert {name: rows[name] for name in usual} == usual
    asked = make_experiment("debian", {}, DEFAULTS[of])
    assert rows["evaluate_every"] == asked.settings.evaluate_every


def test_a_folder_is_named_by_the_time_and_by_what_runs() -> None:
    assert choose_folder(Path("here"), "anything") == Path("here")
    found = choose_folder(None, "data/my graph.npz-sage-rns")
    assert found.parent == Path("runs")
    assert re.fullmatch(r"\d{8}-\d{6}-my-graph.npz-sage-rns", found.name)


def test_a_finding_is_kept_with_what_it_was_made_with(tmp_path: Path) -> None:
    shown = make_answer(samplers(), tmp_path)
    assert shown.code == 0
    assert (tmp_path / "report.html").exists()
    ((found,), _) = read_findings(tmp_path)
    assert found.environment == {**environment(), "command": found.environment["command"]}
    assert json.loads((tmp_path / "samplers.json").read_text()) == samplers().payload == shown.payload
    assert make_answer(replace(samplers(), failed=("rns",)), None).code == 1
