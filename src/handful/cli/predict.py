"""``handful predict``: what a run says of nodes, by the user's own ids."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli import params as p
from handful.cli.app import app, console, emit
from handful.vocabulary import number


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `handful train` wrote.")],
    graph: Annotated[
        str | None,
        typer.Argument(metavar="GRAPH", help="Another graph with the same columns (else that of the run)."),
    ] = None,
    table: Annotated[
        Path | None, typer.Argument(metavar="NODES", help="The node table, where GRAPH is an edge list.")
    ] = None,
    to: Annotated[Path | None, typer.Option("--out", help="A .csv, .parquet or .npz file to write.")] = None,
    nodes: Annotated[
        str | None,
        typer.Option(help="unlabelled, all, train, val, test, or a file of ids (else unlabelled ones, or all)."),
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only nodes whose prediction is not their label, most confident first.")
    ] = False,
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="Also what the last layer of the best seed gets of every node.")
    ] = False,
    memory: p.Memory = None,
    scratch: Annotated[
        Path | None,
        typer.Option(help="Where the files of --memory go (else beside --out): the same command goes on from them."),
    ] = None,
    device: p.Device = None,
    threads: p.Threads = None,
    as_json: p.Json = False,
) -> None:
    """Predict for nodes: class, probabilities (or number), label and split by your own ids; the mean over the seeds."""
    from dataclasses import replace

    from handful.errors import HandfulError
    from handful.predict import chosen, predict
    from handful.runs import open_run
    from handful.training.inference import embed
    from handful.training.streamed import forget

    if memory is not None and embeddings:
        raise HandfulError("--embeddings are computed in memory: leave out --memory, or --embeddings")
    if memory is None and scratch is not None:
        raise HandfulError("--scratch is for the files of --memory: give both")
    if memory is not None and scratch is None and to is not None:
        scratch = to.with_name(f".{to.name}.scratch")
    if to is not None and to.suffix not in (".csv", ".parquet", ".npz"):
        raise HandfulError(f"--out {to} must end in .csv, .parquet or .npz")
    opened = open_run(run)
    with console.status("reading the graph"):
        data = opened.check(opened.load(graph, table, say=lambda text: console.print(text, soft_wrap=True)))
    which = nodes or ("unlabelled" if len(chosen(data, "unlabelled")) else "all")
    picked = chosen(data, which)
    if not len(picked):
        raise HandfulError(f"graph '{data.name}' has no {which} nodes: choose others with --nodes")
    with console.status("predicting") as status:
        found = predict(
            opened.models(),
            data,
            picked,
            device=device or "cpu",
            **opened.decision,
            memory=memory,
            scratch=scratch,
            progress=lambda which, done, count: status.update(
                f"predicting: pass {which + 1}, {done / max(1, count):.0%}"
            ),
        )
        if embeddings:
            found = replace(found, embeddings=embed(opened.model, data, sampler=opened.sampler)[picked].numpy())
    other = found.changed() if changed or found.of_classes else found.take(picked[:0])
    if changed:
        found = other
    if to is not None:
        found.write(to)
    if scratch is not None:
        forget(scratch)
    judged = found.judged() if not changed else {}
    seeds = [result.seed for result in opened.results]
    counts = {name: int((found.best == i).sum()) for i, name in enumerate(found.classes)} if found.of_classes else {}
    result: dict[str, Any] = {
        "run": str(run),
        "graph": data.name,
        "nodes": len(found),
        "chosen": which,
        "seeds": seeds,
        "classes": counts,
        "kind": found.kind,
        "judged": judged,
        "changed": len(other),
        "out": None if to is None else str(to),
        "preview": records(found),
    }
    title = f"{data.name}: {len(found):,} nodes" + (" whose label it would change" if changed else f" ({which})")
    tables = [found.table(title)] if len(found) else []
    if not changed and len(other):
        tables.append(other.table(f"{len(other):,} have another label, the most confident first"))
    if graph is None and opened.own_splits:
        said = (
            f"each seed has a split of its own; this one is of seed {opened.seed}, and others trained on its test nodes"
        )
        console.print(said, soft_wrap=True)
    emit(result, as_json, tables, *lines(result, found.spread is not None))


def records(found: Any) -> list[dict[str, Any]]:
    """The first ten nodes, by column."""
    some = {name: values[:10].tolist() for name, values in found.columns().items()}
    return [dict(zip(some, row, strict=True)) for row in zip(*some.values(), strict=True)]


def lines(result: dict[str, Any], several: bool) -> list[str]:
    """The summary for people."""
    top = sorted(((count, name) for name, count in result["classes"].items() if count), reverse=True)
    out = []
    if top:
        out = [f"predicted: {', '.join(f'{name} {count:,}' for count, name in top[:6])}{' …' if len(top) > 6 else ''}"]
    if result["judged"]:
        shares = (
            f"{split} {one['accuracy']:.1%} of {one['nodes']:,}" if "accuracy" in one
            else f"{split} {number(one['error'])} off, on average of {one['nodes']:,}"
            for split, one in result["judged"].items()
        )  # fmt: skip
        out.append(f"{'right ' if top else ''}where the label is known: {', '.join(shares)}")
    if several:
        seeds = ", ".join(map(str, result["seeds"]))
        out.append(f"means over the seeds {seeds}; ± is their standard deviation")
    out.append(f"written to {result['out']}" if result["out"] else "nothing is written without --out")
    return out
