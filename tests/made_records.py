"""Findings made by hand: small, and with every kind of table and chart in them."""

from __future__ import annotations

import math

from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View, points
from handful.vocabulary import METHODS, PARTS, STRUCTURE, TERMS, hues, title

SAMPLERS = list(METHODS)
M = [1, 2, 4, 8, 16]


def value(mean: float, ci95: float | None = 0.004) -> dict[str, float | None]:
    return {"mean": mean, "ci95": ci95}


def curves(count: int = 8) -> Chart:
    """Lines with bands over epochs and seconds, and a loss on a log scale without."""
    epochs, seconds, loss = [], [], []
    for i, (name, hue) in enumerate(zip(SAMPLERS, hues(SAMPLERS), strict=True)):
        x = [5 * (k + 1) for k in range(count)]
        y = [70.0 + 0.5 * i - 40 * math.exp(-at / 9) for at in x]
        low, high = [v - 0.6 for v in y], [v + 0.6 for v in y]
        epochs.append(Series(title(name), x, y, low, high, hue))
        seconds.append(Series(title(name), [(0.4 + 0.2 * abs(3 - i)) * at for at in x], y, low, high, hue))
        loss.append(Series(title(name), x, [3.0 * math.exp(-at / 20) for at in x], color=hue))
    y = Axis("validation accuracy (%)")
    views = [
        View("epochs", "line", Axis("epoch", whole=True), y, epochs),
        View("seconds", "line", Axis("seconds of training", zero=True), y, seconds),
        View("loss", "line", Axis("epoch", whole=True), Axis("training loss", log=True), loss),
    ]
    return Chart("curves", "ogbn-arxiv: through training", views)


def costs() -> Chart:
    """One point for each method, some of them close to each other."""
    times, memories = [], []
    for i, (name, hue) in enumerate(zip(SAMPLERS, hues(SAMPLERS), strict=True)):
        test = value(0.70 + 0.005 * i)
        times.append(points(title(name), [20.0 * (1 + 0.4 * abs(3 - i))], [test], hue, scale=100))
        memories.append(points(title(name), [1 + 0.1 * i], [test], hue, scale=100))
    y = Axis("test accuracy (%)")
    views = [
        View("time", "dot", Axis("seconds of training", log=True), y, times),
        View("memory", "dot", Axis("peak RAM (GiB)"), y, memories),
    ]
    return Chart("costs", "ogbn-arxiv: what accuracy costs", views)


def regimes() -> Chart:
    """Dots side by side in categories, ours and the paper's."""
    names = ["SGD", "SGD+M", "Adam"]
    series = []
    for i, (name, hue) in enumerate((("Full graph", 1), ("RNS (no batch)", 3), ("RNS", 0))):
        ours = points(name, names, [value(0.70 + 0.02 * i + 0.03 * j) for j in range(3)], hue, scale=100)
        theirs = [v + 0.8 if v is not None else None for v in ours.y]
        series += [ours, Series(f"{name}, paper", names, theirs, color=hue, paper=True)]
    view = View("test", "dot", Axis("", of=names), Axis("test accuracy (%)"), series)
    return Chart("regimes", "ogbn-products: three regimes, three optimisers", [view])


def speedup() -> Chart:
    """Bars side by side, ours and the paper's, with one missing and a rule at 1."""
    targets = ["88.0%", "89.0%", "90.0%"]
    series = []
    for hue, (name, base) in enumerate((("Epoch time", 0.8), ("Epochs to target", 6.1), ("Time to target", 5.2))):
        series.append(Series(name, targets, [base, base * 1.1, None if hue == 2 else base], color=hue))
        series.append(Series(f"{name}, paper", targets, [base * 1.2] * 3, color=hue, paper=True))
    view = View("speedup", "bar", Axis("target, validation accuracy", of=targets), Axis("full graph / RNS (×)"), series)
    return Chart("speedup", "ogbn-products: where the speed of RNS comes from", [view])


def terms() -> Chart:
    """Panels of bars on a log scale, one lower end below 0."""
    names = ["rns", "neighbor", "cluster", "saint"]
    views = []
    for k, (term, label) in enumerate(TERMS.items()):
        series = [
            points(title(name), [title(name)], [value(10.0**-i, 10.0**-i * (0.2 + 0.4 * i))], hue, scale=0.1 + k)
            for i, (name, hue) in enumerate(zip(names, hues(names), strict=True))
        ]
        views.append(View(label, "bar", Axis("", of=list(map(title, names))), Axis("", log=term != "R"), series))
    return Chart("terms", "debian: the terms of the implicit objective", views, together=True)


def structure() -> Chart:
    """Panels of lines against m."""
    views = []
    for name, label in STRUCTURE.items():
        mean = [100.0 / m for m in M]
        low, high = [0.9 * v for v in mean], [1.1 * v for v in mean]
        log = name in ("edges", "largest_component")
        views.append(
            View(label, "line", Axis(PARTS, log=True, ticks=M), Axis("", log=log), [Series("RNS", M, mean, low, high)])
        )
    return Chart("structure", "debian: what a part keeps", views, together=True)


