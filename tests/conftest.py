"""Fixtures that several tests share."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from graphs import make_graph
from handful import Graph
from handful.kernels import linear, memory

TRITON = "triton"
"""The marker of tests that run Triton's kernels in its interpreter. They have a process of their own."""
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# No deadline in either: the first example of a kernel compiles it. `make test` draws the same examples every time;
# `make test-all` searches with new ones.
settings.register_profile("search", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", settings.get_profile("search"), derandomize=True, database=None)
settings.load_profile("gate")


def pytest_configure(config: pytest.Config) -> None:
    # Triton looks at this when its kernels are defined, so it must be set before any of them is imported.
    if config.option.markexpr.startswith(TRITON):
        os.environ["TRITON_INTERPRET"] = "1"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells do with what they start in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker(TRITON) and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("needs Triton's interpreter: pytest -m triton")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing that a test keeps goes into the cache of the user."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """The weights of a model do not depend on the tests before it."""
    torch.manual_seed(0)


@pytest.fixture
def graph() -> Graph:
    return make_graph()


@pytest.fixture
def shared_data() -> Path:
    """The real graphs beside the checkout; without them the test is skipped."""
    if not SHARED_DATA.exists():
        pytest.skip("no shared data beside the checkout")
    return SHARED_DATA


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graphs of the tests are small: without this no tensor of theirs would come from the pool."""
    monkeypatch.setattr(memory, "SMALLEST", 1)


@pytest.fixture(params=[True, False], ids=["hardware", "widened"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """On any machine, both the product of the hardware and the widened one."""
    monkeypatch.setattr(linear, "native_bfloat16", lambda: request.param)
