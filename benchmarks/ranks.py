"""Several ranks against one, a thread each, by turns in the same processes: ``python -m benchmarks.ranks [processes]``.

While one rank trains alone, the others wait; then all train together. The processor time says what the ratio of the
times is where every rank has a core of its own: that of one rank alone over that of the busiest of all together.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any
from unittest.mock import patch

from handful import ranks
from handful.errors import RankError
from handful.experiment import Experiment
from handful.files import write_json
from handful.kernels.threads import set_threads
from handful.samplers import RandomNodes
from handful.training.loop import evaluate, train_epoch

WORK = ("epoch", "evaluation")


def bench_ranks(experiment: Experiment, processes: int, rounds: int) -> dict[str, Any]:
    """Seconds and processor seconds of an epoch and an evaluation, of one rank and of all, and their ratios.

    Args:
        experiment: graph, model, sampler, settings and, as its first seed, the seed.
        processes: how many ranks.
        rounds: how often each is measured; the median counts.
    """
    with TemporaryDirectory() as folder:
        asked, answer = Path(folder, "asked.json"), Path(folder, "answer.json")
        write_json(asked, {**experiment.to_json(), "rounds": rounds})
        try:
            ranks.start(processes, [__file__, str(asked), str(answer)])
        except SystemExit as end:
            raise RankError(f"the ranks ended with exit code {end.code}: see what they said") from None
        measured = json.loads(answer.read_text(encoding="utf-8"))
    ratio = {
        work: {kind: measured[work]["alone"][kind] / measured[work]["together"][kind] for kind in ("seconds", "cpu")}
        for work in WORK
    }
    return {
        "graph": measured["graph"],
        "processes": processes,
        "parts": experiment.sampler.options().get("parts"),
        "parts_per_step": experiment.settings.parts_per_step,
        "rounds": rounds,
        **{work: {**measured[work], "ratio": ratio[work]} for work in WORK},
    }


def measure(experiment: Experiment, rounds: int) -> dict[str, Any]:
    """Both ways by turns, on every rank; rank 0 knows the medians."""
    set_threads(1)
    graph = experiment.load(experiment.seeds[0])
    loop = experiment.begin(graph, experiment.seeds[0])
    works: dict[str, Callable[[], Any]] = {"epoch": lambda: train_epoch(loop), "evaluation": lambda: evaluate(loop)}
    times: dict[str, dict[str, list[tuple[float, float]]]] = {work: {"alone": [], "together": []} for work in works}
    for k in range(rounds + 1):  # the first round warms up
        for work, do in works.items():
            for way in ("alone", "together"):
                ranks.largest(0)  # all begin at once
                took = timed(do, alone=way == "alone")
                seconds, cpu = ranks.largest(*took)
                if k:
                    times[work][way].append((seconds, cpu))
    medians = {
        work: {
            way: {"seconds": median(s for s, _ in rows), "cpu": median(c for _, c in rows)}
            for way, rows in by_way.items()
        }
        for work, by_way in times.items()
    }
    return {"graph": graph.name, **medians}


def timed(do: Callable[[], Any], alone: bool) -> tuple[float, float]:
    """Seconds and processor seconds of ``do``; ``alone`` it is rank 0 that does it, without the others."""
    if alone and ranks.rank() > 0:
        return 0.0, 0.0
    began, cpu = perf_counter(), process_time()
    # Without an initialised group a rank is the only one.
    with patch("torch.distributed.is_initialized", return_value=False) if alone else nullcontext():
        do()
    return perf_counter() - began, process_time() - cpu


def rank_main(asked: Path, answer: Path) -> None:
    """One rank of ``bench_ranks``."""
    value = json.loads(asked.read_text(encoding="utf-8"))
    with ranks.join(threads=1):
        measured = measure(Experiment.from_json(value), int(value["rounds"]))
        if ranks.rank() == 0:
            write_json(answer, measured)


def main(processes: int = 2) -> None:
    """GraphSAGE on debian in four parts, as many a step as there are ranks."""
    experiment = Experiment("debian", sampler=RandomNodes(4), parts_per_step=processes, seeds=(42,))
    result = bench_ranks(experiment, processes, rounds=5)
    for work in WORK:
        for kind in ("seconds", "cpu"):
            alone, together, ratio = (result[work][way][kind] for way in ("alone", "together", "ratio"))
            print(f"{work:12s}{kind:9s}one {alone:8.3f}   {processes} ranks {together:8.3f}   ratio {ratio:.2f}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        rank_main(*map(Path, sys.argv[1:]))
    else:
        main(*map(int, sys.argv[1:]))
