"""What is on disk, for the report: findings of studies, and training runs that belong to one or stand alone."""

from __future__ import annotations

import math
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numba
import torch

import handful
from handful.errors import HandfulError
from handful.files import write_json
from handful.kernels.threads import get_threads
from handful.report.tables import TITLES, Cell, best_two, percent
from handful.statistics import mean_ci95
from handful.studies import STUDIES
from handful.training.record import RunFolder, read_json

FINDING = "finding.json"
"""The table and the words of a study; its numbers are in a file beside it, named as the study."""
BARE = ("diagnose", "structure")
"""Commands that leave numbers without a finding."""
UNSHOWN = ("seed", "checkpoint_seconds")


@dataclass(frozen=True)
class Runs:
    """One configuration over its seeds, in the order of their folders; ``results`` are of those that ended."""

    name: str
    job: dict[str, Any]
    configs: list[dict[str, Any]]
    results: list[dict[str, Any]]
    histories: list[list[dict[str, Any]]]

    @property
    def title(self) -> str:
        """The name that people read."""
        return TITLES.get(self.name, self.name)

    @property
    def graph(self) -> str:
        """The graph, with its split where that was chosen."""
        split = self.job.get("split")
        return str(self.configs[0]["graph"]) + (f" ({split})" if split else "")

    @property
    def metric(self) -> str:
        """What ``val`` and ``test`` are."""
        return str(self.configs[0]["metric"]).replace("_", " ")

    @property
    def seeds(self) -> list[int]:
        """The seeds that began."""
        return [int(config["settings"]["seed"]) for config in self.configs]

    def configuration(self) -> dict[str, str]:
        """How it was trained, by name."""
        config = self.configs[0]
        sampler = dict(config["sampler"])
        name = sampler.pop("name")
        options = ", ".join(f"{key} = {value}" for key, value in sampler.items())
        found = {
            "graph": self.graph,
            "training nodes": f"{config['split']['train']:,}",
            "model": self.job.get("model", config["model"]),
            **self.job.get("architecture", {}),
            "sampler": f"{name} ({options})" if options else name,
            **{key: value for key, value in config["settings"].items() if key not in UNSHOWN},
        }
        return {key.replace("_", " "): _words(value) for key, value in found.items()}


@dataclass(frozen=True)
class Record:
    """What the report shows in one section."""

    name: str
    """The study, or ``runs`` for runs that belong to none."""
    folder: Path
    title: str
    words: str = ""
    head: list[str] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)
    payload: dict[str, Any] = field(default_factory=dict)
    runs: list[Runs] = field(default_factory=list)
    asked: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


def environment() -> dict[str, str]:
    """What numbers are made with, now."""
    return {
        "handful": handful.__version__,
        "torch": torch.__version__,
        "numba": numba.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "threads": str(get_threads()),
    }


def write_finding(
    folder: Path,
    name: str,
    title: str,
    words: str,
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    asked: dict[str, Any],
) -> None:
    """Keep a table and its words beside ``name.json``, with what was asked and what it was made with."""
    cells = [[[cell.text, cell.rank] for cell in row] for row in rows]
    said = {key.replace("_", " "): _words(value) for key, value in asked.items()}
    found = {"study": name, "title": title, "words": words, "head": list(head), "rows": cells}
    write_json(folder / FINDING, {**found, "asked": said, "environment": environment()})


def read_records(folder: Path) -> list[Record]:
    """All findings and runs in ``folder`` and below it.

    Raises:
        HandfulError: there is no such folder, or nothing in it.
    """
    if not folder.is_dir():
        raise HandfulError(f"{folder} is not a folder: give the --out of a study, a comparison or a training")
    homes = [file.parent for file in sorted(folder.rglob(FINDING))]
    belonging: dict[Path, list[Runs]] = {home: [] for home in homes}
    loose: dict[tuple[str, str], list[Runs]] = {}
    for place, runs in _all_runs(folder, homes):
        if place in belonging:
            belonging[place].append(runs)
        else:
            loose.setdefault((runs.graph, runs.metric), []).append(runs)
    known = ["compare", *(name.replace("_", "-") for name in STUDIES)]
    records = sorted((_finding(home, belonging[home]) for home in homes), key=lambda one: known.index(one.name))
    for name in BARE:
        for file in sorted(folder.rglob(f"{name}.json")):
            if file.parent not in belonging:
                records.append(_bare(name, file))
    records += [_loose(folder, *key, runs) for key, runs in loose.items()]
    if not records:
        raise HandfulError(f"{folder} holds no record: give the --out of a study, a comparison or a training")
    return records


