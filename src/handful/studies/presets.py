"""The paper's hyperparameters and results, from the data files in ``presets/``.

Each table in these files names its source: the label of a table of the paper, or the name of public code for values
that the paper omits. Data sets, models, samplers and options have handful's names. An unknown name raises an error with
the known names.
"""

from __future__ import annotations

import re
import tomllib
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any

from handful.errors import HandfulError, unknown
from handful.experiment import Experiment
from handful.samplers import make_sampler

# -- architectures ----------------------------------------------------------------------------------------------------


def architecture(dataset: str, model: str) -> dict[str, Any]:
    """The options of ``model`` in the architecture benchmark, or of ``graphland-sage`` on any data set of GraphLand."""
    options: dict[str, Any] = read_table("architectures", "subsec:architectures_details").get(model, {})
    if model == "graphland-sage":
        read_table("training", "tab:hyperparameters-graphland", dataset)  # raises if the data set is unknown
        options |= read_table("architectures", "app:graphland", "architecture")
        options |= read_table("architectures", "GraphLand").get(dataset, {})
    elif model == "sgformer":
        options |= read_table("architectures", "tab:arch_hparams_sgformer", dataset)
        options |= read_table("architectures", "SGFormer", dataset)
    else:
        options |= read_table("architectures", "tab:arch_hparams_gnn", dataset, model)
        options |= _of_tuned_gnn(dataset, model)
    return options


def benchmark_model(dataset: str, sampler: str) -> tuple[str, dict[str, Any]]:
    """The model of the sampling benchmark and its options: GraphSAGE, and a GCN of five layers for LADIES."""
    options = read_table("architectures", "tab:arch_hparams", dataset)
    exceptions = read_table("architectures", "sec:implementation_details").get(sampler, {})
    model = exceptions.pop("model", "sage")
    return model, options | exceptions | _of_tuned_gnn(dataset, model)


def _of_tuned_gnn(dataset: str, model: str) -> dict[str, Any]:
    """The options of these models that are in tunedGNN's code, and not in the paper."""
    of_model = read_table("architectures", "tunedGNN models", model)
    return {**read_table("architectures", "tunedGNN", dataset), **of_model}


# -- training ---------------------------------------------------------------------------------------------------------


def sampling(dataset: str, sampler: str) -> Experiment:
    """The best configuration of ``sampler`` in the sampling benchmark.

    >>> sampling("ogbn-arxiv", "rns").settings.lr
    0.0005
    """
    cell = read_table("training", "tab:hparams_sampling_compact", dataset, sampler)
    model, options = benchmark_model(dataset, sampler)
    return _experiment(dataset, model, options, sampler, cell | {"epochs": epochs(dataset, sampler)})


def tuned(dataset: str, model: str, regime: str) -> Experiment:
    """The training of ``model`` in the architecture benchmark, by ``full`` or ``rns``.

    RNS has the m of the sampling benchmark. If a model was out of memory in the paper, it gets GraphSAGE's settings.
    """
    cell = read_table("training", "tab:tuned_hparams", dataset, model, regime)
    if cell == "N/A":
        cell = read_table("training", "tab:tuned_hparams", dataset, "sage", regime)
    made = _experiment(dataset, model, architecture(dataset, model), regime, cell | {"epochs": epochs(dataset, regime)})
    return made.with_(sampler=sampling(dataset, regime).sampler)


def graphland(dataset: str, split: str, method: str) -> Experiment:
    """The training on a data set of GraphLand with its split ``rl`` or ``rh``, by ``full`` or ``rns``.

    ``device`` has several GPUs if the paper divided the layers among several GPUs.
    """
    cell = read_table("training", "tab:hyperparameters-graphland", dataset, split, method)
    memory = read_table("training", "app:graphland", "memory").get(dataset, {}).get(method, {})
    devices = ",".join(f"cuda:{i}" for i in range(memory.pop("devices", 0))) or "cpu"
    model, length = "graphland-sage", read_table("protocol", "app:graphland", "protocol", "epochs")
    how = memory | read_table("training", "GraphLand") | {"epochs": length}
    made = _experiment(dataset, model, architecture(dataset, model), method, cell | how)
    return made.with_(split=split, device=devices)


def device_for(preset: Experiment, asked: str) -> str:
    """If ``asked`` is a GPU, the GPUs among which the paper divided the layers; else ``asked``.

    >>> device_for(graphland("web-topics", "rh", "full"), "cuda"), device_for(sampling("pokec", "rns"), "cuda")
    ('cuda:0,cuda:1', 'cuda')
    """
    return preset.device if "," in preset.device and asked.startswith("cuda") else asked


