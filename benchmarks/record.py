"""What matters, measured and kept as a line of ``benchmarks/history.jsonl``: ``python -m benchmarks.record``.

Ratios are kept, and times that no ratio can stand for: the pass over the edges in nanoseconds per edge, and the
processor time of the start. ``python -m benchmarks.history`` shows all lines.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import size
from handful.bench.epoch import bench_epoch
from handful.bench.harness import measure_by_turns
from handful.bench.loader import bench_loader, csr_epoch
from handful.datasets.synthetic import BlockModel, generate
from handful.experiment import Experiment
from handful.kernels.threads import get_threads
from handful.samplers import RandomNodes

HISTORY = Path(__file__).with_name("history.jsonl")
MEASURES = {
    "loader_m10": "RandomNodeLoader, m = 10: PyG's time over ours",
    "loader_m50": "RandomNodeLoader, m = 50: PyG's time over ours",
    "pass_ns_per_edge": "the pass over the edges, m = 10: ns per edge",
    "epoch_pyg": "an epoch: PyG's time (CSR) over ours",
    "epoch_floor": "an epoch: our time over its products'",
    "import_cpu_seconds": "import handful: CPU seconds",
    "help_cpu_seconds": "handful --help: CPU seconds",
    "lines": "lines of code",
    "modules": "modules",
}
"""What a line holds beside the commit, and how people call it."""
Say = Callable[[str], None]
Line = dict[str, Any]


def measure_loader(nodes: int, edges: int, rounds: int, say: Say) -> Line:
    """Random node batches against PyG's."""
    ratio = bench_loader(nodes, edges, [10, 50], rounds, 0, say)["ratio"]
    return {"loader_m10": ratio["m10"], "loader_m50": ratio["m50"]}


def measure_pass(nodes: int, edges: int, rounds: int, say: Say) -> Line:
    """The pass over the edges of a graph in memory."""
    graph = generate(BlockModel(nodes=nodes, degree=edges / nodes, features=0))
    work = partial(csr_epoch, graph, 10, 0)
    work()  # compiles
    seconds = measure_by_turns({"pass": work}, rounds, say).medians["pass"]
    return {"pass_ns_per_edge": 1e9 * seconds / graph.num_edges}


def measure_epoch(graph: str, rounds: int, say: Say) -> Line:
    """An epoch of training against PyG's and against its products."""
    ratio = bench_epoch(Experiment(graph, sampler=RandomNodes(4), seeds=(42,)), rounds, say)["ratio"]
    return {"epoch_pyg": ratio["pyg_csr_over_handful_fp32"], "epoch_floor": ratio["handful_fp32_over_floor"]}


def measure_start(rounds: int, say: Say) -> Line:
    """What it takes to import the package, and to show what the command can do."""
    works = {"import": ["-c", "import handful"], "help": ["-m", "handful", "--help"]}
    turns = measure_by_turns({name: partial(cpu_seconds, command) for name, command in works.items()}, rounds, say)
    return {f"{name}_cpu_seconds": seconds for name, seconds in turns.medians.items()}


def cpu_seconds(command: Sequence[str]) -> float:
    """The processor time of ``python COMMAND``."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with code {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def measure_size() -> Line:
    """Lines of code and modules."""
    found = size.measure()
    return {"lines": found.lines, "modules": found.modules}


def identify() -> Line:
    """The commit, with ``-dirty`` if the work tree differs from it; the time; and the machine."""
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*", "--abbrev=12"]
    commit = subprocess.run(command, cwd=size.ROOT, capture_output=True, text=True, check=True).stdout.strip()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"commit": commit, "date": now, "cpu": cpu_model(), "threads": get_threads()}


def cpu_model() -> str:
    """What the maker calls the processor."""
    told = Path("/proc/cpuinfo")
    if told.exists():
        for line in told.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def read_history(path: Path = HISTORY) -> list[Line]:
    """All lines, oldest first."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add_line(line: Line, path: Path = HISTORY) -> None:
    """Append ``line``; it takes the place of an earlier one of the same commit and processor."""
    others = [one for one in read_history(path) if any(one[key] != line[key] for key in ("commit", "cpu"))]
    path.write_text("".join(json.dumps(one) + "\n" for one in [*others, line]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record", description=__doc__)
    parser.add_argument("--out", type=Path, default=HISTORY, help="the file that gets the line (%(default)s)")
    asked = parser.parse_args(arguments)
    say = partial(print, file=sys.stderr)
    line = identify() | measure_size() | measure_start(5, say)
    line |= measure_pass(1_000_000, 50_000_000, 11, say)
    line |= measure_loader(400_000, 20_000_000, 3, say)
    line |= measure_epoch("debian", 3, say)
    before = [one for one in read_history(asked.out) if one["cpu"] == line["cpu"] and one["commit"] != line["commit"]]
    line |= {name: round(line[name], 3) for name in MEASURES}
    add_line(line, asked.out)
    for name, label in MEASURES.items():
        past = median(one[name] for one in before[-5:]) if before else None
        print(f"{label:50s} {line[name]:10g}" + (f"   {past:10g} before" if past is not None else ""))


if __name__ == "__main__":
    main()
