from __future__ import annotations

import os

import pytest

from scripts import script

in_own_process = script("alone").in_own_process


def test_a_process_of_its_own_answers_fails_or_is_ended() -> None:
    assert in_own_process(abs, -3) == 3
    with pytest.raises(ZeroDivisionError):
        in_own_process(divmod, 1, 0)
    assert in_own_process(os._exit, 137) is None
