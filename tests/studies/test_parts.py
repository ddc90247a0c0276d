"""Choosing m: noise does not decide, memory does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from graphs import make_graph
from handful import Experiment, RandomNodes, open_run, save
from handful.errors import HandfulError
from handful.studies.jobs import Outcome
from handful.studies.parts import auto_parts, better, choose_parts, recommend
from studies.smoke import GRAPH, check, made_outcome, trained_here

NOISE = np.array([-0.004, 0.001, 0.003])


def curve(means: dict[int, float], memory: Callable[[int], int] = lambda m: 100 // m) -> Callable[[int], Outcome]:
    """A ``measure`` whose seeds all differ in the same way, and a little by m, as paired runs do."""

    def measure(m: int) -> Outcome:
        wobble = np.random.default_rng(m).normal(0, 1e-4, 3)
        return made_outcome(f"m-{m}", (means[m] + NOISE + wobble).tolist(), peak_ram_bytes=memory(m))

    return measure


def test_better_is_a_paired_one_sided_t_test() -> None:
    rng = np.random.default_rng(0)
    decided = []
    for _ in range(300):
        old = rng.normal(0.7, 0.02, 5)
        new = old + rng.normal(0.004, 0.005, 5)
        decided.append(better(new, old))
        assert decided[-1] == bool(stats.ttest_rel(new, old, alternative="greater").pvalue < 0.05)
    assert 0 < np.mean(decided) < 1


def test_the_same_is_not_better() -> None:
    assert not better([0.7, 0.7], [0.7, 0.7])
    assert better([0.71, 0.81], [0.70, 0.80])


def test_m_is_raised_until_nothing_is_won() -> None:
    means = {1: 0.60, 2: 0.70, 4: 0.75, 8: 0.75, 16: 0.74, 32: 0.9}
    chosen, seen = recommend(curve(means))
    assert chosen == 4
    assert [*seen] == [1, 2, 4, 8, 16]  # 32 is never tried


def test_one_flat_step_does_not_end_the_search() -> None:
    means = {1: 0.60, 2: 0.70, 4: 0.70, 8: 0.75, 16: 0.74, 32: 0.74}
    assert recommend(curve(means))[0] == 8


def test_the_whole_graph_is_taken_where_it_is_better() -> None:
    means = {1: 0.72, 2: 0.70, 4: 0.68, 8: 0.66}
    chosen, seen = recommend(curve(means))
    assert (chosen, [*seen]) == (1, [1, 2, 4, 8])


def test_most_is_the_last_that_is_tried() -> None:
    means = {1: 0.1, 2: 0.2, 4: 0.3, 8: 0.4}
    assert recommend(curve(means), most=4)[0] == 4


def test_what_does_not_fit_is_not_taken_and_one_part_is_not_tried_then() -> None:
    means = {1: 0.9, 2: 0.8, 4: 0.7, 8: 0.7, 16: 0.7}
    chosen, seen = recommend(curve(means), memory=30)
    assert (chosen, [*seen]) == (4, [2, 4, 8, 16])
    assert recommend(curve(means), memory=60)[0] == 2  # one part takes 100
    assert recommend(curve(means), most=16, memory=1)[0] is None


def test_a_run_that_breaks_off_is_passed_over() -> None:
    fine = curve({4: 0.7, 8: 0.7, 16: 0.7})

    def measure(m: int) -> Outcome:
        return fine(m) if m > 2 else made_outcome(f"m-{m}", None)

    chosen, seen = recommend(measure)
    assert (chosen, [*seen]) == (4, [2, 4, 8, 16])


def test_one_seed_cannot_tell_and_other_samplers_deal_no_parts(tmp_path: Path) -> None:
    with pytest.raises(HandfulError, match="at least two seeds"):
        choose_parts(Experiment("debian", seeds=(1,)), tmp_path)
    with pytest.raises(HandfulError, match="only the sampler rns"):
        choose_parts(Experiment("debian", sampler="full"), tmp_path)


def test_m_is_chosen_by_runs_that_are_kept(tmp_path: Path) -> None:
    experiment = Experiment(GRAPH, hidden=8, layers=1, epochs=2, seeds=(1, 2))
    trained_here({f"m-{m}": experiment.with_(sampler=RandomNodes(m)) for m in (1, 2)}, tmp_path)
    found = choose_parts(experiment, tmp_path, most=2)
    check(found)
    assert [point["m"] for point in found.payload["curve"]] == [1, 2]
    vals = {m: [run.val for run in open_run(tmp_path / f"m-{m}").results] for m in (1, 2)}
    for point in found.payload["curve"]:
        assert point["val"]["mean"] == pytest.approx(np.mean(vals[point["m"]]))
    assert found.payload["recommended"] == (1 if better(vals[1], vals[2]) else 2)
    nothing = choose_parts(experiment, tmp_path, most=2, memory=1)
    assert nothing.payload["recommended"] is None


def test_what_does_not_fit_by_the_plan_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handful.plan.free_memory", lambda: 1)
    experiment = Experiment(GRAPH, hidden=8, layers=1, epochs=2, seeds=(1, 2))
    found = choose_parts(experiment, tmp_path, most=4)
    assert [point["m"] for point in found.payload["curve"]] == [2, 4]
    assert all("by the plan it takes" in point["error"] for point in found.payload["curve"])
    assert all(
        point["val"] is point["seconds"] is point["peak_memory_bytes"] is None for point in found.payload["curve"]
    )
    assert not list(tmp_path.iterdir())
    with pytest.raises(HandfulError, match="by the plan"):
        auto_parts(experiment, tmp_path)


def test_a_point_takes_the_memory_of_the_gpu_where_there_is_one() -> None:
    for gpu, chosen in ((None, None), (7, 2)):
        one = made_outcome("m-2", [0.5, 0.7], peak_ram_bytes=10, peak_gpu_bytes=gpu)
        assert recommend(lambda m, one=one: one, most=2, memory=7)[0] == chosen


@pytest.mark.slow
def test_the_m_that_was_found_is_taken_and_all_else_kept(tmp_path: Path) -> None:
    experiment = Experiment(GRAPH, sampler=RandomNodes(7), hidden=8, layers=1, epochs=2, seeds=(1, 2, 3, 4))
    taken, tried = auto_parts(experiment, tmp_path)
    assert taken.sampler.options()["parts"] in tried
    assert taken.with_(sampler=experiment.sampler) == experiment
    assert {1, 2} <= set(tried)
    assert all(len(open_run(tmp_path / f"m-{m}").results) == 3 for m in tried)


def test_without_validation_nodes_there_is_nothing_to_choose_by(tmp_path: Path) -> None:
    graph = make_graph(80)
    assert graph.val_mask is not None
    path = save(graph.replace(val_mask=torch.zeros_like(graph.val_mask)), tmp_path / "graph")
    with pytest.raises(HandfulError, match="no validation nodes"):
        choose_parts(Experiment(path, hidden=4, layers=1, epochs=1, seeds=(1, 2)), tmp_path / "out")
