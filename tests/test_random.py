from __future__ import annotations

import itertools

from handful.random import derive_seed, generator


def test_every_name_has_its_own_stream() -> None:
    names = [(s, *keys) for s in (0, 1, 2**40) for n in range(4) for keys in itertools.product((0, 1, 7), repeat=n)]
    assert len({derive_seed(*name) for name in names}) == len(names)
    assert len({generator(*name).integers(2**62) for name in names}) == len(names)


def test_the_same_name_is_the_same_stream() -> None:
    assert (generator(3, 1).random(5) == generator(3, 1).random(5)).all()
    assert 0 <= derive_seed(3, 1) < 2**63
