from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from handful.errors import SamplerError
from handful.samplers.options import at_least, whole_numbers


@pytest.mark.parametrize("fine", [1, 5, np.int64(3), True])
def test_whole_numbers_from_the_least_on_pass(fine: Any) -> None:
    at_least(1, parts=fine, roots=1)


@pytest.mark.parametrize("wrong", [0, -1, 1.0, "3", None, float("nan"), (3,)])
def test_all_else_is_named(wrong: Any) -> None:
    with pytest.raises(SamplerError, match="roots must be a whole number, at least 1, got"):
        at_least(1, parts=2, roots=wrong)


@pytest.mark.parametrize(
    ("given", "numbers"),
    [(5, (5,)), ([5, 2], (5, 2)), ((-1,), (-1,)), (np.array([3, 4]), (3, 4)), (iter([1]), (1,)), (np.int32(7), (7,))],
)
def test_numbers_of_any_sequence_become_a_plain_tuple(given: Any, numbers: tuple[int, ...]) -> None:
    found = whole_numbers("fanout", given)
    assert found == numbers
    assert all(type(number) is int for number in found)


@pytest.mark.parametrize("wrong", [(), "10", 2.5, (2.5,), None, [1, None]])
def test_what_is_no_sequence_of_whole_numbers_is_refused(wrong: Any) -> None:
    with pytest.raises(SamplerError, match="fanout takes whole numbers, one for each hop, got"):
        whole_numbers("fanout", wrong)
