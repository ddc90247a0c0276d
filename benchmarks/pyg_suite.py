"""PyG's own tests with and without ``handful.pyg.enable()``: ``python -m benchmarks.pyg_suite CHECKOUT [FOLDER …]``.

CHECKOUT is a checkout of PyG; its ``test/`` runs against its own package. Every test whose outcome differs is listed,
with a table of the outcomes. The exit code is 1 if a test is worse: if it passed and does not pass any more, or if it
was skipped and now fails. This module is also the plugin of pytest that writes the outcomes down.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import types
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
OUTCOMES, ENABLED, CLAIMED = "PYG_SUITE_OUTCOMES", "PYG_SUITE_ENABLED", "PYG_SUITE_CLAIMED"
"""Environment variables: the file of outcomes, whether to call ``enable`` first, and packages to claim."""
LONGEST = 300
"""Seconds after which a test fails."""
RANK = {"passed": 2, "skipped": 1, "failed": 0, "not run": 0}


# -- the plugin --------------------------------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    import torch_geometric.typing

    # Parameters of some tests come from this set, and every process must have them in the same order.
    torch_geometric.typing.INDEX_DTYPES = sorted(torch_geometric.typing.INDEX_DTYPES, key=str)
    if os.environ.get(ENABLED):
        from handful.pyg import enable

        enable(quiet=True)
        for name in os.environ[CLAIMED].split():  # PyG skips a test if it does not find the package that it names
            module = sys.modules[name] = types.ModuleType(name)
            module.__spec__ = ModuleSpec(name, None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError(f"longer than {LONGEST} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST)
    try:
        return (yield)
    finally:
        signal.alarm(0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A line for every phase of a test; a worker of pytest-xdist leaves this to the process that started it."""
    if OUTCOMES in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        why = "" if report.passed else str(getattr(report.longrepr, "reprcrash", report.longrepr))[-300:]
        with open(os.environ[OUTCOMES], "a", encoding="utf-8") as file:
            file.write(json.dumps([report.nodeid, report.outcome, why]) + "\n")


# -- the comparison ----------------------------------------------------------------------------------------------------


def read(path: Path) -> dict[str, tuple[str, str]]:
    """The outcome of each test and why: the worst of its phases."""
    found: dict[str, tuple[str, str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, outcome, why = json.loads(line)
        if name not in found or RANK[outcome] < RANK[found[name][0]]:
            found[name] = outcome, why
    return found


def compare(without: Mapping[str, tuple[str, str]], with_: Mapping[str, tuple[str, str]]) -> tuple[str, list[str]]:
    """A table of outcomes, and a line for every test that differs; those that are worse begin with ``WORSE``.

    >>> compare({"a": ("skipped", ""), "b": ("passed", "")}, {"a": ("passed", ""), "b": ("failed", "no")})[1]
    ['WORSE b: passed, then failed: no', 'a: skipped, then passed']
    """
    missing = "not run", ""
    pairs = {name: (without.get(name, missing), with_.get(name, missing)) for name in sorted({*without, *with_})}
    counts = Counter((before[0], after[0]) for before, after in pairs.values())
    table = ["| without | with `enable()` | tests |", "|---|---|---|"]
    table += [f"| {before} | {after} | {count:,} |" for (before, after), count in sorted(counts.items(), reverse=True)]
    lines = []
    for name, ((before, _), (after, why)) in pairs.items():
        if before != after:
            worse = "WORSE " if RANK[after] < RANK[before] else ""
            lines.append(f"{worse}{name}: {before}, then {after}{why and ': '}{' '.join(why.split())}")
    return "\n".join(table), sorted(lines, key=lambda line: not line.startswith("WORSE "))


def run(checkout: Path, folders: list[str], processes: int, enabled: bool, claimed: str, outcomes: Path) -> None:
    """Run the tests in ``folders`` of the checkout and write their outcomes."""
    path = os.pathsep.join([str(checkout), str(ROOT), str(ROOT / "src")])
    ours = {OUTCOMES: str(outcomes), ENABLED: "1" if enabled else "", CLAIMED: claimed}
    # Some tests take their parameters from sets of strings, and every process must have them in the same order.
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0", **ours}
    environment.pop("PYTEST_XDIST_WORKER", None)  # of a test of this function, whose plugin is no worker
    outcomes.write_text("")
    command = [sys.executable, "-m", "pytest", "-p", "benchmarks.pyg_suite", "-p", "no:cacheprovider", "-q"]
    command += ["--no-header", "--tb=short", "--continue-on-collection-errors", "-n", str(processes), *folders]
    with open(outcomes.with_suffix(".log"), "wb") as log:
        subprocess.run(command, cwd=checkout, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("folders", nargs="*", default=["test"])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--claim", default="", help="packages whose tests are to run with enable(), such as pyg_lib")
    parser.add_argument("--out", type=Path, help="keep outcomes here; what is there already is not run again")
    given = parser.parse_args()
    out = given.out or Path(tempfile.mkdtemp(prefix="pyg-suite-"))
    out.mkdir(parents=True, exist_ok=True)
    found = []
    for name in ("without", "with"):
        outcomes = out.resolve() / f"{name}.jsonl"
        if not outcomes.exists():
            run(given.checkout.resolve(), given.folders, given.processes, name == "with", given.claim, outcomes)
        found.append(read(outcomes))
    table, lines = compare(*found)
    print(table, *lines, f"outcomes and logs: {out}", sep="\n")
    return int(any(line.startswith("WORSE ") for line in lines))


if __name__ == "__main__":
    sys.exit(main())
