from __future__ import annotations

from pathlib import Path

import pytest

from handful import Experiment, RandomNodes
from handful.errors import HandfulError
from handful.studies import presets
from handful.studies.budget import (
    BUDGETS,
    SMOKE,
    Request,
    Scale,
    adapt,
    benchmark,
    scaled,
    small,
    study_folder,
    train_jobs,
    tune_jobs,
)
from handful.studies.tuning import search
from handful.vocabulary import PAPER_SEEDS
from studies.smoke import GRAPH, trained_here

LAPTOP = Scale(hidden=128, layers=3, epochs=40)


def test_the_paper_s_budget_is_the_paper_s_tables() -> None:
    request = Request(budget="paper")
    full, rns = (benchmark(request, "pokec", name, LAPTOP) for name in ("full", "rns"))
    assert (full.settings.lr, full.settings.epochs, full.options["dropout"]) == (1e-3, 2000, 0.7)
    assert (rns.sampler.options()["parts"], rns.settings.weight_decay) == (2, 1e-4)
    ladies = benchmark(request, "pokec", "ladies", LAPTOP)
    assert (ladies.model, ladies.options["layers"]) == ("gcn", 5)
    neighbor = benchmark(request, "pokec", "neighbor", LAPTOP)
    assert (neighbor.settings.epochs, neighbor.settings.evaluation) == (20, "sampled")
    assert neighbor.with_(evaluate_every=1) == presets.sampling("pokec", "neighbor")
    with pytest.raises(HandfulError, match="the paper's tables"):
        benchmark(request, "debian", "rns", LAPTOP)


def test_on_a_laptop_methods_differ_in_the_sampler_alone() -> None:
    full, rns = (benchmark(Request(budget="laptop"), "debian", name, LAPTOP) for name in ("full", "rns"))
    assert full.with_(sampler=rns.sampler) == rns
    assert (full.options["hidden"], full.settings.epochs) == (128, 40)
    assert full.settings.evaluate_every == 2


def test_scales() -> None:
    assert scaled(Request(budget="smoke"), LAPTOP) == SMOKE
    assert scaled(Request(budget="laptop"), LAPTOP) == LAPTOP
    former = small("debian", "rns", LAPTOP, "sgformer")
    assert (former.options["layers"], former.options["gnn_layers"]) == (1, 3)
    neighbor = small("debian", "neighbor", LAPTOP)
    assert (neighbor.settings.epochs, neighbor.settings.evaluation) == (10, "sampled")
    assert small("debian", "ladies", LAPTOP).sampler.options()["budget"] == (8192,) * 3


def test_what_was_asked_for_is_taken_over() -> None:
    spread = Experiment("pokec", split="rl", device="cuda:0,cuda:1", epochs=1000)
    own = adapt(Request(split="rh", root="here", seeds=(7,), budget="paper"), spread)
    assert (own.split, own.root, own.seeds, own.device) == ("rl", "here", (7,), "cpu")
    assert own.settings.evaluate_every == 5
    assert adapt(Request(device="cuda"), spread).device == "cuda:0,cuda:1"
    assert adapt(Request(split="rh", device="cuda:1"), Experiment("pokec")).split == "rh"
    assert adapt(Request(device="cuda:1"), Experiment("pokec")).device == "cuda:1"


@pytest.mark.slow
def test_progress_counts_the_epochs_of_all_jobs(tmp_path: Path) -> None:
    said: list[tuple[int, int, str]] = []
    request = Request(GRAPH, budget="smoke", out=tmp_path, report=lambda *args: said.append(args))
    one = Experiment(GRAPH, hidden=4, layers=1, epochs=2, seeds=(1, 2))
    trained_here({"a": one}, tmp_path)
    outcomes = train_jobs(request, {"a": one, "b": one.with_(seeds=(1,))}).values()
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert said[-1] == (6, 6, "b: done")
    assert {total for _, total, _ in said} == {6}


@pytest.mark.slow
def test_every_configuration_may_be_tuned_apart(tmp_path: Path) -> None:
    base = Experiment(GRAPH, hidden=4, layers=1, epochs=1, seeds=(42,))
    jobs = {f"m-{m}": base.with_(sampler=RandomNodes(m)) for m in (1, 2)}
    assert tune_jobs(Request(), jobs) == jobs
    said: list[tuple[int, int, str]] = []
    request = Request(out=tmp_path, tune_each=1, report=lambda *args: said.append(args))
    found = tune_jobs(request, jobs)
    for name, job in jobs.items():
        best = search(job, f"sqlite:///{tmp_path / 'tune.db'}", 1)  # each has a study of its own, which is done
        assert found[name] == best.experiment == job.with_(**best.parameters)
    assert [*dict.fromkeys(done for done, _, _ in said)] == [0, 1, 2]


def test_seeds_are_the_budget_s_unless_given() -> None:
    assert Request(budget="paper").seeds == PAPER_SEEDS == BUDGETS["paper"]
    assert Request(budget="laptop").seeds == (42, 123, 456)
    assert Request(budget="smoke").seeds == (42,)
    assert Request(budget="paper", seeds=(7,)).seeds == (7,)
    with pytest.raises(HandfulError, match="laptop"):
        Request(budget="labtop")


def test_the_graph_is_what_was_asked_for_else_the_paper_s_or_debian() -> None:
    assert Request("mine", budget="paper").graph_or("pokec") == "mine"
    assert Request(budget="paper").graph_or("pokec") == "pokec"
    assert Request(budget="laptop").graph_or("pokec") == "debian"


def test_the_same_question_has_the_same_folder() -> None:
    assert study_folder("parts", "a/b c.npz", "smoke") == Path("runs/study-parts-b-c.npz-smoke")
    assert study_folder("parts", None, "laptop") == Path("runs/study-parts-laptop")
    assert study_folder("parts", "a", "smoke") != study_folder("fanout", "a", "smoke")


def test_seeds_that_were_named() -> None:
    assert not Request().seeds_given
    assert Request(seeds=PAPER_SEEDS[:3]).seeds_given
