"""The presets against the paper: its LaTeX tables, parsed here, where the file is at hand; retyped numbers always."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handful import Experiment
from handful.errors import HandfulError
from handful.nn import make_model
from handful.samplers import make_sampler
from handful.settings import Settings
from handful.studies import presets
from handful.studies.presets import paper_result
from handful.studies.tuning import TRIALS
from handful.vocabulary import PAPER_SEEDS

DATASETS = ("ogbn-arxiv", "ogbn-products", "pokec")
GRAPHLAND = ("artnet-exp", "city-reviews", "hm-categories", "pokec-regions", "tolokers-2", "web-fraud", "web-topics")
SAMPLERS = {
    "Full": "full",
    "Neighbor": "neighbor",
    "Neighborhood sampling": "neighbor",
    "ClusterGCN": "cluster",
    "GraphSAINT": "saint",
    "SAINT": "saint",
    "LADIES": "ladies",
    "RNS": "rns",
}
MODELS = {"GCN": "gcn", "GraphSAGE": "sage", "GAT": "gat", "SGFormer": "sgformer"}
TUNED_GNN: dict[str, dict[str, Any]] = {
    "ogbn-arxiv": {"input_dropout": 0.15},
    "ogbn-products": {},
    "pokec": {"input_dropout": 0.0, "two_logits": True},
}
"""What tunedGNN's commands have beside what the paper prints; and a self-loop for GraphSAGE."""
LOOPS = {"self_loops": True}
YES = {"Yes": True, "yes": True, "No": False, "no": False}


# -- reading LaTeX ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def paper() -> str:
    file = Path(__file__).parents[2].parent / "shared" / "paper.tex"
    if not file.exists():
        pytest.skip("the paper is not beside the repository")
    return file.read_text(encoding="utf-8")


def rows_of(paper: str, label: str) -> list[list[str]]:
    """The cells of a table, plain; what spans several rows (the data set) is repeated in each."""
    at = paper.index(f"\\label{{{label}}}")
    start = paper.rindex("\\begin{table", 0, at)
    body = paper[start : paper.index("\\end{table", at)]
    body = body[body.index("\\begin{tabular}") : body.index("\\end{tabular}")]
    rows, spanning = [], ""
    for line in re.split(r"\\\\", body):
        line = re.sub(r"\\(toprule|midrule|bottomrule|hline|cmidrule(\(\w+\))?(\{[\d-]+\})?)", "", line)
        if "&" not in line or "\\multicolumn" in line:
            continue
        multirow = re.search(r"\\multirow\{\d+\}\{\*\}\{\\textsc\{([\w-]+)\}\}", line)
        spanning = multirow[1] if multirow else spanning
        cells = [plain(cell) for cell in re.sub(r"\\multirow\{\d+\}\{\*\}\{[^&]*\}", "", line).split("&")]
        cells[0] = cells[0] or spanning
        rows.append(cells)
    return rows


def plain(cell: str) -> str:
    cell = cell.replace("\\pm", "±").replace("\\times", "×").replace("\\%", "%").replace("\\ ", " ")
    for _ in range(3):
        cell = re.sub(r"\\(textbf|textit|textsc|mathbf|mathrm)\{([^{}]*)\}", r"\2", cell)
    return re.sub(r"\s+", " ", cell.replace("$", "").replace("{×}", "×")).strip()


def number(text: str) -> float:
    """``5 × 10^{-4}``, ``10^{-3}`` or a plain number."""
    power = re.fullmatch(r"(?:([\d.]+) ?× ?)?10\^\{(-?\d+)\}", text.strip())
    return float(f"{power[1] or 1}e{power[2]}") if power else float(text)


def measured(text: str) -> dict[str, float] | None:
    if text == "OOM":
        return None
    mean, ci95 = (float(part) / 100 for part in text.split("±"))
    return pytest.approx({"mean": mean, "ci95": ci95})


def seconds(text: str) -> int:
    hours, minutes, rest = re.fullmatch(r"(?:(\d+)h)?(\d+)m(\d+)s", text).groups()
    return 3600 * int(hours or 0) + 60 * int(minutes) + int(rest)


# -- hyperparameters --------------------------------------------------------------------------------------------------


def test_architectures_of_the_sampling_benchmark(paper: str) -> None:
    rows = rows_of(paper, "tab:arch_hparams")[1:]
    assert [row[0] for row in rows] == list(DATASETS)
    for dataset, hidden, layers, into, out, residual, norm, epochs in rows:
        expected = {
            "hidden": int(hidden),
            "layers": int(layers),
            "input_projection": YES[into],
            "output_projection": YES[out],
            "residual": YES[residual],
            "norm": norm.lower(),
        }
        expected |= TUNED_GNN[dataset]
        assert presets.benchmark_model(dataset, "rns") == ("sage", expected | LOOPS)
        assert presets.benchmark_model(dataset, "ladies") == ("gcn", expected | {"layers": 5})
        assert presets.epochs(dataset) == int(epochs)
        assert presets.epochs(dataset, "neighbor") == 20


