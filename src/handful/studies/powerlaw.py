"""Do samplers that keep the degrees have steadier gradients? The error of the exponent α against R(w)."""

from __future__ import annotations

from handful.finding import Cell, Finding, Table, best_two
from handful.studies.diagnose import plane_chart
from handful.studies.implicit import facts, heading, measured
from handful.studies.request import Request
from handful.theory.diagnosis import relation
from handful.vocabulary import title


def run(request: Request) -> Finding:
    """One point per sampler, from the same batches as ``implicit``."""
    what, found = measured(request)
    points = {d.name: (d.mean("alpha_error"), d.mean("R")) for d in found}
    ranks = [best_two(values, highest=False) for values in zip(*points.values(), strict=True)]
    rho = relation(found)
    corner = [title(name) for i, name in enumerate(points) if ranks[0][i] == ranks[1][i] == 1]
    place = f"{corner[0]} is in the bottom left corner" if corner else "no sampler is best in both"
    rows = [
        [Cell(title(name)), Cell(f"{error:.3g}", ranks[0][i]), Cell(f"{r:.3g}", ranks[1][i])]
        for i, (name, (error, r)) in enumerate(points.items())
    ]
    return Finding(
        "powerlaw",
        heading(what),
        f"Rank correlation over the samplers: {rho:.2f}; {place}.",
        [Table(heading(what), ["Sampler", "error of α", "R(w)"], rows)],
        [plane_chart(found, what["graph"])],
        {
            **what,
            "rank_correlation": rho,
            "samplers": [{"name": name, "alpha_error": error, "R": r} for name, (error, r) in points.items()],
        },
        facts(what),
    )
