from __future__ import annotations

import pytest

from handful import vocabulary
from handful.datasets import sources
from handful.experiment import VARIANTS
from handful.nn import MODELS
from handful.samplers import sampler_names
from handful.theory.structure import MEASURES
from handful.vocabulary import hues, spaced, title, words


def test_everything_that_can_be_chosen_has_a_name() -> None:
    assert set(vocabulary.METHODS) == {*sampler_names(), *VARIANTS}
    assert list(vocabulary.DATASETS) == [f"{s.name}:…" if s.scheme else s.name for s in sources().values()]
    assert set(vocabulary.MODELS) == set(MODELS)
    assert set(vocabulary.STRUCTURE) <= set(MEASURES)


def test_titles() -> None:
    assert title("rns") == "RNS"
    assert title("graphland-sage") == "GraphLand's GraphSAGE"
    assert title("of my own") == "of my own"


def test_colours_differ_and_belong_to_the_method() -> None:
    alone = {name: hues([name])[0] for name in vocabulary.METHODS}
    names = [*vocabulary.METHODS, "a", "b"]
    found = hues(names)
    assert len(set(found)) == len(names)
    assert all(found[names.index(name)] == hue for name, hue in alone.items())
    assert max(hues([str(i) for i in range(25)])) < vocabulary.PALETTE


@pytest.mark.parametrize(
    ("value", "text"),
    [((15, 10), "15, 10"), ([], "none"), (False, "no"), (True, "yes"), (None, "none"), (1e-5, "1e-05"), ("x", "x")],
)
def test_values_as_people_read_them(value: object, text: str) -> None:
    assert words(value) == text


def test_spaces_for_underscores() -> None:
    assert spaced("average_precision") == "average precision"
