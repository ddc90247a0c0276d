from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphs import make_graph, make_numbers
from handful import Experiment
from handful.errors import HandfulError, SamplerError
from handful.experiment import sampler_of
from handful.studies.compare import (
    choose_methods,
    compare_samplers,
    comparison,
    conclude,
    cost_chart,
    entries_of,
    pace,
    trainable,
)
from handful.studies.grid import Grid
from handful.studies.jobs import Outcome, silent
from handful.training.record import write_config
from handful.vocabulary import METHODS
from studies.smoke import GRAPH, MADE, check, made_outcome, smoke, trained_here


def grid(outcomes: list[Outcome], graph: str = GRAPH) -> Grid:
    jobs = {o.name: MADE.with_(graph=graph) for o in outcomes}
    return Grid(entries_of(jobs), {o.name: o for o in outcomes})


def test_samplers_by_name_with_batches_for_the_graph() -> None:
    graph = make_graph(200)
    size = -(-int(graph.train_mask.sum()) // 8)
    chosen = choose_methods({"neighbor": {}, "ladies": {}, "rns": {"parts": 3}}, 2, graph)
    neighbor, ladies, rns = (sampler_of(name, **own) for name, own in chosen.items())
    assert neighbor.options()["batch_size"] == ladies.options()["batch_size"] == size
    assert sum(1 for _ in neighbor.epoch(graph, 0, 0)) in (7, 8)
    assert ladies.options()["budget"] == (8192, 8192)
    assert rns.options()["parts"] == 3
    own = {"neighbor": {"batch_size": 5}}
    assert choose_methods(own, 2, graph)["neighbor"]["batch_size"] == 5
    with pytest.raises(HandfulError, match="did you mean rns"):
        choose_methods({"rsn": {}}, 2)


def test_rns_with_the_mean_field_has_the_options_of_rns_unless_it_has_its_own() -> None:
    given: dict[str, Any] = {"rns": {"parts": 3}, "rns-mean-field": {}}
    assert choose_methods(given, 2) == {name: {"parts": 3} for name in given}
    assert choose_methods(given | {"rns-mean-field": {"parts": 5}}, 2)["rns-mean-field"] == {"parts": 5}


def test_best_and_second_best_are_marked_and_a_failure_says_why(folder: Path) -> None:
    some = [
        made_outcome("full", [0.7], folder=folder, seconds=4.0),
        made_outcome("saint", None),
        made_outcome("rns", [0.72], folder=folder, seconds=2.0),
        made_outcome("ladies", [0.6], folder=folder, seconds=1.0),
    ]
    found = comparison("compare", grid(some))
    assert found.failed == ("saint",)
    assert found.payload["rows"][1] == {"sampler": "saint", "error": "out of memory", "paper": None}
    rows = found.tables[0].rows
    assert [row[0].text for row in rows] == [METHODS[outcome.name] for outcome in some]
    assert [row[1].rank for row in rows] == [2, 0, 1, 0]
    assert [row[3].rank for row in rows] == [0, 0, 2, 1]  # the least time is the best
    assert "out of memory" in rows[1][1].text
    assert [one.name for one in found.charts[0].views[0].series] == ["Full graph", "RNS", "LADIES"]


def test_memory_of_the_gpu_and_preparing_are_columns_where_there_is_any(folder: Path) -> None:
    plain = comparison("compare", grid([made_outcome("rns", [0.7], folder=folder)])).tables[0]
    more = [made_outcome("rns", [0.7], folder=folder, peak_gpu_bytes=2**31, prepare_seconds=3.0)]
    table = comparison("compare", grid(more)).tables[0]
    assert len(table.head) == len(plain.head) + 2
    assert [cell.text for cell in table.rows[0][-2:]] == ["2.00", "3.0"]


def test_the_paper_s_numbers_stand_beside_ours_but_not_beside_another_metric() -> None:
    jobs = {"rns": Experiment("ogbn-arxiv"), "full": Experiment("ogbn-arxiv", metric="macro_f1"), "saint": MADE}
    papers = {name: entry.paper for name, entry in entries_of(jobs).items()}
    assert papers["rns"]["test"]["mean"] == 0.7251
    assert (papers["full"], papers["saint"]) == (None, None)


def test_points_of_cost() -> None:
    some = [made_outcome("full", [0.7], seconds=4.0), made_outcome("rns", [0.72], seconds=2.0, peak_gpu_bytes=2**31)]
    time, memory = cost_chart(grid(some)).views
    assert [(series.x, series.y) for series in time.series] == [([4.0], [70.0]), ([2.0], [72.0])]
    assert [series.x for series in memory.series] == [[1.0], [2.0]]


def three(mean: float, half: float = 0.002) -> list[float]:
    """Three seeds of this mean, whose 95% interval is ± ``half``: 4.303·s/√3, s the distance of two from the mean."""
    s = half * 3**0.5 / 4.303
    return [mean - s, mean, mean + s]


def test_a_clear_winner_is_the_one_to_use() -> None:
    said = conclude([made_outcome("rns", three(0.75)), made_outcome("neighbor", three(0.8), seconds=2.6)])
    assert said.startswith("Use Neighbour sampling")
    assert "5.00 points" in said
    assert "RNS" in said
    errors = [made_outcome(name, three(mean), metric="mae") for name, mean in (("rns", 5.0), ("full", 7.0))]
    assert conclude(errors).startswith("Use RNS")


def test_of_those_that_seeds_do_not_tell_apart_the_fastest_is_the_one_to_use() -> None:
    rns, saint = three(0.778, 0.004), three(0.78, 0.003)
    alike = [made_outcome("rns", rns, seconds=8.0), made_outcome("saint", saint, seconds=9.0)]
    said = conclude([*alike, made_outcome("full", three(0.7), seconds=1.0)])
    assert said.startswith("Use RNS")
    assert "GraphSAINT" in said
    assert "Full graph" not in said


@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_give_no_verdict(seeds: int) -> None:
    said = conclude([made_outcome("rns", [0.6] * seeds), made_outcome("full", [0.75] * seeds)])
    assert said.startswith("Full graph is 15.00 points ahead of RNS")
    assert "Use" not in said


def test_what_failed_or_has_no_test_nodes_is_not_compared() -> None:
    fine, nan = made_outcome("rns", [0.7]), made_outcome("full", [float("nan")])
    assert conclude([fine, nan]) == conclude([fine]) == conclude([])


def test_every_method_has_a_row(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = smoke("samplers", tmp_path)
    assert list(untrained) == [row["sampler"] for row in found.payload["rows"]] == list(METHODS)[:-1]
    assert (untrained["ladies"].model, untrained["rns"].model) == ("gcn", "sage")
    assert [chart.name for chart in found.charts] == ["costs", "curves"]


def test_the_verdict_says_what_it_holds_for(folder: Path) -> None:
    few = made_outcome("full", [0.7], folder=folder, steps=40)
    many = made_outcome("rns", [0.72], folder=folder, steps=320)
    said = conclude([few, many])
    assert "equal epochs" in said
    assert "40 to 320 steps" in said
    longer = MADE.with_(epochs=16)
    assert "equal steps" in conclude([made_outcome("full", [0.7], longer, steps=310), many])
    assert "equal seconds" in conclude([made_outcome("full", [0.7], longer, steps=100), many])
    slower = made_outcome("full", [0.7], longer, steps=100, train_seconds=9.0)
    assert "equal" not in conclude([slower, many])
    table = comparison("compare", grid([few, many])).tables[0]
    assert [row[table.head.index("Steps")].text for row in table.rows] == ["40", "320"]


@pytest.mark.parametrize("equal", ["epochs", "steps", "seconds"])
def test_methods_are_given_equal_epochs_steps_or_seconds(equal: str, tmp_path: Path) -> None:
    experiment = Experiment(GRAPH, hidden=4, layers=1, epochs=4, evaluate_every=2, seeds=(1,))
    made = trainable(experiment, choose_methods({"full": {}, "rns": {"parts": 3}}, 1), silent)
    jobs = pace(made, equal, tmp_path)
    epochs = {name: job.settings.epochs for name, job in jobs.items()}
    if equal == "seconds":
        assert min(epochs.values()) == 4
        (tmp_path / "full").mkdir()
        begun = jobs["full"].with_(epochs=77)
        write_config(tmp_path / "full" / "config.json", begun.to_json())
        assert pace(jobs, equal, tmp_path)["full"].settings.epochs == 77  # and not what is measured now
    else:
        assert epochs == {"full": 4 if equal == "epochs" else 12, "rns": 4}
        assert jobs["full"].settings.evaluate_every == epochs["full"] // 2


@pytest.mark.slow
def test_every_sampler_trains_the_same_experiment(tmp_path: Path) -> None:
    experiment = Experiment(GRAPH, hidden=4, layers=1, epochs=2, seeds=(1,))
    methods = choose_methods({"full": {}, "rns": {"parts": 2}, "rns-mean-field": {}}, 1)
    jobs = trainable(experiment, methods, silent)
    trained_here({"full": experiment.with_(sampler="full")}, tmp_path)
    found = compare_samplers(jobs, tmp_path)
    check(found)
    assert [row["test"]["mean"] for row in found.payload["rows"]] == [job.run().test for job in jobs.values()]
    assert [row[0].text for row in found.tables[0].rows] == [METHODS[name] for name in jobs]


def test_a_sampler_that_cannot_train_the_model_is_left_out_and_says_why() -> None:
    methods = choose_methods({"full": {}, "ladies": {}, "rns-mean-field": {}}, 2)
    why: list[str] = []
    able = trainable(Experiment("debian", model="gat", layers=2), methods, why.append)
    assert [*able] == ["full"]
    assert "LADIES" in why[0]
    assert "first layer" in why[1]
    with pytest.raises(SamplerError, match="gat"):
        trainable(Experiment("debian", model="gat", layers=2), {"ladies": methods["ladies"]}, silent)


def test_labels_of_neighbours_are_left_out_without_classes() -> None:
    methods, why = choose_methods({"full": {}, "rns-labels": {}}, 2), list[str]()
    assert [*trainable(Experiment("debian", layers=2), methods, why.append, make_graph(60))] == [*methods]
    assert why == []
    assert [*trainable(Experiment("debian", layers=2), methods, why.append, make_numbers(60))] == ["full"]
    assert "regression" in why[0]