def test_architectures_of_the_message_passing_models(paper: str) -> None:
    rows = rows_of(paper, "tab:arch_hparams_gnn")[1:]
    assert len(rows) == 9
    for dataset, model, hidden, layers, out, residual, norm in rows:
        expected: dict[str, Any] = {
            "hidden": int(hidden),
            "layers": int(layers),
            "output_projection": YES[out],
            "input_projection": False,
            "residual": YES[residual],
            "norm": norm.lower(),
        }
        expected |= ({"heads": 1} if model == "GAT" else LOOPS if model == "GraphSAGE" else {}) | TUNED_GNN[dataset]
        assert presets.architecture(dataset, MODELS[model]) == expected


def test_architecture_of_sgformer(paper: str) -> None:
    rows = rows_of(paper, "tab:arch_hparams_sgformer")[1:]
    assert [row[0] for row in rows] == list(DATASETS)
    for dataset, hidden, layers, heads, residual, norm, gnn in rows:
        kind, width, depth = re.fullmatch(r"(\w+), hidden (\d+), layers (\d+)", gnn).groups()
        assert (kind, width) == ("GCN", hidden)
        assert presets.architecture(dataset, "sgformer") == {
            "hidden": int(hidden),
            "layers": int(layers),
            "heads": int(heads),
            "residual": YES[residual],
            "norm": norm.lower(),
            "gnn_layers": int(depth),
            "alpha": 0.5,
            "use_graph": True,
            "use_weight": True,
            "graph_weight": 0.5,
            "use_act": False,
            "use_init": dataset != "ogbn-arxiv",
            **({"two_logits": True} if dataset == "pokec" else {}),
        }


def sampler_options(text: str) -> dict[str, Any]:
    """``C=3000, B=100`` and its like, by handful's names."""
    if text == "--":
        return {}
    if fanout := re.fullmatch(r"f=\[([\d,]+)\]", text):
        return {"fanout": [int(f) for f in fanout[1].split(",")]}
    if ladies := re.fullmatch(r"s=\[(\d+)\]\^(\d), B=(\d+)", text):
        return {"budget": [int(ladies[1])] * int(ladies[2]), "batch_size": int(ladies[3])}
    names = {"C": "clusters", "B": "per_batch", "L_{w}": "length", "S": "roots", "m": "parts"}
    return {names[pair.split("=")[0].strip()]: int(pair.split("=")[1]) for pair in text.split(",")}


def chosen(experiment: Experiment) -> tuple[float, float, float]:
    """Learning rate, dropout and weight decay."""
    return experiment.settings.lr, experiment.options["dropout"], experiment.settings.weight_decay


def test_selected_sampling_and_training_hyperparameters(paper: str) -> None:
    rows = rows_of(paper, "tab:hparams_sampling_compact")[1:]
    assert len(rows) == 18
    for dataset, method, options, lr, dropout, decay in rows:
        found = presets.sampling(dataset, SAMPLERS[method])
        dropped = {"drop_last": True} if method == "RNS" else {}  # Algorithm 1: blocks of ⌊n / P⌋
        assert found.sampler == make_sampler(SAMPLERS[method], **sampler_options(options), **dropped), (dataset, method)
        assert chosen(found) == (number(lr), number(dropout), number(decay))
        assert (found.graph, found.settings.optimizer, found.seeds) == (dataset, "adam", PAPER_SEEDS)


def test_tuned_hyperparameters_of_the_architectures(paper: str) -> None:
    rows = rows_of(paper, "tab:tuned_hparams")[1:]
    assert len(rows) == 12
    for dataset, model, *cells in rows:
        for regime, cell in zip(("full", "rns"), cells, strict=True):
            found = presets.tuned(dataset, MODELS[model], regime)
            if cell == "N/A":
                assert chosen(found) == chosen(presets.tuned(dataset, "sage", regime))
                continue
            dropout, lr, decay = (number(part) for part in cell.strip("()").split(", "))
            assert chosen(found) == (lr, dropout, decay), (dataset, model, regime)
            assert found.sampler == presets.sampling(dataset, regime).sampler
            assert (found.model, found.settings.epochs) == (MODELS[model], presets.epochs(dataset))


