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
    samplers = ["rns", "saint", "cluster"]
    for word, near in (("rsn", "rns"), ("RNS", "rns"), ("Cluser", "cluster"), ("clus", "cluster")):
        assert unknown("sampler", word, samplers) == f"there is no sampler '{word}': did you mean {near}?"
    assert unknown("sampler", "walks", samplers).endswith("choose from cluster, rns, saint")
    many = unknown("data set", "x", [f"name-{i:02}" for i in range(30)])
    assert many.endswith("name-19, … (30 in all)")
    assert unknown("norm", "xyz", ["ln", "bn"]) == "there is no norm 'xyz': choose from bn, ln"
    many = unknown("option", "sise", ["size", "side", "rise", "sine"])
    assert many.count(" or ") == 2


def test_an_exception_becomes_an_error_with_its_first_line() -> None:
    told = errors.explaining("a.json is damaged ({}): delete it", ValueError, kind=errors.RunError)
    with pytest.raises(errors.RunError, match=r"^a\.json is damaged \(one\): delete it$"), told:
        raise ValueError("one\ntwo")
    with pytest.raises(KeyError), errors.explaining("damaged", ValueError):
        raise KeyError("another exception")
