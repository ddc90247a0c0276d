"""Experiments: complete values that JSON keeps, one run for each seed, and no resume of anything else."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import handful as hf
from graphs import make_graph
from handful.errors import HandfulError
from handful.files import unseal
from handful.nn import MODELS, model_defaults
from handful.nn.network import declared_options
from handful.samplers import sampler_names
from handful.training.record import RunFolder, read_config
from handful.vocabulary import METHODS
from small import BreakOff, another, assert_same_end, timeless

MODEL_HINTS = {
    name: hint
    for model in MODELS.values()
    for cls in reversed(model.__mro__)
    for name, hint in get_type_hints(cls.__init__).items()
    if name in declared_options(model)
}
SETTINGS_HINTS = get_type_hints(hf.Settings)
SMALL: dict[str, Any] = {"hidden": 4, "layers": 2}
SAMPLERS = {
    "rns": hf.RandomNodes(2),
    "full": hf.FullGraph(),
    "neighbor": hf.Neighbors((3, 2), 40),
    "cluster": hf.Clusters(4, 2),
    "saint": hf.RandomWalks(10, 2, coverage=2),
    "ladies": hf.Ladies((20, 20), 40),
}


def an_experiment(**changes: Any) -> hf.Experiment:
    return hf.Experiment("synthetic?nodes=100&degree=4", **{"seeds": (1,), "epochs": 2, **SMALL, **changes})


# -- values -----------------------------------------------------------------------------------------------------------

option_values: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("hidden", "layers", "heads", "gnn_layers"), st.integers(1, 4)),
    **dict.fromkeys(("alpha", "graph_weight"), st.floats(0, 1)),
    "input_dropout": st.floats(0, 1, exclude_max=True),
    **{name: st.booleans() for name, hint in MODEL_HINTS.items() if hint is bool},
    "dropout": st.floats(0, 1, exclude_max=True),
    "norm": st.sampled_from(["bn", "ln", "none"]),
}
numbers = st.integers(1, 9)
sampler_values: dict[str, st.SearchStrategy[hf.Sampler]] = {
    "rns": st.builds(hf.RandomNodes, numbers, st.booleans(), st.booleans())
    | st.builds(hf.RandomNodes, numbers, fraction=st.floats(0.1, 1)),
    "full": st.just(hf.FullGraph()),
    "neighbor": st.builds(hf.Neighbors, st.lists(numbers | st.just(-1), min_size=1).map(tuple), numbers),
    "cluster": st.builds(hf.Clusters, st.integers(9, 20), numbers),
    "saint": st.builds(hf.RandomWalks, numbers, numbers, st.booleans(), numbers),
    "ladies": st.builds(hf.Ladies, numbers, numbers),
}


@st.composite
def experiments(draw: st.DrawFn, model: str, sampler: str) -> hf.Experiment:
    drawn = {name: draw(option_values[name]) for name in model_defaults(model)}
    if "heads" in drawn:
        drawn["hidden"] *= drawn["heads"]
    given = draw(st.sets(st.sampled_from(sorted(drawn))) if model != "gat" else st.just(set(drawn)))
    return hf.Experiment(
        draw(st.sampled_from(["debian", "synthetic?nodes=1000", "/some/where.npz"])),
        split=draw(st.sampled_from([None, "rh", "random:60/20/20"])),
        root=draw(st.sampled_from([None, "/data"])),
        model=model,
        options={name: drawn[name] for name in given},
        sampler=draw(sampler_values[sampler]),
        seeds=draw(st.lists(st.integers(0, 2**62), min_size=1, max_size=4, unique=True)),
        device=draw(st.sampled_from(["cpu", "cuda:0,cuda:1"])),
        epochs=draw(st.integers(1, 1000)),
        lr=draw(st.floats(1e-9, 10)),
        clip=draw(st.none() | st.floats(1e-9, 10)),
        patience=draw(st.none() | st.integers(1, 9)),
    )


@settings(max_examples=8)
@given(data=st.data())
@pytest.mark.parametrize(
    ("model", "sampler"),
    [(m, s) for m in MODELS for s in sampler_values if s != "ladies" or MODELS[m].sums_neighbors],
)
def test_json_keeps_all_of_it(model: str, sampler: str, data: st.DataObject) -> None:
    experiment = data.draw(experiments(model, sampler))
    again = hf.Experiment.from_json(json.loads(json.dumps(experiment.to_json())))
    assert again == experiment
    assert hash(again) == hash(experiment)
    assert again.to_json() == experiment.to_json()
    assert pickle.loads(pickle.dumps(experiment)) == experiment


def test_every_model_and_sampler_is_tried() -> None:
    assert set(sampler_values) == set(SAMPLERS) == set(sampler_names())
    assert set(option_values) == set(MODEL_HINTS)


@pytest.mark.parametrize("model", MODELS)
def test_defaults_given_are_defaults_left_out(model: str) -> None:
    left_out = hf.Experiment("debian", model=model)
    by_name = hf.Experiment("debian", model=model, **model_defaults(model), epochs=100, lr=1e-3)
    as_parts = hf.Experiment(
        Path("debian"), model=model, options=model_defaults(model), sampler="rns", settings=hf.Settings(),
        seeds=[42, 123, 456, 789, 101112],
    )  # fmt: skip
    assert left_out == by_name == as_parts
    assert len({left_out, by_name, as_parts}) == 1
    assert left_out.options == model_defaults(model)


def test_equal_numbers_are_equal_whatever_their_type() -> None:
    plain = an_experiment(dropout=0.0, lr=1.0, sampler=hf.RandomNodes(fraction=1.0))
    other = an_experiment(dropout=0, lr=1, hidden=np.int64(4), sampler=hf.RandomNodes(fraction=1), seeds=np.array([1]))
    assert plain == other
    assert hash(plain) == hash(other)
    assert json.dumps(other.to_json())


def changes_of(experiment: hf.Experiment) -> dict[str, Any]:
    """Another value for every part, setting and option, by its name."""
    parts = {
        "graph": "synthetic?nodes=120&degree=4",
        "split": "random:60/20/20",
        "root": "/elsewhere",
        "model": "gcn" if experiment.model != "gcn" else "sage",
        "sampler": hf.FullGraph() if experiment.sampler.name != "full" else hf.RandomNodes(),
        "seeds": (1, 2),
        "device": "cpu,cpu",
    }
    assert {*parts, "options", "settings"} == {f.name for f in fields(hf.Experiment)}
    how = {name: another(getattr(experiment.settings, name), hint) for name, hint in SETTINGS_HINTS.items()}
    how |= {"first_hop": "auto"}  # which every model takes
    del how["mean_field"]  # which not every sampler takes: see ``test_what_cannot_aggregate_first_is_refused``
    what = {name: another(value, MODEL_HINTS[name]) for name, value in experiment.options.items()}
    return {**parts, **how, **what}


def test_what_cannot_aggregate_first_is_refused() -> None:
    experiment = hf.Experiment("debian")
    assert experiment.with_(mean_field=1.0) != experiment
    with pytest.raises(HandfulError, match="first layer of gat"):
        experiment.with_(model="gat", mean_field=1.0)
    with pytest.raises(HandfulError, match="first layer of gat"):
        experiment.with_(model="gat", first_hop="exact")


def test_a_method_is_a_sampler_with_what_it_sets() -> None:
    base = hf.Experiment("debian")
    for method in METHODS:
        assert base.with_method(method).method == method
    assert hf.Experiment("debian", model="gat", first_hop="auto", mean_field=1.0).method == "rns"
    assert base.with_method("rns-mean-field", parts=8).sampler == hf.RandomNodes(8)


@pytest.mark.parametrize("model", MODELS)
def test_any_field_makes_another_experiment(model: str) -> None:
    experiment = hf.Experiment("debian", model=model, seeds=(1,))
    for name, value in changes_of(experiment).items():
        if name != "heads" or model != "gat":  # whose heads must divide its width
            assert experiment.with_(**{name: value}) != experiment, name


def test_it_is_frozen() -> None:
    experiment = an_experiment()
    for f in fields(experiment):
        with pytest.raises(FrozenInstanceError):
            setattr(experiment, f.name, None)


def test_with_exchanges_some_parts() -> None:
    first = an_experiment(dropout=0.25, lr=0.5, model="gat", heads=2)
    second = first.with_(lr=0.1, hidden=8, sampler="full", options={"norm": "ln"})
    assert second == an_experiment(
        dropout=0.25, lr=0.1, model="gat", heads=2, hidden=8, norm="ln", sampler=hf.FullGraph()
    )
    assert first.with_() == first
    assert first.with_(settings=hf.Settings(epochs=7), lr=2.0).settings == hf.Settings(epochs=7, lr=2.0)
    other_model = first.with_(model="graphland-sage", layers=5)
    assert other_model.options == {**model_defaults("graphland-sage"), "layers": 5}
    assert other_model.settings == first.settings


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"hiden": 8}, "did you mean hidden"),
        ({"optmizer": "sgd"}, "did you mean optimizer"),
        ({"seed": 3}, "did you mean seeds"),
        ({"sampelr": "full"}, "did you mean sampler"),
        ({"heads": 2}, "there is no setting, or option of sage, 'heads'"),
        ({"options": {"lr": 1.0}}, "there is no"),
        ({"model": "sgae"}, "did you mean sage"),
        ({"sampler": "rnss"}, "did you mean rns"),
        ({"sampler": 4}, "sampler takes a sampler or its name, got 4"),
        ({"dropout": 1.5}, r"dropout must lie in \[0, 1\), got 1.5"),
        ({"dropout": "much"}, "dropout must be a finite number, got 'much'"),
        ({"norm": "batch"}, "norm must be bn, ln or none, got 'batch'"),
        ({"norm": None}, "norm must be bn, ln or none"),
        ({"residual": "yes"}, "residual must be true or false, got 'yes'"),
        ({"hidden": 0}, "hidden must lie in .* got 0"),
        ({"hidden": 64.0}, "hidden must be a whole number, got 64.0"),
        ({"model": "gat", "hidden": 10, "heads": 3}, "hidden .* must be a multiple of heads"),
        ({"model": "sgformer", "alpha": 2.0}, r"alpha must lie in \[0, 1\]"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"lr": float("nan")}, "lr must be a finite number, got nan"),
        ({"seeds": ()}, r"each once, got \(\)"),
        ({"seeds": (1, 1)}, r"each once, got \(1, 1\)"),
        ({"seeds": (-1,)}, r"from 0 on, each once, got \(-1,\)"),
        ({"seeds": (1.5,)}, "seeds takes whole numbers"),
        ({"seeds": 3}, "seeds takes whole numbers"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(hf.HandfulError, match=words):
        hf.Experiment("debian", **wrong)
    with pytest.raises(hf.HandfulError, match=words):
        hf.Experiment("debian").with_(**wrong)


def test_a_graph_itself_is_refused_with_what_to_do(graph: hf.Graph) -> None:
    with pytest.raises(hf.HandfulError, match=r"handful\.save\(graph, path\).*run\(graph=graph\)"):
        hf.Experiment(graph)  # type: ignore[arg-type]
    with pytest.raises(hf.HandfulError, match=r"names no graph.*run\(graph=graph\)"):
        hf.Experiment().run()


@pytest.mark.parametrize("missing", [f.name for f in fields(hf.Experiment)])
def test_json_without_a_part_is_no_experiment(missing: str) -> None:
    value = an_experiment().to_json()
    del value[missing]
    with pytest.raises(hf.RunError, match=missing):
        hf.Experiment.from_json(value)


# -- runs -------------------------------------------------------------------------------------------------------------


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HANDFUL_HOME", str(tmp_path))
    summary = an_experiment().run()
    assert summary.runs[0].dir is None
    assert not list(tmp_path.rglob("*"))


def test_each_seed_is_a_fit_of_a_model_made_after_it(tmp_path: Path) -> None:
    experiment = an_experiment(seeds=(1, 2, 3), split="random:50/25/25", epochs=3, lr=0.01, dropout=0.3)
    summary = experiment.run(tmp_path)
    splits = []
    for seed, run in zip(experiment.seeds, summary.runs, strict=True):
        graph = hf.load(experiment.graph, split="random:50/25/25", seed=seed)
        splits.append(graph.train_nodes.tolist())
        torch.manual_seed(seed)
        model = hf.SAGE(graph.num_features, graph.num_outputs, **SMALL, dropout=0.3)
        alone = hf.fit(model, graph, hf.RandomNodes(), epochs=3, lr=0.01, seed=seed)
        assert timeless(alone.history) == timeless(run.history)
        assert (alone.val, alone.test, alone.best_epoch) == (run.val, run.test, run.best_epoch)
        assert (run.seed, run.dir) == (seed, str(tmp_path / f"seed-{seed}"))
        opened = hf.load_model(tmp_path / f"seed-{seed}")
        assert torch.equal(hf.infer(opened, graph), hf.infer(model, graph))
        assert hf.Experiment.from_json(read_config(tmp_path / f"seed-{seed}" / "config.json")) == experiment.with_(
            seeds=(seed,)
        )
    assert splits[0] != splits[1]
    assert hf.Experiment.from_json(read_config(tmp_path / "config.json")) == experiment


def test_a_summary_is_means_with_their_intervals(tmp_path: Path) -> None:
    summary = an_experiment(seeds=(1, 2, 3), dropout=0.3, lr=0.02).run(tmp_path)
    told = summary.to_json()
    for name in ("val", "test"):
        values = np.array([getattr(run, name) for run in summary.runs])
        assert told[name]["mean"] == pytest.approx(values.mean())
        low, high = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
        assert told[name]["ci95"] == pytest.approx((high - low) / 2)
        assert getattr(summary, name) == pytest.approx(values.mean())
    assert told["seconds"]["mean"] == pytest.approx(np.mean([run.seconds for run in summary.runs]))
    assert told["epoch_seconds"]["mean"] == pytest.approx(np.mean([run.train_seconds / 2 for run in summary.runs]))
    assert told["peak_memory_bytes"] == {"ram": max(run.peak_ram_bytes for run in summary.runs), "gpu": None}
    assert [run["seed"] for run in told["runs"]] == [1, 2, 3]
    assert (told["metric"], told["model"], told["sampler"]) == ("accuracy", "sage", "rns(parts=4)")
    assert unseal(json.loads((tmp_path / "summary.json").read_text())) == told


def test_a_graph_in_memory_is_run_as_one_that_has_a_name(tmp_path: Path) -> None:
    named = an_experiment(seeds=(1, 2), lr=0.01)
    nameless = named.with_(graph="")
    runs = nameless.run(tmp_path, graph=hf.load(named.graph)).runs
    assert [timeless(run.history) for run in runs] == [timeless(run.history) for run in named.run().runs]
    assert hf.open_run(tmp_path).experiment == nameless
    with pytest.raises(hf.RunError, match="does not name its graph"):
        hf.open_run(tmp_path).predict()
    with pytest.raises(hf.RunError, match="cannot be resumed"):
        nameless.run(tmp_path, graph=make_graph(60), resume=True)


def test_checking_options_makes_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.nn.Module, "__init__", lambda *_, **__: pytest.fail("a network was made"))
    for model in MODELS:
        hf.Experiment("debian", model=model, sampler=hf.Neighbors((3, 2)), dropout=0.1)


def test_the_epochs_of_all_seeds() -> None:
    assert an_experiment(seeds=(1, 2, 3), epochs=7).epochs == 21


def test_a_second_seed_that_was_broken_off_ends_bit_for_bit(tmp_path: Path) -> None:
    experiment = an_experiment(seeds=(1, 2), epochs=4, checkpoint_seconds=0.0, scheduler="cosine")
    experiment.run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        experiment.run(tmp_path / "broken", callbacks=[BreakOff(2, seed=2)])
    assert not (tmp_path / "broken" / "summary.json").exists()
    first = RunFolder(tmp_path / "broken" / "seed-1").result.stat().st_mtime_ns
    summary = experiment.run(tmp_path / "broken", resume=True)
    assert RunFolder(tmp_path / "broken" / "seed-1").result.stat().st_mtime_ns == first
    assert [run.epochs for run in summary.runs] == [4, 4]
    for seed in experiment.seeds:
        assert_same_end(RunFolder(tmp_path / "broken" / f"seed-{seed}"), RunFolder(tmp_path / "whole" / f"seed-{seed}"))


def test_a_folder_is_used_once(tmp_path: Path) -> None:
    experiment = an_experiment()
    experiment.run(tmp_path)
    with pytest.raises(hf.RunError, match="already holds a run: resume it"):
        experiment.run(tmp_path)
    assert experiment.run(tmp_path, resume=True).runs[0].epochs == 2


def test_a_graph_that_does_not_exist_leaves_no_folder(tmp_path: Path) -> None:
    experiment = an_experiment()
    with pytest.raises(hf.DatasetError, match="did you mean synthetic"):
        experiment.with_(graph="syntetic").run(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    experiment.run(tmp_path / "out")


def test_another_graph_under_the_same_name_is_not_resumed(tmp_path: Path) -> None:
    hf.save(make_graph(60), tmp_path / "graph")
    experiment = an_experiment().with_(graph=str(tmp_path / "graph"))
    experiment.run(tmp_path / "out")
    hf.save(make_graph(60, seed=1), tmp_path / "graph")
    with pytest.raises(hf.RunError, match=r"topology was \S+ and is now"):
        experiment.run(tmp_path / "out", resume=True)


# -- refused resumes --------------------------------------------------------------------------------------------------

BASES = {
    **{model: an_experiment(model=model, sampler=SAMPLERS["rns"], checkpoint_seconds=0.0) for model in MODELS},
    **{name: an_experiment(sampler=sampler, checkpoint_seconds=0.0) for name, sampler in SAMPLERS.items()},
}


def sampler_changes(sampler: hf.Sampler) -> dict[str, hf.Sampler]:
    """The sampler with another value of each of its options, one at a time."""
    hints = get_type_hints(type(sampler))
    own = {name: another(value, hints[name]) for name, value in sampler.options().items()}
    own |= {"fraction": 0.5} if "fraction" in own else {}
    if "budget" in own:
        own["budget"] = tuple(number + 1 for number in sampler.options()["budget"])
    return {name: type(sampler)(**{**sampler.options(), name: value}) for name, value in own.items()}


CASES = [
    *(("sage", name) for name in changes_of(BASES["sage"])),
    *((model, name) for model in MODELS if model != "sage" for name in BASES[model].options),
    *((sampler, f"sampler.{name}") for sampler in SAMPLERS for name in sampler_changes(SAMPLERS[sampler])),
]


def written(folder: Path) -> dict[Path, int]:
    """When each file was written; who holds the lock is another thing."""
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*.*") if file.suffix not in (".lock", ".pid")}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of a base experiment that has ended or that was broken off, made once."""
    made: dict[tuple[str, bool], Path] = {}

    def folder(base: str, finished: bool) -> Path:
        if (base, finished) not in made:
            made[base, finished] = out = tmp_path_factory.mktemp("begun")
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("HANDFUL_HOME", str(out / "home"))
                if finished:
                    BASES[base].run(out)
                else:
                    with pytest.raises(KeyboardInterrupt):
                        BASES[base].run(out, callbacks=[BreakOff(1)])
        return made[base, finished]

    return folder


