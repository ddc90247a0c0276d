"""The public names: listed, lazy, documented, and the same objects as in their own modules."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import handful

PUBLIC = [name for name in handful.__all__ if name != "__version__"]


def test_dir_lists_the_public_names() -> None:
    assert dir(handful) == sorted(handful.__all__)
    assert len(set(handful.__all__)) == len(handful.__all__)
    assert {"Experiment", "Graph", "RandomNodes", "fit", "load", "open_run"} <= set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented_where_it_comes_from(name: str) -> None:
    thing = getattr(handful, name)
    home = import_module(thing.__module__)
    assert home.__name__.startswith("handful.")
    assert getattr(home, name) is thing
    own = inspect.getdoc(thing)
    assert own
    assert own != inspect.getdoc(object)
    assert not own.startswith(f"{name}(")  # what a dataclass writes where nobody else has


def test_what_type_checkers_see_is_what_is_there() -> None:
    """The stub that editors read is also the table that is used at run time."""
    tree = ast.parse(Path(str(handful.__file__)).with_suffix(".pyi").read_text())
    seen = {alias.name for line in tree.body if isinstance(line, ast.ImportFrom) for alias in line.names}
    assert seen == set(handful.__all__)


def test_a_star_brings_them_all() -> None:
    names: dict[str, object] = {}
    exec("from handful import *", names)
    assert {name: names[name] for name in PUBLIC} == {name: getattr(handful, name) for name in PUBLIC}


def test_an_unknown_name_is_said_to_be_one() -> None:
    with pytest.raises(AttributeError, match="attribute nothing"):
        _ = handful.nothing  # type: ignore[attr-defined]


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; sys.argv[1:] = ['--help']\nimport handful.cli\n"
    code += "try: handful.cli.main()\nexcept SystemExit: sys.exit('torch' in sys.modules or 'numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_a_library_user_needs_no_package_of_commands_and_reports() -> None:
    """Load, train, save, infer and predict where these cannot be imported."""
    absent = ("jinja2", "typer", "rich", "vl_convert", "optuna", "networkx", "sklearn", "pyarrow", "torch_geometric")
    code = f"""import sys; sys.modules.update(dict.fromkeys({absent}))
import tempfile, handful as hf
with tempfile.TemporaryDirectory() as folder:
    graph = hf.open_graph(hf.save(hf.load("synthetic?nodes=200&degree=4"), folder + "/graph"))
    small = {{"hidden": 4, "layers": 2, "epochs": 1}}
    hf.fit("sage", graph, hf.RandomNodes(2), epochs=1)
    hf.Experiment(folder + "/graph", **small, seeds=(1,)).run(folder + "/run")
    hf.open_run(folder + "/run").predict()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


POSIX = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog")


def test_no_module_imports_one_of_posix_when_it_is_imported() -> None:
    """In a function alone, where it may be missing."""
    for path in Path(handful.__file__).parent.rglob("*.py"):
        for top in ast.parse(path.read_text(encoding="utf-8")).body:
            for node in () if isinstance(top, (ast.FunctionDef, ast.ClassDef)) else ast.walk(top):
                names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert not set(names) & set(POSIX), path


@pytest.mark.slow
def test_no_module_needs_a_posix_system() -> None:
    """Every module imports, and training works, where handful finds neither fcntl nor resource nor /proc."""
    code = f"""import builtins, io, os, pathlib, warnings
import numba, psutil, torch
warnings.simplefilter("ignore")
find, read = builtins.__import__, io.open
def absent(name, scope=None, *rest):
    asks = (scope or dict()).get("__name__", "")
    if name.partition(".")[0] in {POSIX} and asks.startswith("handful"):
        raise ImportError(name)
    return find(name, scope, *rest)
def hidden(file, *rest, **more):
    if str(file).startswith(("/proc/self", "/proc/meminfo")):
        raise FileNotFoundError(file)
    return read(file, *rest, **more)
builtins.__import__, builtins.open, io.open = absent, hidden, hidden
there = pathlib.Path.exists
pathlib.Path.exists = lambda self, **more: not str(self).startswith("/proc/") and there(self, **more)
for name in ("sched_getaffinity", "posix_fadvise", "posix_fallocate", "register_at_fork", "fork", "getuid"):
    delattr(os, name)
import pkgutil, importlib, handful
for module in pkgutil.walk_packages(handful.__path__, "handful."):
    if not module.name.endswith(("_triton", "__main__")):
        importlib.import_module(module.name)
run = handful.fit("sage", handful.load("synthetic?nodes=200&degree=4"), handful.RandomNodes(2), epochs=1)
assert run.peak_ram_bytes > 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
