"""Do the terms of the implicit objective stay as they begin? R(w) and the bias along training with Adam."""

from __future__ import annotations

from typing import Any

from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View, best_two
from handful.statistics import mean_ci95
from handful.studies.budget import Scale, benchmark
from handful.studies.implicit import SAMPLERS, TERMS
from handful.studies.request import Request
from handful.theory.implicit import ImplicitTerms, ImplicitWatch
from handful.vocabulary import hues, title, words

SCALE = Scale(hidden=64, layers=3, epochs=40)
LOOKS = 10
"""How often the terms are measured, beside once before the first epoch."""
BATCHES = {"smoke": 4, "laptop": 24, "paper": 50}


def run(request: Request) -> Finding:
    """Every sampler along its own training: as many looks at the same shares of it, each over fresh batches."""
    graph = request.graph_or("ogbn-arxiv")
    histories: dict[str, list[list[tuple[int, ImplicitTerms]]]] = {name: [] for name in SAMPLERS}
    total, done = len(SAMPLERS) * len(request.seeds), 0
    for seed in request.seeds:
        for name in SAMPLERS:
            request.report(done, total, f"seed {seed}: {title(name)}")
            own = benchmark(request, graph, name, SCALE)
            assert own.settings.optimizer == "adam"
            data = own.load(seed)
            watch = ImplicitWatch(max(1, own.settings.epochs // LOOKS), BATCHES[request.budget], seed)
            own.fit(data, seed, [watch])
            histories[name].append(watch.history)
            done += 1
    request.report(total, total, "done")
    curves = {name: curve(runs) for name, runs in histories.items()}
    views = [
        View(
            label,
            "line",
            Axis("share of the training (%)"),
            Axis("", log=term != "bias"),
            [
                Series(title(name), found["share"], list(found[term]), color=hue)
                for (name, found), hue in zip(curves.items(), hues(list(curves)), strict=True)
            ],
        )
        for term, label in TERMS.items()
        if term != "loss_variance"
    ]
    ends = ("first", "last")
    ranks = {
        (term, end): best_two([c[term][0 if end == "first" else -1] for c in curves.values()], highest=False)
        for term in ("R", "bias")
        for end in ends
    }
    rows = [
        [
            Cell(title(name)),
            *(
                Cell(f"{found[term][0 if end == 'first' else -1]:.3g}", ranks[term, end][i])
                for term in ("R", "bias")
                for end in ends
            ),
        ]
        for i, (name, found) in enumerate(curves.items())
    ]
    heading = f"{data.name} · along Adam · {BATCHES[request.budget]} batches a look · seeds {words(request.seeds)}"
    return Finding(
        "along-adam",
        heading,
        in_words(curves),
        [Table(heading, ["Sampler", "R(w) at the start", "at the end", "bias at the start", "at the end"], rows)],
        [Chart("along-adam", f"{data.name}: the terms along training with Adam", views, together=True)],
        {"graph": data.name, "batches": BATCHES[request.budget], "curves": curves},
    )


def curve(runs: list[list[tuple[int, ImplicitTerms]]]) -> dict[str, list[float]]:
    """The mean over seeds of every term, and the share of the training at which it was measured, in percent."""
    epochs = [epoch for epoch, _ in runs[0]]
    found: dict[str, list[float]] = {"epoch": list(map(float, epochs)), "share": [100 * e / epochs[-1] for e in epochs]}
    for term in TERMS:
        looks = zip(*([getattr(terms, term) for _, terms in run] for run in runs), strict=True)
        found[term] = [mean_ci95(list(values))["mean"] for values in looks]
    return found


def in_words(curves: dict[str, dict[str, Any]]) -> str:
    """What becomes of R, and whether the samplers keep their order."""
    first, last = (sorted(curves, key=lambda name: curves[name]["R"][at]) for at in (0, -1))
    moved = ", ".join(f"{title(name)} {c['R'][-1] / c['R'][0]:.2g}" for name, c in curves.items() if c["R"][0] > 0)
    same = "the samplers keep their order" if first == last else "the order of the samplers changes"
    return f"R(w) at the end over R(w) at the start: {moved}; {same} ({', '.join(map(title, last))} from the least)."
