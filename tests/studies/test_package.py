"""Studies by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from handful import studies
from handful.errors import HandfulError
from handful.studies import STUDIES, Request, run_study, study_names
from studies.smoke import GRAPH


def test_every_study_says_what_it_shows() -> None:
    names = study_names()
    assert list(names) == [name.replace("_", "-") for name in STUDIES]
    assert all(text.endswith((".", "?")) for text in names.values())
    assert len(set(names.values())) == len(names)


def test_every_study_has_a_smoke_test_of_its_own() -> None:
    for name in STUDIES:
        text = (Path(__file__).parent / f"test_{name}.py").read_text()
        assert f'smoke("{name.replace("_", "-")}"' in text, name
        assert (Path(studies.__file__).parent / f"{name}.py").exists()


def test_a_finding_tells_what_was_asked_too() -> None:
    said: list[tuple[int, int, str]] = []
    request = Request(GRAPH, budget="smoke", seeds=(7,), report=lambda *args: said.append(args))
    found = run_study("degree-law", request)
    assert found.facts == {"budget": "smoke", "seeds": "7", "device": "cpu"}
    assert [done for done, _, _ in said] == [0, 1, 2, 3, 4, 5]
    assert said[-1] == (5, 5, "done")
    with pytest.raises(HandfulError, match="there is no study 'backwards-error': did you mean backward-error"):
        run_study("backwards-error", request)
