"""This work tree against another commit: ``python -m benchmarks.against COMMIT``.

The pass over the edges and an epoch of training of the two run by turns, in two processes that live through all
rounds. A work that seems slower is measured once more before it counts. Seconds decide; where the machine has other
work to do, look at the ratio of the processor times, too. The exit code is 1 where this tree is slower by more than the
limit, and 2 where there is no such commit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from handful.bench.harness import Turns, measure_by_turns

ROOT = Path(__file__).resolve().parents[1]
WORKER = str(Path(__file__).with_name("worker.py"))
GRAPHS = ("synthetic?nodes=1000000&degree=50&features=0", "debian")
"""What the pass and the epoch are measured on."""
ROUNDS = {"pass": 11, "epoch": 5}
LIMIT = 1.1


@dataclass(frozen=True)
class Verdict:
    """How many times as long this tree takes as the other, over the rounds of a measurement.

    >>> Verdict([1.0, 1.3, 1.2]).ratio, Verdict([1.0, 1.3, 1.2]).slower
    (1.2, True)
    """

    ratios: Sequence[float]
    limit: float = LIMIT

    @property
    def ratio(self) -> float:
        """The median."""
        return median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles."""
        low, _, high = quantiles(self.ratios, n=4, method="inclusive") if len(self.ratios) > 1 else 3 * [self.ratio]
        return low, high

    @property
    def slower(self) -> bool:
        """Whether that is too long."""
        return self.ratio > self.limit


def judge(measure: Callable[[], Turns], limit: float = LIMIT) -> tuple[Turns, Verdict]:
    """Measure ``this`` against ``other``, and once more if it seems slower: the second time counts."""
    for _ in range(2):
        turns = measure()
        verdict = Verdict(turns.ratios("this", "other"), limit)
        if not verdict.slower:
            break
    return turns, verdict


class Side:
    """A process that works with the sources of one commit, and answers how long each work took.

    Args:
        source: the folder that holds the package.
        worker: the script that does the works, and its arguments.
    """

    def __init__(self, source: Path, worker: Sequence[str] = (WORKER, *GRAPHS)) -> None:
        command = [sys.executable, "-P", *worker]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )
        self.cpu: list[float] = []
        """The seconds of the processor that each work took, over all threads."""
        package = Path(self._answer()["package"]).resolve()
        if not package.is_relative_to(source.resolve()):
            self.close()
            raise RuntimeError(f"{package} was imported, which is not in {source}")

    def ask(self, work: str) -> float:
        """The seconds of ``work``; the first time it is done once before, to compile."""
        assert self.process.stdin is not None
        print(work, file=self.process.stdin, flush=True)
        answer = self._answer()
        self.cpu.append(answer["cpu"])
        return float(answer["seconds"])

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.process.args} has ended with code {self.process.wait()}")
        return json.loads(line)  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def sources_of(commit: str, folder: Path) -> Path:
    """Put the sources of ``commit`` into ``folder``; the path of its ``src``."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True)
    if packed.returncode:
        print(packed.stderr.decode().strip(), file=sys.stderr)
        raise SystemExit(2)
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("commit", help="what to measure this work tree against")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"how many times as long is too long ({LIMIT})")
    parser.add_argument("--only", choices=ROUNDS, help="one work (else all)")
    asked = parser.parse_args(arguments)
    say = partial(print, file=sys.stderr)
    failed = False
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="handful-against-")))
        sides = {"other": Side(sources_of(asked.commit, folder)), "this": Side(ROOT / "src")}
        for side in sides.values():
            stack.callback(side.close)
        print(f"{'':8s}{asked.commit[:12]:>14s}{'this tree':>14s}{'ratio':>8s}{'quartiles':>14s}{'by CPU time':>14s}")
        for work in [asked.only] if asked.only else ROUNDS:
            works = {name: partial(side.ask, work) for name, side in sides.items()}
            for name, ask in works.items():
                say(f"{work}: compiling {name}…")
                ask()
            turns, verdict = judge(lambda: measure_by_turns(works, ROUNDS[work], say), asked.limit)  # noqa: B023
            took = turns.medians
            low, high = verdict.spread
            cpu = Turns({name: side.cpu[-ROUNDS[work] :] for name, side in sides.items()}).ratio("this", "other")
            numbers = (
                f"{took['other']:12.3f} s{took['this']:12.3f} s{verdict.ratio:8.2f}{low:9.2f}–{high:.2f}{cpu:14.2f}"
            )
            print(f"{work:8s}{numbers}{'   slower' if verdict.slower else ''}", flush=True)
            failed = failed or verdict.slower
    if failed:
        print(f"This tree takes more than {asked.limit:.2f} times as long as {asked.commit}.")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
