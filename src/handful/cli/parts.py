"""``handful parts``: how many parts should this graph be dealt into?"""

from __future__ import annotations

from typing import Annotated

import typer

from handful.cli import params as p
from handful.cli.app import Answer


@p.command(*p.OF_EXPERIMENT, "memory", "out")
def parts(
    given: p.Given,
    graph: p.Graph,
    most: Annotated[int, typer.Option(help="Never more parts than this.", min=2)] = 64,
) -> Answer:
    """Train with 2 parts, 1, 4, 8, … until validation is no longer better by more than noise; says which m to take.

    With --memory, an m whose training holds more (of a GPU, if it runs there) is not taken.
    """
    from handful.budget import as_bytes
    from handful.cli.options import make_answer, make_experiment, read_defaults, with_split
    from handful.cli.progress import Bar
    from handful.studies import study_folder
    from handful.studies.parts import chosen_parts

    asked = with_split(make_experiment(graph, given, read_defaults("parts")))
    folder = given.get("out") or study_folder("parts", graph, "auto")
    with Bar("epochs") as bar:
        found = chosen_parts(asked, folder, most, as_bytes(given["memory"]) if "memory" in given else None, bar.job)
    return make_answer(found, folder, f"runs: {folder}")