def errors() -> Chart:
    """Lines on two log scales."""
    steps = [0.025, 0.05, 0.1]
    slopes = {"L̄ + α/4·‖∇L̄‖² + α/4·R": 3, "L̄ alone": 2, "L̄ + m·α/4·(‖∇L̄‖² + R)": 2}
    series = [
        Series(f"{name}: slope {slope}", steps, [(1 + i) * s**slope for s in steps], color=i)
        for i, (name, slope) in enumerate(slopes.items())
    ]
    view = View("error", "line", Axis("step size α", log=True), Axis("distance after one epoch", log=True), series)
    return Chart("backward-error", "Mean SGD against three gradient flows", [view])


def bounds() -> Chart:
    """Bars of what was measured under the line of its bound, with an end that is not known."""
    bias = Series("bias", M, [0.3 / m for m in M], [None] * 5, [0.4 / m for m in M], color=0, mark="dot")
    bound = Series("bound", M, [3.0, None, 2.0, 1.5, 1.2], color=8)
    view = View("bound", "line", Axis(PARTS, log=True, ticks=M), Axis("", log=True), [bound, bias])
    return Chart("bias-bound", "debian: the bias and its bound", [view])


def penalty() -> Chart:
    """Points of several series in one category without a name."""
    names = ["m steps of α", "one step of mα", "one step of mα, + α/4·R"]
    series = [points(name, [""], [value(0.6 + 0.01 * i)], i, scale=100) for i, name in enumerate(names)]
    return Chart(
        "penalty",
        "debian: does the penalty do what the steps do?",
        [View("test", "dot", Axis("", of=[""]), Axis("test accuracy (%)"), series)],
    )


def crowd() -> Chart:
    """Ten lines of many points each."""
    series = [
        Series(
            f"RNS, {k + 1} parts",
            list(range(200)),
            [80 - 30 * math.exp(-x / (10 + 5 * k)) for x in range(200)],
            color=k,
        )
        for k in range(10)
    ]
    view = View("val", "line", Axis("epoch", whole=True), Axis("validation accuracy (%)"), series)
    return Chart("crowd", "pokec-regions: ten numbers of parts", [view])


def star() -> Chart:
    """A node and its neighbours, some of which raise its number."""
    raises, lowers = {"Ann (ok)": 8.0, "Cem, Oslo (ok)": 2.0}, {"Bob (fraud)": -4.0}
    series = [
        Series(name, list(one), list(one.values()), color=i)
        for i, (name, one) in enumerate((("raises it", raises), ("lowers it", lowers)))
    ]
    return Chart("star", "Eva", [View("neighbours", "star", Axis("Eva", of=[*raises, *lowers]), Axis("adds"), series)])


def table(name: str = "ogbn-arxiv · 40 epochs") -> Table:
    rows = [
        [Cell(title(sampler)), Cell(f"{70 + 0.5 * i:.2f} ± 0.40", {5: 1, 4: 2}.get(i, 0)), Cell("12.0"), Cell("1.00")]
        for i, sampler in enumerate(SAMPLERS)
    ]
    return Table(name, ["Method", "Test accuracy (%)", "Seconds", "RAM (GiB)"], rows)


def wide_table() -> Table:
    head = ["", *(column for name in ("Test (%)", "Seconds", "GPU (GB)", "RAM (GB)") for column in (name, "paper"))]
    rows = [[Cell(title(name)), *[Cell("72.50 ± 0.40")] * 8] for name in SAMPLERS]
    return Table("Beside the paper", head, rows)


def samplers(**changed: object) -> Finding:
    fields = {
        "name": "samplers",
        "title": "ogbn-arxiv · 40 epochs",
        "words": "RNS is +0.23 points from full-graph training.",
        "tables": [table(), wide_table()],
        "charts": [curves(), costs()],
        "payload": {"graph": "ogbn-arxiv", "rows": [1, 2]},
        "facts": {"budget": "laptop", "seeds": "42, 123"},
        "details": [Table("What differs", ["Run", "sampler"], [[Cell("RNS"), Cell("rns (parts = 4)")]])],
    }
    return Finding(**{**fields, **changed})  # type: ignore[arg-type]


def findings() -> list[Finding]:
    """One for every kind of chart."""
    others = [regimes(), speedup(), terms(), structure(), errors(), bounds(), penalty(), crowd(), star()]
    return [
        samplers(),
        *(
            Finding(
                chart.name,
                f"{chart.name} · 40 epochs",
                f"What {chart.name} means.",
                charts=[chart],
                facts={"budget": "smoke"},
            )
            for chart in others
        ),
        Finding("datasets", "The data sets", tables=[table("Sizes")], failed=("web-fraud: not here",)),
    ]