def _finding(folder: Path, runs: list[Runs]) -> Record:
    found = read_json(folder / FINDING)
    name = found["study"]
    payload = read_json(folder / f"{name}.json")
    return Record(
        name,
        folder,
        found["title"],
        found["words"],
        found["head"],
        [[Cell(text, rank) for text, rank in row] for row in found["rows"]],
        payload,
        runs,
        found["asked"],
        found["environment"],
    )


def _bare(name: str, file: Path) -> Record:
    payload = read_json(file)
    asked = {key.replace("_", " "): _words(value) for key, value in payload.get("settings", {}).items()}
    return Record(name, file.parent, payload["graph"], payload.get("words", ""), payload=payload, asked=asked)


def _all_runs(folder: Path, homes: Sequence[Path]) -> list[tuple[Path, Runs]]:
    """Every configuration below ``folder``, with the nearest home above it, or ``folder``."""
    groups: dict[Path, list[RunFolder]] = {}
    for file in sorted(folder.rglob("metrics.jsonl")):
        run = RunFolder(file.parent)
        if run.config.exists():
            groups.setdefault(run.path.parent if run.path.name.startswith("seed-") else run.path, []).append(run)
    out = []
    for place, seeds in sorted(groups.items(), key=lambda group: _order(group[0])):
        home = next((one for one in (place, *place.parents) if one in homes), folder)
        name = place.resolve().name if place == home else str(place.relative_to(home))
        job = place / "job.json"
        out.append(
            (
                home,
                Runs(
                    name,
                    read_json(job) if job.exists() else {},
                    [read_json(run.config) for run in seeds],
                    [read_json(run.result) for run in seeds if run.result.exists()],
                    [run.lines() for run in seeds],
                ),
            )
        )
    return out


def _loose(folder: Path, graph: str, metric: str, runs: list[Runs]) -> Record:
    """Runs of no study, as a table: a row for every configuration of which a seed has ended."""
    done = [one for one in runs if one.results]
    tests = {one.name: mean_ci95([result["test"] for result in one.results]) for one in done}
    ranks = best_two([tests[one.name]["mean"] for one in done], highest=True) if len(done) > 1 else [0] * len(done)
    rows = []
    for one, rank in zip(done, ranks, strict=True):
        results = one.results
        cells = [
            percent(mean_ci95([result["val"] for result in results])),
            f"{_mean([result['seconds'] for result in results]):.1f}",
            f"{_mean([result['train_seconds'] / result['epochs'] for result in results]):.2f}",
            f"{max(result['peak_ram_bytes'] for result in results) / 2**30:.2f}",
            ", ".join(str(result["seed"]) for result in results),
        ]
        rows.append([Cell(one.title), Cell(percent(tests[one.name]), rank), *map(Cell, cells)])
    going = [one.title for one in runs if len(one.results) < len(one.configs)]
    return Record(
        "runs",
        folder,
        f"{graph} · training",
        f"Not ended: {', '.join(going)}." if going else "",
        ["Run", f"Test {metric} (%)", "Validation (%)", "Seconds", "Seconds an epoch", "RAM (GiB)", "Seeds"],
        rows,
        runs=runs,
    )


def _order(place: Path) -> tuple[str, int, list[int], str]:
    """Methods as tables have them, and m-2 before m-16."""
    known = list(TITLES)
    name = place.name
    at = known.index(name) if name in known else len(known)
    return str(place.parent), at, [int(digits) for digits in re.findall(r"\d+", name)], name


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
