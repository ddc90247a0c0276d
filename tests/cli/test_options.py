from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from handful.cli.options import experiment, parse_options, parse_value, publish, run_folder, sampler_options
from handful.errors import HandfulError
from handful.experiment import Experiment
from handful.report.page import read_findings
from handful.training.record import environment
from made_records import samplers


def test_an_experiment_has_its_own_defaults_where_nothing_is_given() -> None:
    plain = experiment({"graph": "debian", "hidden": None, "lr": None, "seeds": None})
    assert plain == Experiment("debian", evaluate_every=5)
    asked = experiment(
        {"graph": "debian", "layers": 3, "lr": 0.1, "seeds": "7,8", "jobs": 2}, {"hidden": 8, "layers": 2}, epochs=7
    )
    assert asked == Experiment("debian", hidden=8, layers=3, lr=0.1, seeds=(7, 8), epochs=7)


@pytest.mark.parametrize(("epochs", "every"), [(1, 1), (19, 1), (40, 2), (1000, 50)])
def test_a_run_is_evaluated_twenty_times_unless_told(epochs: int, every: int) -> None:
    assert experiment({"graph": "debian", "epochs": epochs}).settings.evaluate_every == every
    assert experiment({"graph": "debian", "epochs": epochs, "evaluate_every": 3}).settings.evaluate_every == 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("0.5", 0.5),
        ("1e-3", 0.001),
        ("true", True),
        ("False", False),
        ("none", None),
        ("10,5", (10, 5)),
        ("[10, 5]", (10, 5)),
        ("10,", (10,)),
        ("edges", "edges"),
    ],
)
def test_values(text: str, value: Any) -> None:
    found = parse_value(text)
    assert found == value
    assert type(found) is type(value)


def test_options_are_pairs() -> None:
    assert parse_options(["batch-size=50", " fanout = 3,2"]) == {"batch_size": 50, "fanout": (3, 2)}
    with pytest.raises(HandfulError, match="an option is name=value, such as parts=4; got 'parts'"):
        parse_options(["parts"])


def test_options_of_samplers_by_name() -> None:
    names, options = sampler_options("rns, saint", ["rns.parts=8", "saint.roots=20"])
    assert names == ["rns", "saint"]
    assert options == {"rns": {"parts": 8}, "saint": {"roots": 20}}
    for text, pairs, words in (
        (",", [], "names no sampler"),
        ("rns", ["parts=8"], "sampler.name=value"),
        ("rns", ["saint.roots=8"], "not among --samplers rns"),
    ):
        with pytest.raises(HandfulError, match=words):
            sampler_options(text, pairs)


def test_a_folder_is_named_by_the_time_and_by_what_runs() -> None:
    assert run_folder("here", "anything") == Path("here")
    found = run_folder(None, "data/my graph.npz-sage-rns")
    assert found.parent == Path("runs")
    assert re.fullmatch(r"\d{8}-\d{6}-my-graph.npz-sage-rns", found.name)


def test_a_finding_is_published_with_what_it_was_made_with(tmp_path: Path) -> None:
    written = publish(samplers(), tmp_path)
    assert written.path == tmp_path / "report.html"
    ((found,), _) = read_findings(tmp_path)
    assert found.environment == environment()
    assert found.payload == samplers().payload
