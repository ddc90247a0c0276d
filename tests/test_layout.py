"""The tests mirror the source: ``src/handful/a/b.py`` is tested by ``tests/a/test_b.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import script

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "handful"
EXEMPT = ("__init__.py", "__main__.py")
MODULES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if path.name not in EXEMPT)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_every_module_has_a_test_file_of_its_name(module: Path) -> None:
    # A module whose name is a keyword ends in an underscore; loops in numba are tested by what calls them.
    wanted = TESTS / module.parent / f"test_{module.stem.removesuffix('_numba').rstrip('_')}.py"
    assert wanted.exists(), f"tests/{wanted.relative_to(TESTS)} is missing"
    assert "def test_" in wanted.read_text(encoding="utf-8"), f"tests/{wanted.relative_to(TESTS)} has no test"


def test_the_package_is_no_larger_than_it_may_be() -> None:
    """To raise a limit is a deliberate line in ``pyproject.toml``."""
    size = script("size")
    found, allowed = size.measure(SOURCE), size.limits()
    assert found.lines <= allowed.lines, f"{found.lines} lines of code: [tool.handful.size] allows {allowed.lines}"
    assert found.modules <= allowed.modules, f"{found.modules} modules: [tool.handful.size] allows {allowed.modules}"
