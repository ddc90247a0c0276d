"""What waits comes back in its order, from memory or from files; files leave nothing behind."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults.programs import finished
from handful.budget import anonymous, as_bytes
from handful.errors import HandfulError
from handful.shuffle.scratch import Budget, Scratch

PIECES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 5)), max_size=20)


@given(PIECES, st.lists(st.integers(0, 200), max_size=20))
def test_pieces_come_back_in_order_whatever_was_spilled(pieces: list[tuple[str, int, int]], spills: list[int]) -> None:
    given: dict[tuple[str, int], list[list[int]]] = {}
    with Scratch() as scratch:
        for k, (name, part, size) in enumerate(pieces):
            array = np.full((size, 2), k, np.int16)
            scratch.append(name, part, array)
            given.setdefault((name, part), []).append(array.tolist())
            if k < len(spills):
                scratch.spill(spills[k])
            scratch.expect(part)  # a hint: it changes nothing
        for (name, part), expected in given.items():
            assert scratch.rows(name, part) == sum(map(len, expected))
            assert [piece.tolist() for piece in scratch.take(name, part)] == expected
        assert scratch.held == 0
        assert not scratch._files  # every file is given back when its last piece was taken


def test_the_last_parts_go_first_and_no_more_than_asked() -> None:
    with Scratch() as scratch:
        for part in range(4):
            scratch.append("x", part, np.zeros(100, np.uint8))
        scratch.spill(150)
        assert (scratch.held, scratch.written) == (200, 200)
        kinds = [type(scratch._pieces[part]["x"][0]).__name__ for part in range(4)]
        assert kinds == ["ndarray", "ndarray", "Written", "Written"]


def test_pieces_are_joined_in_the_smallest_type_that_fits() -> None:
    with Scratch() as scratch:
        for piece in (np.array([1, 2], np.uint8), np.array([300], np.uint16), np.empty(0, np.uint8)):
            scratch.append("count", 0, piece)
        scratch.spill(1)
        joined = scratch.joined("count", 0)
    assert joined.dtype == np.uint16
    assert joined.tolist() == [1, 2, 300]


def test_files_have_no_name(tmp_path: Path) -> None:
    with Scratch(tmp_path) as scratch:
        scratch.append("x", 0, np.zeros(10))
        scratch.spill(1)
        assert not any(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="has no limit for files")
def test_a_full_disk_is_told(tmp_path: Path) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with Scratch(tmp_path) as scratch:
        scratch.append("x", 0, np.zeros(100_000, np.uint8))
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
            with pytest.raises(HandfulError) as told:
                scratch.spill(1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, ignored)
    assert f"the scratch folder {tmp_path} is full" in str(told.value)
    assert "TMPDIR" in str(told.value)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with Scratch(tmp_path / "gone") as scratch:
        scratch.append("x", 0, np.zeros(10))
        with pytest.raises(HandfulError, match="gone cannot be written: No such file"):
            scratch.spill(1)


# -- the budget -------------------------------------------------------------------------------------------------------


ROOM = """
import numpy as np
from handful.budget import anonymous
from handful.kernels.memory import release
from handful.shuffle.scratch import SLACK, Budget, Scratch
with Scratch() as scratch:
    for part in range(4):
        scratch.append("x", part, np.ones(1 << 24, np.uint8))
    release()  # what imports have left would be room too
    budget = Budget((anonymous() + (4 << 20)) * SLACK // (SLACK - 1), parts=4)
    budget.make_room(24 << 20, scratch, "a part")
    assert 0 < scratch.held <= 2 << 24, scratch.held
    assert budget.free() >= 24 << 20
"""


def test_room_is_made_by_spilling() -> None:
    finished("-c", ROOM)  # in a process of its own: what other tests have left would be room too


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
