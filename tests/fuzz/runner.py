"""Runs cases in child processes, which are replaced when they die or take too long."""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz.case import Case
from fuzz.doors import DOORS

START_SECONDS = 120
WAITS = 10
"""How many times longer than it may compute a case may wait for its turn."""


@dataclass(frozen=True)
class Answer:
    """What came of a case: ``ok``, ``refused`` or ``finding``; what was said; and what tells a finding from others."""

    kind: str
    said: str
    key: str = ""


class Child:
    """One process for many cases."""

    def __init__(self, material: Path, work: Path) -> None:
        self.material, self.work = material, work
        self.process: subprocess.Popen[bytes] | None = None
        self.rest = b""

    def ask(self, request: dict[str, Any], seconds: float) -> Answer:
        """What comes of a case; the child is replaced if it ends or hangs."""
        if self.process is None:
            path = os.pathsep.join(p for p in sys.path if p)
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fuzz.child", str(self.material), str(self.work)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": path},
            )
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        made = self._line(START_SECONDS)
        line = self._line(seconds) if made else None
        if line:
            told = json.loads(line)
            if told.get("full"):
                self.close()
            return Answer(told["answer"], told["said"], told.get("key", ""))
        said = f"no answer after {seconds:g} seconds" if line is None and made is not None else ""
        code = self.close()
        if not said:
            said = f"the process was ended by {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
        return Answer("finding", said, said)

    def case(self) -> Case:
        """The case that the child ran last."""
        return Case.loads((self.work / "case" / "case.json").read_text())

    def _line(self, seconds: float) -> str | None:
        """The next line, an empty one if the child has ended, ``None`` if nothing comes in time."""
        assert self.process is not None
        assert self.process.stdout is not None
        began, spent = time.monotonic(), self._cpu()
        while self._cpu() - spent < seconds and time.monotonic() - began < WAITS * seconds:
            if b"\n" in self.rest:
                line, _, self.rest = self.rest.partition(b"\n")
                return line.decode()
            if select.select([self.process.stdout], [], [], 0.5)[0]:
                block = os.read(self.process.stdout.fileno(), 1 << 16)
                if not block:
                    return ""
                self.rest += block
        return None

    def _cpu(self) -> float:
        """The seconds that the child has computed: on a busy machine the clock tells nothing."""
        assert self.process is not None
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> int:
        """End the child and what it started."""
        if self.process is None:
            return 0
        try:
            code = self.process.wait(0.2)
        except subprocess.TimeoutExpired:
            code = 0
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                assert pipe is not None
                pipe.close()
            except OSError:
                pass
        self.process, self.rest = None, b""
        return code


@contextmanager
def child(material: dict[str, Any] | None = None) -> Iterator[Child]:
    """A child with a folder of its own; ``material`` is needed where cases are to be made, not only run."""
    with tempfile.TemporaryDirectory(prefix="handful-fuzz-") as folder:
        kept = Path(folder, "material")
        kept.write_bytes(pickle.dumps(material) if material else b"")
        made = Child(kept, Path(folder, "work"))
        try:
            yield made
        finally:
            made.close()


def run_case(worker: Child, path: Path) -> Answer:
    """A kept case."""
    return worker.ask({"case": str(path)}, DOORS[Case.loads(path.read_text()).door].seconds)
