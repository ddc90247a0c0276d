"""Measure the terms of the implicit objective of a sampler, at given weights and during training with Adam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from handful.errors import HandfulError
from handful.experiment import Experiment
from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View, points, ranked, text_table
from handful.nn import make_model, model_name
from handful.nn.network import Network, usable_device
from handful.runs import open_run
from handful.samplers import Sampler
from handful.statistics import mean_ci95
from handful.studies import presets
from handful.studies.budget import SAMPLERS, Request, Scale, benchmark
from handful.theory import diagnosis
from handful.theory.diagnosis import Diagnosis, relation
from handful.theory.implicit import ImplicitTerms, ImplicitWatch, epoch_steps, modified_loss
from handful.training.first_hop import Prepared
from handful.training.fit import device_names
from handful.training.record import RunFolder, load_model
from handful.vocabulary import TERMS, estimate, hues, spaced, title, words

PLANE = "alpha-R"
SCALE = Scale(hidden=64, layers=3, epochs=1)
AMOUNT = {"smoke": {"batches": 4, "seeds": 2}, "laptop": {"batches": 50, "seeds": 10}}
"""For each budget, the number of batches (50 in the paper) and the number of random initialisations (100 in the paper).
Each initialisation is measured on new samples.
"""
ADAM_SCALE = Scale(hidden=64, layers=3, epochs=40)
LOOKS = 10
"""The number of measurements during training with Adam, in addition to the one before the first epoch."""
ADAM_BATCHES = {"smoke": 4, "laptop": 24, "paper": 50}
FIGURE = ("bias", "loss_variance", "R", "grad_norm_sq")
"""The terms of the paper's figure."""
ALONG = ("bias", "R", "grad_norm_sq")
"""The terms in the chart of training with Adam."""


def diagnose_samplers(
    jobs: Sequence[Experiment],
    batches: int,
    repeats: int,
    weights: str | Path | None = None,
    step: float | None = None,
    momentum: float = 0.0,
    report: Callable[[Sampler], None] | None = None,
) -> Finding:
    """Measure the terms of the implicit objective for the samplers of ``jobs``, each with its first hop and mean field.

    Args:
        jobs: one experiment per sampler. The graph, the model, the seed and the device are those of the first
            experiment.
        batches: the number of batches per sampler and repeat.
        repeats: the number of repeats, each with a new initialisation and new samples.
        weights: the folder of an experiment (its best seed is used) or of a run, or a file ``model.safetensors``. The
            saved model replaces the model of the first experiment and its random initialisations.
        step: a learning rate; if it is given, the table also has a row with the modified loss.
        momentum: the momentum in the modified loss.
        report: a function that is called with the sampler after each of its repeats.
    """
    experiment = jobs[0]
    seed = experiment.seeds[0]
    graph = experiment.load(seed).to(usable_device(device_names(experiment.device)[0]))
    network = partial(make_model, experiment.model, graph.num_features, graph.num_outputs, **experiment.options)
    if weights is not None:
        saved = read_saved_model(weights)
        if (saved.in_features, saved.out_features) != (graph.num_features, graph.num_outputs):
            maps = f"{weights} maps {saved.in_features} features to {saved.out_features} outputs"
            needs = f"{graph.name} needs {graph.num_features} and {graph.num_outputs}"
            raise HandfulError(f"{maps}, and {needs}: give the weights of a run on this graph")
        experiment = experiment.with_(model=model_name(saved), options=saved.options)
        network = partial(read_saved_model, weights)
    if any(job.settings.label_features != "no" for job in jobs) or network().label_head is not None:
        raise HandfulError("diagnose has no label features: give weights that were trained with label_features='no'")
    samplers = [Prepared.of(job.sampler, graph, network(), job.settings) for job in jobs]
    result = diagnosis.diagnose(graph, samplers, network, batches, repeats, seed, report)
    shape = f"{experiment.model} {experiment.options['layers']}×{experiment.options['hidden']}"
    where = "random initialisation" if weights is None else "saved weights"
    heading = f"{graph.name} · {shape} · {batches} batches × {repeats} repeats at {where}"
    settings = {"model": experiment.model, **experiment.options, "weights": weights and str(weights)}
    settings |= {"batches": batches, "repeats": repeats, "seed": seed, "samplers": [str(one) for one in samplers]}
    said, table = diagnosis.in_words(result), term_table(heading, result)
    if step is not None:
        table.rows.append([Cell(f"L̃ at lr {step:g}")])
        for d in result:
            m = epoch_steps(graph, d.sampler, seed)
            loss = np.mean([modified_loss(terms, lr=step, momentum=momentum, m=m) for terms in d.terms])
            table.rows[-1].append(Cell(f"{loss:.4g}"))
    payload: dict[str, Any] = {"graph": graph.name, "settings": settings, "samplers": [d.record() for d in result]}
    payload |= {"alpha_R_rank_correlation": relation(result), "words": said}
    facts = {spaced(name): words(value) for name, value in settings.items()}
    charts = [term_chart(result, graph.name), plane_chart(result, graph.name)]
    return Finding("diagnose", heading, said, [table], charts, payload, facts)


def read_saved_model(weights: str | Path) -> Network:
    """Read the model from ``weights``. If this is the folder of an experiment, read the model of the best seed."""
    whole = Path(weights).is_dir() and not RunFolder(weights).model.exists()
    return open_run(weights).model if whole else load_model(weights)


