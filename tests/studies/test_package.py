"""Studies by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from handful.errors import HandfulError
from handful.studies import STUDIES, Request, run_study, study_names
from studies.smoke import GRAPH, check_page, laptop, smoke


def test_every_study_says_what_it_shows() -> None:
    names = study_names()
    assert list(names) == list(STUDIES)
    assert all(text.endswith((".", "?")) for text in names.values())
    assert len(set(names.values())) == len(names)


def test_every_study_has_a_smoke_test() -> None:
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    assert not [name for name in STUDIES if f'smoke("{name}"' not in tests]


@pytest.mark.slow
def test_a_finding_is_drawn_and_read_again(untrained: dict[str, object], tmp_path: Path) -> None:
    check_page(smoke("regimes", tmp_path), tmp_path)


def test_a_finding_tells_what_was_asked_too() -> None:
    said: list[tuple[int, int, str]] = []
    request = Request(GRAPH, budget="smoke", seeds=(7,), report=lambda *args: said.append(args))
    found = run_study("degree-law", request)
    assert found.facts == {"budget": "smoke", "seeds": "7", "device": "cpu"}
    assert [done for done, _, _ in said] == [0, 1, 2, 3, 4, 5]
    assert said[-1] == (5, 5, "done")


def test_what_is_no_study_is_told() -> None:
    with pytest.raises(HandfulError, match="backward-error"):
        run_study("backwards-error", Request())
    for option in ({"tune_each": 2}, {"optimizer": "adam"}, {"epochs": 3}):
        with pytest.raises(HandfulError, match=next(iter(option))):
            run_study("implicit", Request(**option))
    with pytest.raises(HandfulError, match="epochs"):
        Request(budget="paper", epochs=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["regimes", "samplers", "speedup", "architectures", "parts", "fanout"])
def test_on_debian(name: str, tmp_path: Path) -> None:
    found = laptop(name, tmp_path, epochs=10)
    (cells,) = [found.payload[key] for key in ("cells", "rows", "curve") if key in found.payload]
    assert all(cell["test"]["mean"] > 0.05 for cell in cells)  # three times chance: SGD has made ten steps