def implicit(regime: str, optimizer: str) -> Experiment:
    """The experiment in one cell of the table of regimes (``full``, ``rns-no-batch``, ``rns``) and optimisers (``sgd``,
    ``sgdm``, ``adam``).
    """
    label = "app:implicit-reg-impl-details"
    shared = read_table("training", label)
    how = read_table("training", label, "regimes", regime) | read_table("training", label, "optimizers", optimizer)
    same = sampling(shared["dataset"], how.pop("sampler"))
    kept = {name: shared[name] for name in ("dropout", "weight_decay")}
    return same.with_(optimizer=optimizer, epochs=epochs(shared["dataset"]), **kept, **how)


def _experiment(dataset: str, model: str, options: dict[str, Any], sampler: str, cell: dict[str, Any]) -> Experiment:
    """Make the experiment of a cell of hyperparameters. Neighbour sampling has sampled evaluation; other samplers have
    exact evaluation.
    """
    own = cell.pop("options", {}) | (read_table("training", "alg:rns") if sampler == "rns" else {})
    return Experiment(
        dataset,
        model=model,
        options=options | {"dropout": cell.pop("dropout")},
        sampler=make_sampler(sampler, **own),
        evaluation="sampled" if sampler == "neighbor" else "exact",
        **cell,
    )


def epochs(dataset: str, sampler: str = "full") -> int:
    """The epochs of the sampling and the architecture benchmark."""
    count = int(read_table("protocol", "tab:arch_hparams", "epochs", dataset))
    return int(read_table("protocol", "tab:arch_hparams", "neighbor_epochs")) if sampler == "neighbor" else count


# -- protocol ---------------------------------------------------------------------------------------------------------


def search_space(sampler: str) -> Any:
    """The search space of the options of ``sampler`` in the sampling benchmark, as a list."""
    return read_table("protocol", "subsec:hpo_protocol", "samplers", sampler)


def training_space() -> dict[str, list[float]]:
    """The search space of learning rates, dropouts and weight decays."""
    table = read_table("protocol", "subsec:hpo_protocol")
    return {name: table[name] for name in ("lr", "dropout", "weight_decay")}


# -- results ----------------------------------------------------------------------------------------------------------


def paper_result(table: str, *row: str) -> Any:
    """The results of the paper: the table with this label, or its entry under the keys ``row``; ``None`` for out of
    memory.

    Metrics and their differences are fractions, ``{"mean": …, "ci95": …}``. Runtimes are in seconds.

    >>> paper_result("tab:main-results", "ogbn-arxiv", "rns")
    {'test': {'mean': 0.7251, 'ci95': 0.0019}, 'seconds': 100, 'gpu_gb': 2.38, 'ram_gb': 1.51}
    """
    return _measured(read_table("results", table, *row))


def _measured(value: Any) -> Any:
    """Convert the paper's printed texts to numbers, also within nested tables."""
    if isinstance(value, dict):
        return {name: _measured(inner) for name, inner in value.items()}
    if not isinstance(value, str):
        return value
    if value == "OOM":
        return None
    if "±" in value:
        mean, ci95 = (_hundredth(part) for part in value.split("±"))
        return {"mean": mean, "ci95": ci95}
    if value.endswith("pp"):
        return _hundredth(value.removesuffix("pp"))
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(count) * units[unit] for count, unit in re.findall(r"(\d+)([hms])", value))


def _hundredth(text: str) -> float:
    return round(float(text) / 100, 6)


# -- the files --------------------------------------------------------------------------------------------------------


@cache
def _file(name: str) -> dict[str, Any]:
    return tomllib.loads((files("handful.studies") / "presets" / f"{name}.toml").read_text(encoding="utf-8"))


def read_table(file: str, *path: str) -> Any:
    """Read a copy of the entry under the nested keys ``path`` in a file."""
    value: Any = _file(file)
    for name in path:
        if name not in value:
            raise HandfulError("the paper's tables: " + unknown("entry", name, value))
        value = value[name]
    return deepcopy(value)


GRAPHLAND = tuple(_file("results")["tab:graphland_rns"])
"""The data sets of GraphLand in the paper."""
TARGETS: dict[str, tuple[float, ...]] = {
    dataset: tuple(_hundredth(target) for target in rows)
    for dataset, rows in _file("results")["tab:rns_speedup_decomposition"].items()
}
"""The target validation accuracies for which the paper reports speedups (``tab:rns_speedup_decomposition``)."""
