"""The examples in docstrings run, in every module of the package."""

from __future__ import annotations

import doctest
import pkgutil
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import handful

# Importing __main__ runs the command line; it has nothing else in it.
MODULES = [m.name for m in pkgutil.walk_packages(handful.__path__, "handful.") if m.name != "handful.__main__"]


def examples(module: ModuleType) -> Iterator[doctest.DocTest]:
    """Those that doctest finds, and those of cached properties, which it passes over in Python 3.11."""
    finder = doctest.DocTestFinder()
    found = {test.name: test for test in finder.find(module, module.__name__)}
    for name, cls in vars(module).items():
        if isinstance(cls, type) and cls.__module__ == module.__name__:
            for key, value in vars(cls).items():
                if isinstance(value, cached_property):
                    for test in finder.find(value.func, f"{module.__name__}.{name}.{key}", module):
                        found[test.name] = test
    yield from found.values()


@pytest.mark.parametrize("name", ["handful", *MODULES])
def test_examples_in_docstrings(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HANDFUL_HOME", str(tmp_path))  # what an example keeps is not kept for the user
    monkeypatch.chdir(tmp_path)
    if name.endswith("_triton"):
        pytest.importorskip("triton")
    runner = doctest.DocTestRunner()
    for test in examples(import_module(name)):
        runner.run(test)
    assert runner.summarize().failed == 0
