from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.version import Version

import handful
from handful.training.record import environment
from handful.version import __version__


def test_it_is_a_version_and_everyone_tells_the_same() -> None:
    assert str(Version(__version__)) == __version__
    assert handful.__version__ == environment()["handful"] == __version__


def test_the_package_takes_it_from_here_without_importing_anything_else() -> None:
    root = Path(__file__).parents[1]
    named = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["dynamic"]["version"]["attr"]
    module, name = named.rsplit(".", 1)
    code = f"import sys, {module}; print({module}.{name}); sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (found.returncode, found.stdout.strip()) == (0, __version__)


def test_the_classifiers_name_the_pythons_that_are_tested() -> None:
    root = Path(__file__).parents[1]
    classifiers = tomllib.loads((root / "pyproject.toml").read_text())["project"]["classifiers"]
    named = [text.rpartition(" ")[2] for text in classifiers if text.startswith("Programming Language :: Python :: 3.")]
    (matrix,) = re.findall(r"python: \[(.*)\]", (root / ".github" / "workflows" / "test.yml").read_text())
    assert named == re.findall(r"[0-9.]+", matrix)
