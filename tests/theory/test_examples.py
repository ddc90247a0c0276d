from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import handful.theory

MODULES = [module.name for module in pkgutil.iter_modules(handful.theory.__path__) if module.name != "pictures"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    module = importlib.import_module(f"handful.theory.{name}")
    result = doctest.testmod(module)
    assert result.failed == 0
    assert result.attempted > 0