def test_hyperparameters_on_graphland(paper: str) -> None:
    rows = [row for row in rows_of(paper, "tab:hyperparameters-graphland") if row[1] in ("RH", "RL")]
    assert {row[0] for row in rows} == set(GRAPHLAND)
    assert len(rows) == 14
    for dataset, regime, *cells in rows:
        numbers = [float(cell) for cell in cells]
        for method, (lr, dropout, decay), options in (
            ("full", numbers[:3], {}),
            ("rns", numbers[3:6], {"parts": int(numbers[6]), "drop_last": True}),
        ):
            found = presets.graphland(dataset, regime.lower(), method)
            assert chosen(found) == (lr, dropout, decay), (dataset, regime)
            assert found.sampler == make_sampler(method, **options)
            assert (found.settings.epochs, found.split) == (1000, regime.lower())
            assert (found.settings.optimizer, found.settings.decayed) == ("adamw", "weights")


def test_search_spaces(paper: str) -> None:
    start = paper.index("The common search space is")
    for line in paper[start : paper.index("\\end{tabular}", start)].split("\\\\"):
        for title, name in (("Dropout", "dropout"), ("Learning rate", "lr"), ("Weight decay", "weight_decay")):
            if title in line:
                inside = re.search(r"\\\{(.*)\\\}", plain(line))[1]
                assert presets.training_space()[name] == [number(part) for part in inside.split(",")]
    start = paper.index("Sampling hyperparameter search spaces")
    text = paper[start : paper.index("Selected hyperparameters", start)]
    displays = [re.sub(r"\s+", "", display) for display in re.findall(r"\$\$(.*?)\$\$", text, re.S)]
    fanouts, clusters, walks, ladies, parts = displays
    assert presets.search_space("neighbor") == [
        {"fanout": [int(f) for f in found.split(",")]} for found in re.findall(r"\[([\d,]+)\]", fanouts)
    ]
    pairs = [(int(a), int(b)) for a, b in re.findall(r"\((\d+),(\d+)\)", clusters)]
    assert presets.search_space("cluster") == [{"clusters": c, "per_batch": b} for c, b in pairs]
    pairs = [(int(a), int(b)) for a, b in re.findall(r"\((\d+),(\d+)\)", walks)]
    assert presets.search_space("saint") == [{"length": a, "roots": b} for a, b in pairs]
    budgets = re.findall(r"\[([\d,]+)\],(\d+)", ladies)
    assert presets.search_space("ladies") == [
        {"budget": [int(s) for s in budget.split(",")], "batch_size": int(size)} for budget, size in budgets
    ]
    assert "\\{2,3,\\dots,10\\}" in parts
    assert presets.search_space("rns") == [{"parts": m} for m in range(2, 11)]
    own = ",".join(map(str, presets.read_table("protocol", "app:graphland", "protocol", "parts")))
    assert f"number of parts over $\\{{{own}\\}}$" in paper
    assert f"we perform {TRIALS} Bayesian-optimization runs" in paper


def test_settings_that_the_text_gives(paper: str) -> None:
    seeds = re.search(r"five random seeds: ([\d, and]+)\.", paper)[1]
    assert tuple(int(seed) for seed in re.findall(r"\d+", seeds)) == PAPER_SEEDS
    for sentence in (
        "Dropout is fixed to $0.5$",
        "For SGD, we use a learning rate of $0.03$",
        "For SGD with momentum, we use a learning rate of $0.03$ and momentum coefficient $0.9$",
        "For Adam, we use a learning rate of $0.001$",
        "Statistics computed from 50 batches. Mean $\\pm$ 95\\% CI over 100 seeds",
        "Validation accuracy over 200 epochs",
        "one standard deviation over 5 epochs",
        "full-graph training on \\textsc{pokec-regions} and for RNS training on \\textsc{web-fraud}",
        "For full-graph training on \\textsc{web-fraud} and \\textsc{web-topics}, activation checkpointing alone",
    ):
        assert sentence in paper


# -- results ----------------------------------------------------------------------------------------------------------


def test_main_results(paper: str) -> None:
    rows = rows_of(paper, "tab:main-results")[1:]
    assert len(rows) == 18
    for dataset, method, test, runtime, gpu, ram in rows:
        assert paper_result("tab:main-results", dataset, SAMPLERS[method]) == {
            "test": measured(test),
            "seconds": seconds(runtime),
            "gpu_gb": float(gpu),
            "ram_gb": float(ram),
        }