@pytest.mark.parametrize(
    "finished", [pytest.param(True, marks=pytest.mark.slow), False], ids=["finished", "broken off"]
)
@pytest.mark.parametrize(("base", "field"), CASES, ids=["-".join(case) for case in CASES])
def test_nothing_else_is_resumed(begun: Any, base: str, field: str, finished: bool) -> None:
    experiment = BASES[base]
    out = begun(base, finished)
    before = written(out)
    if field.startswith("sampler."):
        field = field.removeprefix("sampler.")
        changed = experiment.with_(sampler=sampler_changes(experiment.sampler)[field])
        old, new = (one.sampler.options()[field] for one in (experiment, changed))
    else:
        new = changes_of(experiment)[field]
        changed = experiment.with_(**{field: new})
        old = {**vars(experiment), **vars(experiment.settings), **experiment.options}[field]
    old, new = (value.name if isinstance(value, hf.Sampler) else value for value in (old, new))
    old, new = (list(value) if isinstance(value, tuple) else value for value in (old, new))
    with pytest.raises(hf.RunError) as error:
        changed.run(out, resume=True)
    assert f"{field} was {old} and is now {new}" in str(error.value)
    assert written(out) == before


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "broken off"])
def test_neither_is_the_folder_of_a_seed(begun: Any, finished: bool, tmp_path: Path) -> None:
    """It stands for itself, if it was moved away from its experiment."""
    shutil.copytree(begun("sage", finished) / "seed-1", tmp_path / "seed-1")
    with pytest.raises(hf.RunError, match=r"lr was 0\.001 and is now 0\.5"):
        BASES["sage"].with_(lr=0.5).run(tmp_path, resume=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"graph": 3}, "graph takes a name or a path"),
        ({"settings": {"epochs": 3}}, "settings takes a Settings"),
        ({"options": 3}, "options takes options by name"),
        ({"model": ["sage"]}, "model takes a name"),
        ({"split": 3}, "split takes a text"),
        ({"device": 3}, "device takes a name"),
        ({"seeds": [2**70]}, "seeds takes whole numbers"),
        ({"seeds": [True]}, "seeds takes whole numbers"),
    ],
)
def test_values_of_other_types_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(hf.HandfulError, match=words):
        hf.Experiment(**{"graph": "debian", **changes})


def test_a_device_of_torch_is_its_name() -> None:
    assert hf.Experiment("debian", device=torch.device("cpu")) == hf.Experiment("debian")


def test_a_mistake_before_the_first_evaluation_leaves_the_folder_free(tmp_path: Path) -> None:
    wrong = hf.Experiment("synthetic?nodes=200&degree=4", hidden=8, layers=2, epochs=1, seeds=(1,), device="nowhere")
    with pytest.raises(hf.HandfulError, match="nowhere"):
        wrong.run(tmp_path / "run")
    with pytest.raises(hf.HandfulError, match="parts"):
        wrong.with_(device="cpu", sampler=hf.RandomNodes(500)).run(tmp_path / "run")
    assert wrong.with_(device="cpu").run(tmp_path / "run").runs[0].epochs == 1


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(hf.RunError, match="is a file"):
        hf.Experiment("debian", epochs=1).run(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
