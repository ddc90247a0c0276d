from __future__ import annotations

from pathlib import Path

import pytest

from handful.errors import HandfulError
from handful.studies.request import BUDGETS, Request, study_folder
from handful.vocabulary import PAPER_SEEDS


def test_seeds_are_the_budget_s_unless_given() -> None:
    assert Request(budget="paper").seeds == PAPER_SEEDS == BUDGETS["paper"]
    assert Request(budget="laptop").seeds == (42, 123, 456)
    assert Request(budget="smoke").seeds == (42,)
    assert Request(budget="paper", seeds=(7,)).seeds == (7,)
    with pytest.raises(HandfulError, match="there is no budget 'labtop': did you mean laptop"):
        Request(budget="labtop")


def test_the_graph_is_what_was_asked_for_else_the_paper_s_or_debian() -> None:
    assert Request("mine", budget="paper").graph_or("pokec") == "mine"
    assert Request(budget="paper").graph_or("pokec") == "pokec"
    assert Request(budget="laptop").graph_or("pokec") == "debian"


def test_the_same_question_has_the_same_folder() -> None:
    assert study_folder("parts", "a/b c.npz", "smoke") == Path("runs/study-parts-b-c.npz-smoke")
    assert study_folder("parts", None, "laptop") == Path("runs/study-parts-laptop")
    assert study_folder("parts", "a", "smoke") != study_folder("fanout", "a", "smoke")
