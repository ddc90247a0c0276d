from __future__ import annotations

import pytest

from handful import errors
from handful.errors import HandfulError, unknown

KINDS = [errors.GraphError, errors.DatasetError, errors.SamplerError, errors.RunError, errors.DivergedError]


@pytest.mark.parametrize("kind", KINDS)
def test_one_except_catches_all(kind: type[HandfulError]) -> None:
    with pytest.raises(HandfulError, match="what is wrong"):
        raise kind("what is wrong")


def test_near_names_are_proposed_and_else_all_are_listed() -> None:
    assert unknown("norm", "bm", ["ln", "bn"]) == "there is no norm 'bm': did you mean bn?"
    assert unknown("norm", "xyz", ["ln", "bn"]) == "there is no norm 'xyz': choose from bn, ln"
    many = unknown("option", "sise", ["size", "side", "rise", "sine"])
    assert many.count(" or ") == 2
