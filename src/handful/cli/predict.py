"""``handful predict``, ``explain`` and ``report``: predictions of a trained model, explanations of them, and HTML pages
about runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import handful as hf
from handful.cli import params as p
from handful.cli.app import Answer, console, note
from handful.errors import HandfulError
from handful.files import write_text
from handful.vocabulary import number


def check_costs(text: str) -> float:
    """The decision threshold with the least expected cost, fp / (fp + fn): fn is the cost of a false negative, and fp
    is the cost of a false positive.

    >>> check_costs("fn=9,fp=1")
    0.1
    """
    costs = p.parse_options(text.split(","))
    if set(costs) != {"fn", "fp"} or not all(isinstance(one, int | float) and one > 0 for one in costs.values()):
        raise HandfulError(f"--cost takes the costs of misses and false alarms, such as fn=10,fp=1; got '{text}'")
    return float(costs["fp"] / (costs["fp"] + costs["fn"]))


OWN = p.read_options("predict", cost={"check": check_costs})


@p.command("memory", "device", "threads", more=OWN)
def predict(
    given: p.Given,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `handful train` wrote.")],
    graph: Annotated[str | None, typer.Argument(metavar="GRAPH", help="Another graph with the same columns.")] = None,
    table: Annotated[Path | None, typer.Argument(metavar="NODES", help="Node table, if GRAPH is an edge list.")] = None,
) -> Answer:
    """Predict the labels of nodes. Each node is listed with the user's own id. Probabilities are averaged over the
    seeds.
    """
    from handful.predict import choose_nodes
    from handful.runs import REFIT
    from handful.training.streamed import forget

    memory, to, scratch = given.get("memory"), given.get("out"), given.get("scratch")
    changed, embeddings = given.get("changed", False), given.get("embeddings", False)
    if memory is not None and embeddings:
        raise HandfulError("--embeddings are computed in memory: leave out --memory, or --embeddings")
    if memory is None and scratch is not None:
        raise HandfulError("--scratch is for the files of --memory: give both")
    if memory is not None and scratch is None and to is not None:
        scratch = to.with_name(f".{to.name}.scratch")
    if to is not None and to.suffix not in (".csv", ".parquet", ".npz"):
        raise HandfulError(f"--out {to} must end in .csv, .parquet or .npz")
    if {"threshold", "cost"} <= {*given}:
        raise HandfulError("--threshold and --cost set the same thing: leave out one of them")
    opened, threshold = hf.open_run(run), given.get("threshold", given.get("cost"))
    if threshold is not None and opened.encoding.get("kind") != "binary":
        raise HandfulError("--threshold and --cost are for two classes, and the run predicts something else")
    how = {name: given[name] for name in ("strict", "unknown") if name in given}
    with console.status("reading the graph"):
        data = opened.check(opened.load(graph, table, say=note, **how))
    used = opened.seen(data).train_mask
    if opened.model.label_head is not None and (used is None or not bool(used.any())):
        note("the models use labels of neighbours, and this graph has none: their measured accuracy does not hold")
    if opened.experiment is not None and len(opened.folders) < len(opened.experiment.seeds):
        note(f"the training has not finished: {len(opened.folders)} of {len(opened.experiment.seeds)} seeds predict")
    unlabelled = len(choose_nodes(data, "unlabelled"))
    if graph is not None and "nodes" not in given and 0 < unlabelled < data.num_nodes:
        note("only nodes without a known label are predicted: --nodes all predicts all")
    which = given.get("nodes") or ("unlabelled" if unlabelled else "all")
    if not len(choose_nodes(data, which)):
        raise HandfulError(f"graph '{data.name}' has no {which} nodes: choose others with --nodes")
    with console.status("predicting") as status:

        def progress(which: int, done: int, count: int) -> None:
            status.update(f"predicting: pass {which + 1}, {done / max(1, count):.0%}")

        extra = {"threshold": threshold, "embeddings": embeddings, "scratch": scratch, "progress": progress}
        found = opened.prediction(data, which, given.get("device", "cpu"), memory, **extra)
    other = found.changed() if changed or found.of_classes else None
    if changed and other is not None:
        found = other
    if to is not None:
        found.write(to)
    if scratch is not None:
        forget(scratch)
    if opened.deployed != opened.folders:
        note("the models were trained on all labels: their accuracy on this graph does not hold for new nodes")
    elif (opened.path / REFIT).exists():
        note(f"the refit has not finished, so the models before it predict: finish it, or delete {opened.path / REFIT}")
    elif graph is not None and found.known.any():
        note("the models may have been trained on nodes of this graph, whose accuracy is then too high")
    if graph is None and opened.own_splits:
        note(f"each seed has its own split; this is the split of seed {opened.seed}. Others train on its test nodes")
    columns = {name: values[:10].tolist() for name, values in found.columns().items()}
    counts = {name: int((found.best == i).sum()) for i, name in enumerate(found.classes)} if found.of_classes else {}
    result: dict[str, Any] = {"run": str(run), "graph": data.name, "nodes": len(found), "chosen": which}
    result |= {"seeds": [result.seed for result in opened.results], "classes": counts, "kind": found.kind}
    limit = (found.threshold, found.classes[found.decision.positive]) if found.kind == "binary" else (None, None)
    result["threshold"], result["positive"] = limit
    result |= {"judged": {} if changed else found.judged(), "changed": 0 if other is None else len(other)}
    result |= {"out": None if to is None else str(to)}
    result |= {"preview": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]}
    title = f"{data.name}: {len(found):,} nodes" + (" with another label" if changed else f" ({which})")
    tables = [found.table(title)] if len(found) else []
    if not changed and other is not None and len(other):
        tables.append(other.table(f"{len(other):,} have another label, the most confident first"))
    return Answer(result, tables, describe_result(result, found.spread is not None))


def describe_result(result: dict[str, Any], several: bool) -> list[str]:
    """Summarise the predictions in sentences."""
    top = sorted(((count, name) for name, count in result["classes"].items() if count), reverse=True)
    some = ", ".join(f"{name} {count:,}" for count, name in top[:6])
    alone = " (the same class for all)" if len(top) == 1 and result["nodes"] > 1 else ""
    lines = [f"predicted: {some}{' …' if len(top) > 6 else ''}{alone}"] if top else []
    if result["threshold"] not in (None, 0.5):
        lines.append(f"the decision threshold of class '{result['positive']}' is {result['threshold']:.3g}")
    shares = []
    for split, one in result["judged"].items():
        right = f"{one['accuracy']:.1%}" if "accuracy" in one else f"{number(one['error'])} off, on average"
        usual = f" (majority class {one['majority']:.1%})" if "majority" in one else ""
        shares.append(f"{split} {right} of {one['nodes']:,}{usual}")
        # 1/√n is at least two standard errors of a share of n nodes.
        if one.get("majority", 0.0) - one.get("accuracy", 1.0) > one["nodes"] ** -0.5:
            lines.append(f"{split}: worse than the majority class, so do not use these predictions")
    if shares:
        lines.append(f"{'right ' if top else ''}where the label is known: {', '.join(shares)}")
    if several:
        lines.append(f"means over the seeds {', '.join(map(str, result['seeds']))}; ± is their standard deviation")
    return [*lines, f"written to {result['out']}" if result["out"] else "nothing is written without --out"]


@p.command()
def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `handful train` wrote.")],
    nodes: Annotated[str | None, typer.Option(help="File with the ids of the nodes to explain.")] = None,
    to: Annotated[Path | None, typer.Option("--out", help="Folder for the result. Default: `explain` in RUN.")] = None,
) -> Answer:
    """Measure which columns matter for the predictions. For given nodes, also measure which columns and neighbours
    change the predictions for these nodes.
    """
    from handful.predict import choose_nodes
    from handful.studies.explain import explain as explain_run

    opened = hf.open_run(run)
    with console.status("measuring") as status:
        graph = opened.load(say=note)
        picked = None if nodes is None else choose_nodes(graph, nodes)
        result = explain_run(opened, graph, picked, lambda what: status.update(f"measuring: {what}"))
    return p.make_answer(result, to or run / "explain")._replace(tables=[*result.tables, *result.below])


@p.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a study, a comparison or a training run.")],
    file: Annotated[Path | None, typer.Option("--out", help="The HTML file. Default: `report.html` in DIR.")] = None,
) -> Answer:
    """Write one HTML page with the tables, charts and settings of all records in DIR and its subfolders."""
    from handful.report.page import FINDING, read_findings, render
    from handful.studies.trained import loose_findings

    findings, unreadable = read_findings(folder)
    loose, broken = loose_findings(folder, [place.parent for place in folder.rglob(FINDING)])
    unreadable |= {str(place.relative_to(folder)): why for place, why in broken.items()}
    if not (findings or loose):
        why = "; ".join(f"{place}: {reason}" for place, reason in unreadable.items()) or "none is there"
        raise HandfulError(f"{folder} has no readable record ({why}): give the folder of a study or a training")
    shown = [*findings, *loose]
    page = file or folder / "report.html"
    write_text(page, render(shown, f"{folder.resolve().name}: {len(shown)} findings", unreadable))
    counts = {"records": len(shown), "tables": sum(len(one.tables) for one in shown)}
    counts["charts"] = sum(len(one.charts) for one in shown)
    for place, why in unreadable.items():
        note(f"not readable: {place}: {why}")
    sums = ", ".join(f"{count} {name}" for name, count in counts.items())
    return Answer({"path": str(page), **counts}, lines=[f"report: {page} ({sums})"])
