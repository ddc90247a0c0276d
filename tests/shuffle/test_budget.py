from __future__ import annotations

import re

import numpy as np
import pytest

from handful.budget import anonymous, as_bytes
from handful.errors import HandfulError
from handful.kernels.memory import release
from handful.shuffle.budget import SLACK, Budget
from handful.shuffle.scratch import Scratch


def test_room_is_made_by_spilling() -> None:
    with Scratch() as scratch:
        for part in range(4):
            scratch.append("x", part, np.ones(1 << 24, np.uint8))
        release()  # what other tests have left would be room too
        budget = Budget((anonymous() + (4 << 20)) * SLACK // (SLACK - 1), parts=4)
        budget.make_room(24 << 20, scratch, "a part")
        assert 0 < scratch.held <= 2 << 24
        assert budget.free() >= 24 << 20


@pytest.mark.parametrize("ask", ["make_room", "require"])
def test_too_small_a_budget_names_one_that_would_do(ask: str) -> None:
    budget = Budget(anonymous() + (8 << 20), parts=4)
    with Scratch() as scratch, pytest.raises(HandfulError) as told:
        getattr(budget, ask)(1 << 30, scratch, "one part")
    assert str(told.value).startswith("one part of 4 takes 1.0 GiB beside the ")
    found = re.search(r"memory ([\d.]+ \w+)$", str(told.value))
    assert found is not None
    with Scratch() as scratch:
        getattr(Budget(as_bytes(found[1]) + (8 << 20), 4), ask)(1 << 30, scratch, "one part")


def test_the_parts_that_would_do_go_by_what_is_free() -> None:
    told = str(Budget(1 << 30, parts=4).too_small(needed=600 << 20, free=200 << 20, what="one part"))
    assert "use at least 12 parts, or memory" in told
    assert "parts, or" not in str(Budget(1 << 30, parts=4).too_small(600 << 20, -5, "one part"))