def test_results_of_the_regimes(paper: str) -> None:
    rows = rows_of(paper, "tab:implicit_reg_results")[1:]
    names = {"Full graph": "full", "RNS (no batch)": "rns-no-batch", "RNS": "rns"}
    assert [row[0] for row in rows] == list(names)
    for regime, *cells in rows:
        for optimizer, cell in zip(("sgd", "sgdm", "adam"), cells, strict=True):
            assert paper_result("tab:implicit_reg_results", names[regime], optimizer) == measured(cell)


def test_results_on_graphland(paper: str) -> None:
    rows = [row for row in rows_of(paper, "tab:graphland_rns") if row[0] in GRAPHLAND]
    assert len(rows) == 7
    for dataset, *cells in rows:
        for regime, (full, rns, delta) in (("rl", cells[:3]), ("rh", cells[3:])):
            assert paper_result("tab:graphland_rns", dataset, regime) == {
                "full": measured(full),
                "rns": measured(rns),
                "delta": pytest.approx(float(delta) / 100),
            }


def test_results_of_the_architectures(paper: str) -> None:
    rows = [row for row in rows_of(paper, "tab:testacc_full_rns_pct_compact") if row[0] in MODELS]
    assert [row[0] for row in rows] == list(MODELS)
    for model, *cells in rows:
        for i, dataset in enumerate(DATASETS):
            for regime, cell in zip(("full", "rns"), cells[2 * i : 2 * i + 2], strict=True):
                found = paper_result("tab:testacc_full_rns_pct_compact", dataset, MODELS[model], regime)
                assert found == measured(cell), (dataset, model, regime)


def test_speedups(paper: str) -> None:
    rows = [row for row in rows_of(paper, "tab:rns_speedup_decomposition") if row[1].endswith("%")]
    assert len(rows) == 9
    for dataset, target, *cells in rows:
        expected = dict(
            zip(("epoch", "epochs", "start", "nostart"), (float(c.rstrip("×")) for c in cells), strict=True)
        )
        assert paper_result("tab:rns_speedup_decomposition", dataset, target.rstrip("%")) == expected
        assert float(target.rstrip("%")) / 100 in presets.TARGETS[dataset]


def test_fanout_ablation(paper: str) -> None:
    rows = rows_of(paper, "tab:neighbor_fanout_ablation")[1:]
    assert len(rows) == 9
    for dataset, fanout, test, epoch, gpu, ram in rows:
        assert paper_result("tab:neighbor_fanout_ablation", dataset, fanout.strip("[]")) == {
            "test": measured(test),
            "epoch_seconds": float(epoch),
            "gpu_gb": float(gpu),
            "ram_gb": float(ram),
        }


