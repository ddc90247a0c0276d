"""The parameters that commands share: what their help says is what is true."""

from __future__ import annotations

from typing import get_args

import pytest

from cli.run import handful
from handful.cli import params
from handful.kernels.threads import get_threads, set_threads
from handful.settings import OptimizerName, Settings
from handful.vocabulary import PAPER_SEEDS


def test_help_tells_the_defaults_of_the_settings() -> None:
    text = " ".join(handful("train", "--help").stdout.replace("│", " ").split())
    assert f"(else {Settings().epochs})" in text
    assert f"(else {Settings().lr})" in text
    assert str(PAPER_SEEDS[-1]) in text


def test_choices_are_those_of_the_setting() -> None:
    *others, last = get_args(OptimizerName)
    assert params.choices("optimizer") == f"{', '.join(others)} or {last}"


@pytest.mark.parametrize("count", [1, 2])
def test_threads_are_set_when_they_are_given(count: int) -> None:
    before = get_threads()
    try:
        assert params._use_threads(count) == count
        assert get_threads() == count
        assert params._use_threads(None) is None
        assert get_threads() == count
    finally:
        set_threads(before)