def term_table(heading: str, diagnoses: Sequence[Diagnosis]) -> Table:
    """Make a table with a row per term and a column per sampler. In each row, the two smallest values are marked."""
    rows = [[Cell("targets of a batch"), *(Cell(f"{d.mean('targets'):,.0f}") for d in diagnoses)]]
    for term, label in TERMS.items():
        # The gradient norm is not ranked, since small is not better. All other terms are distances from the full graph.
        means = [None if term in ("grad_norm_sq", "adam_norm") else d.mean(term) for d in diagnoses]
        texts = [estimate(mean_ci95(d.values(term)), ".3g") for d in diagnoses]
        rows.append([Cell(label), *ranked(texts, means, highest=False)])
        if term == "R":
            one = [d.variance_per_target for d in diagnoses]
            rows.append([Cell("R × targets"), *ranked([f"{value:,.4g}" for value in one], one, highest=False)])
    return Table(heading, ["", *(title(d.name) for d in diagnoses)], rows)


def term_chart(diagnoses: Sequence[Diagnosis], graph: str) -> Chart:
    """Make the paper's figure of the implicit terms: one panel per term, with mean and 95% CI over repeats."""
    names, colors = [title(d.name) for d in diagnoses], hues([d.name for d in diagnoses])
    views = []
    for term in FIGURE:
        means = [mean_ci95(d.values(term)) for d in diagnoses]
        series = [points(n, [n], [value], hue) for n, value, hue in zip(names, means, colors, strict=True)]
        y = Axis("", log=all(value["mean"] > 0 for value in means))
        views.append(View(TERMS[term], "dot", Axis("", of=names), y, series))
    return Chart("terms", f"{graph}: implicit regularisation terms", views, together=True)


def plane_chart(diagnoses: Sequence[Diagnosis], graph: str) -> Chart:
    """Chart R(w) against the error of the power-law exponent, with one point per sampler."""
    rows = [d for d in diagnoses if np.isfinite(d.mean("alpha_error"))]
    series = []
    for d, hue in zip(rows, hues([d.name for d in rows]), strict=True):
        series.append(Series(title(d.name), [d.mean("alpha_error")], [d.mean("R")], color=hue))
    x, y = (Axis(TERMS[term], log=all(d.mean(term) > 0 for d in rows)) for term in ("alpha_error", "R"))
    return Chart(PLANE, f"{graph}: error of degrees and variance of gradients", [View("plane", "dot", x, y, series)])


# -- studies ----------------------------------------------------------------------------------------------------------


def implicit(request: Request) -> Finding:
    """Each sampler's implicit objective at random initialisation: bias, loss variance, R(w), gradient norm.

    The model is the GraphSAGE of the sampling benchmark, without dropout.
    """
    amount = AMOUNT.get(request.budget) or presets.read_table("protocol", "fig:implicit_reg_all_metrics")
    experiments = [benchmark(request, request.graph_or("ogbn-arxiv"), name, SCALE) for name in SAMPLERS]
    total, done = amount["seeds"] * len(SAMPLERS), count(1)

    def report(sampler: Sampler) -> None:
        request.report(next(done), total, title(sampler.name))

    request.report(0, total, title(SAMPLERS[0]))
    return replace(diagnose_samplers(experiments, amount["batches"], amount["seeds"], report=report), name="implicit")


def along_adam(request: Request) -> Finding:
    """The terms of the implicit objective during training with Adam: R(w), bias and gradient norm.

    Each sampler trains its own model. The terms are measured at regular intervals during training, on new batches.
    """
    batches, graph = ADAM_BATCHES[request.budget], request.graph_or("ogbn-arxiv")
    histories: dict[str, list[list[tuple[int, ImplicitTerms]]]] = {name: [] for name in SAMPLERS}
    for seed, name in request.each([(seed, name) for seed in request.seeds for name in SAMPLERS], "{0[1]}".format):
        own = benchmark(request, graph, name, ADAM_SCALE)
        watch = ImplicitWatch(max(1, own.settings.epochs // LOOKS), batches, seed)
        data = own.load(seed)
        own.fit(data, seed, [watch])
        histories[name].append(watch.history)
    curves = {name: mean_terms(runs) for name, runs in histories.items()}
    colors = dict(zip(curves, hues(list(curves)), strict=True))
    views = []
    for term in ALONG:
        lines = [Series(title(n), c["share"], [*c[term]], color=colors[n]) for n, c in curves.items()]
        x, y = Axis("share of the training (%)"), Axis("", log=term != "bias")
        views.append(View(TERMS[term], "line", x, y, lines))
    rows = [[title(n), *(f"{c[term][at]:.3g}" for term in ("R", "bias") for at in (0, -1))] for n, c in curves.items()]
    moved = ", ".join(f"{title(n)} {c['R'][-1] / c['R'][0]:.2g}" for n, c in curves.items() if c["R"][0] > 0)
    said = f"R(w) at the end over R(w) at the start: {moved}."
    heading = f"{data.name} · along Adam · {batches} batches per measurement · seeds {words(request.seeds)}"
    head = ["Sampler", "R(w) at the start", "at the end", "bias at the start", "at the end"]
    chart = Chart("along-adam", f"{data.name}: the terms along training with Adam", views, together=True)
    payload = {"graph": data.name, "batches": batches, "curves": curves}
    return Finding("along-adam", heading, said, [text_table(heading, head, rows)], [chart], payload)


def mean_terms(runs: Sequence[Sequence[tuple[int, ImplicitTerms]]]) -> dict[str, list[float]]:
    """The mean of every term over the seeds, at each measured epoch. ``epoch`` lists these epochs, and ``share`` lists
    them as percentages of the last epoch.
    """
    epochs = [epoch for epoch, _ in runs[0]]
    result: dict[str, list[float]] = {"epoch": [*map(float, epochs)], "share": [100 * e / epochs[-1] for e in epochs]}
    for term in (*ALONG, "loss_variance"):
        result[term] = np.mean([[getattr(terms, term) for _, terms in run] for run in runs], axis=0).tolist()
    return result