def selected() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every configuration that the paper says it selected, by its place."""

    def cells(place: str, table: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, inner in table.items():
            if isinstance(inner, dict):
                here = f"{place} {name}"
                yield from [(here, inner)] if "lr" in inner else cells(here, inner)

    for label in ("tab:hparams_sampling_compact", "tab:tuned_hparams", "tab:hyperparameters-graphland"):
        yield from cells(label, presets.read_table("training", label))


def test_what_the_paper_says_against_its_own_tables(paper: str) -> None:
    """Both are listed in docs/reproduce.md; the tables themselves are held to the paper above."""
    chosen = dict(selected())
    assert len(chosen) == 66
    space = presets.training_space()
    outside = {
        place: values
        for place, cell in chosen.items()
        if (values := {name: cell[name] for name in space if cell[name] not in space[name]})
    }
    assert len(outside) == 16
    assert outside["tab:tuned_hparams pokec gcn full"] == {"weight_decay": 1e-05}
    assert "RNS matches or improves on full-graph training in 12 cases" in paper
    cells = [row[regime] for row in paper_result("tab:graphland_rns").values() for regime in ("rl", "rh")]
    signs = [round(1e4 * (cell["rns"]["mean"] - cell["full"]["mean"])) for cell in cells]
    assert [sum(s > 0 for s in signs), sum(s == 0 for s in signs), sum(s < 0 for s in signs)] == [9, 1, 4]


# -- without the paper ------------------------------------------------------------------------------------------------


def test_a_few_numbers_retyped() -> None:
    cluster = presets.sampling("pokec", "cluster")
    assert cluster.sampler.options() | {"clusters": 1500, "per_batch": 20} == cluster.sampler.options()
    assert (cluster.settings.lr, cluster.settings.weight_decay) == (1e-4, 5e-3)
    expected = Settings(lr=1e-4, epochs=20, evaluation="sampled")
    assert presets.sampling("ogbn-products", "neighbor").settings == expected
    sgformer = presets.tuned("pokec", "sgformer", "full")
    assert sgformer.settings.lr == 1e-2
    gat, sage = (presets.tuned("ogbn-products", model, "rns") for model in ("gat", "sage"))
    assert chosen(gat) == chosen(sage)  # it did not fit, and has no settings of its own
    assert gat.model == "gat"
    fraud = [presets.graphland("web-fraud", "rl", method) for method in ("full", "rns")]
    assert [(e.device, e.settings.checkpoint_activations, e.settings.lr) for e in fraud] == [
        ("cuda:0,cuda:1", False, 5e-4),
        ("cpu", True, 5e-4),
    ]
    assert presets.graphland("web-topics", "rh", "full").device == "cuda:0,cuda:1"
    assert presets.graphland("pokec-regions", "rh", "full").settings.checkpoint_activations
    assert not presets.graphland("pokec-regions", "rh", "rns").settings.checkpoint_activations
    widths = {"web-topics": 200, "web-fraud": 200, "pokec-regions": 400}
    for name in GRAPHLAND:
        own = {"hidden": widths[name]} if name in widths else {}  # else that of the model, 512
        assert presets.architecture(name, "graphland-sage") == {"layers": 3, **own}
    accumulated = presets.implicit("rns-no-batch", "sgdm")
    how = accumulated.settings
    assert (accumulated.sampler.options()["parts"], how.update) == (10, "epoch")
    assert (how.lr, how.momentum, accumulated.options["dropout"], how.epochs) == (0.03, 0.9, 0.5, 1000)
    assert presets.implicit("full", "adam").settings.update == "step"
    assert PAPER_SEEDS == (42, 123, 456, 789, 101112)
    assert presets.read_table("protocol", "fig:implicit_reg_all_metrics") == {"seeds": 100, "batches": 50}
    assert presets.read_table("protocol", "fig:val_accuracy_training_dynamics") == {"epochs": 200}
    assert presets.read_table("protocol", "fig:sampling-properties") == {"epochs": 5}
    assert paper_result("tab:main-results", "pokec", "ladies", "seconds") == 3 * 3600 + 47 * 60 + 38
    assert paper_result("tab:graphland_rns", "web-fraud", "rh", "delta") == -0.0009
    assert paper_result("tab:testacc_full_rns_pct_compact", "pokec", "gat", "full") is None
    assert presets.TARGETS["ogbn-products"] == (0.88, 0.89, 0.9)


def test_every_preset_makes_an_experiment_that_can_be_kept_and_a_model() -> None:
    found = [presets.sampling(d, s) for d in DATASETS for s in sorted(set(SAMPLERS.values()))]
    found += [presets.tuned(d, m, g) for d in DATASETS for m in MODELS.values() for g in ("full", "rns")]
    found += [presets.graphland(d, r, m) for d in GRAPHLAND for r in ("rl", "rh") for m in ("full", "rns")]
    found += [presets.implicit(r, o) for r in ("full", "rns-no-batch", "rns") for o in ("sgd", "sgdm", "adam")]
    assert len(found) == 18 + 24 + 28 + 9
    for experiment in found:
        assert Experiment.from_json(json.loads(json.dumps(experiment.to_json()))) == experiment
    for sampler in sorted(set(SAMPLERS.values())):
        for options in presets.search_space(sampler):
            make_sampler(sampler, **options)
    architectures = [(m, presets.architecture(d, m)) for d in DATASETS for m in MODELS.values()]
    architectures += [presets.benchmark_model(d, s) for d in DATASETS for s in ("full", "ladies")]
    architectures.append(("graphland-sage", presets.architecture("web-fraud", "graphland-sage")))
    for model, options in architectures:
        make_model(model, 5, 3, **options)


def test_presets_cannot_be_changed_by_those_who_read_them() -> None:
    presets.search_space("rns")[0]["parts"] = 99
    presets.architecture("pokec", "gcn")["layers"] = 99
    assert presets.search_space("rns")[0] == {"parts": 2}
    assert presets.architecture("pokec", "gcn")["layers"] == 7


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: presets.architecture("ogbn-arxif", "gcn"), "did you mean ogbn-arxiv"),
        (lambda: presets.sampling("pokec", "clusters"), "did you mean cluster"),
        (lambda: presets.tuned("pokec", "gcn", "neighbor"), "choose from full, rns"),
        (lambda: presets.graphland("pokec", "rl", "full"), "did you mean pokec-regions"),
        (lambda: presets.implicit("rns-nobatch", "sgd"), "did you mean rns-no-batch"),
        (lambda: paper_result("tab:main-result"), "did you mean tab:main-results"),
    ],
)
def test_a_name_that_the_paper_does_not_have_is_named(ask: Any, words: str) -> None:
    with pytest.raises(HandfulError, match=words):
        ask()
