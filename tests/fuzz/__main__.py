"""``python -m fuzz``: cases through every door, counts, and findings kept in ``tests/fuzz/corpus``.

``make fuzz`` runs 10,000. The exit code is 1 if there was a finding.
"""

from __future__ import annotations

import argparse
import itertools
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from fuzz import material
from fuzz.doors import DOORS
from fuzz.runner import child

CORPUS = Path(__file__).parent / "corpus"
SMALL = 200_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first case; each case has the next")
    parser.add_argument("--doors", default=",".join(DOORS), help="which, separated by commas")
    parser.add_argument("--keep", type=Path, default=CORPUS, help="where findings are kept")
    asked = parser.parse_args()
    doors = asked.doors.split(",")
    with tempfile.TemporaryDirectory() as folder:
        made = material.make(Path(folder))
    made["command"] = {**made["npz"], **made["csv"]}
    counts: dict[str, Counter[str]] = {door: Counter() for door in doors}
    keys: dict[str, str] = {}
    seconds: Counter[str] = Counter()
    with child(made) as worker:
        for door in doors:  # what is valid opens; and kernels are compiled before the clock runs
            if door in made and (plain := worker.ask({"door": door, "seed": None}, 300)).kind != "ok":
                print(f"{door}: what is valid does not open: {plain.said}", flush=True)
                return 1
        for seed in until_interrupted(range(asked.seed, asked.seed + asked.cases)):
            door = Random(seed).choices(doors, [DOORS[door].share for door in doors])[0]
            began = time.perf_counter()
            answer = worker.ask({"door": door, "seed": seed}, DOORS[door].seconds)
            seconds[door] += time.perf_counter() - began
            counts[door][answer.kind] += 1
            if answer.kind == "unmade":
                print(f"{door}, seed {seed}: the mutator failed: {answer.said}", flush=True)
            if answer.kind == "finding":
                key = f"{door}: {answer.key}"
                if key not in keys:
                    keys[key] = f"seed {seed}: {answer.said}"
                    print(f"{key}\n    {keys[key][:600]}", flush=True)
                    keep(replace(worker.case(), found=without_folder(answer.said)[:300]), asked.keep, answer.key)
    print(f"{'door':<12}{'cases':>8}{'ok':>8}{'refused':>9}{'findings':>10}{'seconds':>9}")
    for door, count in counts.items():
        row = f"{count.total():>8}{count['ok']:>8}{count['refused']:>9}{count['finding']:>10}{seconds[door]:>9.0f}"
        print(f"{door:<12}{row}")
    found = sum(count["finding"] for count in counts.values())
    print(f"{sum(count.total() for count in counts.values())} cases, {found} findings of {len(keys)} kinds")
    return 1 if found else 0


def until_interrupted(seeds: Iterable[int]) -> Iterator[int]:
    """The seeds; after Ctrl-C no more, so that what was found by then is told."""
    asked = False

    def stop(number: int, frame: object) -> None:
        nonlocal asked
        asked = True

    signal.signal(signal.SIGINT, stop)
    yield from itertools.takewhile(lambda seed: not asked, seeds)


def without_folder(said: str) -> str:
    """What an error says without the folder of this machine in which the case was opened."""
    return re.sub(re.escape(tempfile.gettempdir()) + r"/[^/\s]+/", "", said)


def keep(case: object, folder: Path, key: str) -> None:
    """Put a finding beside the others, if it is small."""
    text = case.dumps()  # type: ignore[attr-defined]
    name = "".join(c if c.isalnum() else "-" for c in f"{case.door}-{key}")[:80].strip("-")  # type: ignore[attr-defined]
    folder.mkdir(parents=True, exist_ok=True)
    if len(text) < SMALL:
        (folder / f"{name}.json").write_text(text)
    else:
        print(f"    not kept: {len(text):,} bytes", flush=True)


if __name__ == "__main__":
    sys.exit(main())
