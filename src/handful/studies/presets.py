"""The paper's hyperparameters and results, from the data files in ``presets/``.

Each table in these files is named after its source: the label of a table in the paper or, for values that the paper
omits, the name of public code. Only ``survey.toml``, the graphs of the survey, is not from the paper. Data sets,
models, samplers and options have handful's names. An unknown name raises an error that suggests known names.
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
    """The options of ``model`` in the architecture benchmark. For ``graphland-sage``, these are the options on a data
    set of GraphLand.
    """
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
    """The model in the sampling benchmark, and its options. For LADIES it is a GCN with five layers; for all other
    samplers it is GraphSAGE.
    """
    options = read_table("architectures", "tab:arch_hparams", dataset)
    exceptions = read_table("architectures", "sec:implementation_details").get(sampler, {})
    model = exceptions.pop("model", "sage")
    return model, options | exceptions | _of_tuned_gnn(dataset, model)


def _of_tuned_gnn(dataset: str, model: str) -> dict[str, Any]:
    """The options of a model that are in tunedGNN's code but not in the paper."""
    return {**read_table("architectures", "tunedGNN", dataset), **read_table("architectures", "tunedGNN models", model)}


# -- training ---------------------------------------------------------------------------------------------------------


def sampling(dataset: str, sampler: str) -> Experiment:
    """The experiment with the paper's best configuration of ``sampler`` in the sampling benchmark.

    >>> sampling("ogbn-arxiv", "rns").settings.lr
    0.0005
    """
    cell = read_table("training", "tab:hparams_sampling_compact", dataset, sampler)
    model, options = benchmark_model(dataset, sampler)
    return _experiment(dataset, model, options, sampler, cell | {"epochs": epochs(dataset, sampler)})


def tuned(dataset: str, model: str, regime: str) -> Experiment:
    """The experiment that trains ``model`` in the architecture benchmark; ``regime`` is ``full`` or ``rns``.

    The m of RNS is that of the sampling benchmark. If the model was out of memory in the paper, it gets GraphSAGE's
    settings.
    """
    cell = read_table("training", "tab:tuned_hparams", dataset, model, regime)
    if cell == "N/A":
        cell = read_table("training", "tab:tuned_hparams", dataset, "sage", regime)
    made = _experiment(dataset, model, architecture(dataset, model), regime, cell | {"epochs": epochs(dataset, regime)})
    return made.with_(sampler=sampling(dataset, regime).sampler)


def graphland(dataset: str, split: str, method: str) -> Experiment:
    """The experiment on a data set of GraphLand with its split ``rl`` or ``rh``; ``method`` is ``full`` or ``rns``.

    The device of the experiment consists of several GPUs if the paper split the layers over several GPUs.
    """
    cell = read_table("training", "tab:hyperparameters-graphland", dataset, split, method)
    memory = read_table("training", "app:graphland", "memory").get(dataset, {}).get(method, {})
    devices = ",".join(f"cuda:{i}" for i in range(memory.pop("devices", 0))) or "cpu"
    model, length = "graphland-sage", read_table("protocol", "app:graphland", "protocol", "epochs")
    how = memory | read_table("training", "GraphLand") | {"epochs": length}
    made = _experiment(dataset, model, architecture(dataset, model), method, cell | how)
    return made.with_(split=split, device=devices)


def device_for(preset: Experiment, asked: str) -> str:
    """If the paper split the layers of ``preset`` over several GPUs and ``asked`` is a GPU, the result is these GPUs.
    Otherwise, the result is ``asked``.

    >>> device_for(graphland("web-topics", "rh", "full"), "cuda"), device_for(sampling("pokec", "rns"), "cuda")
    ('cuda:0,cuda:1', 'cuda')
    """
    return preset.device if "," in preset.device and asked.startswith("cuda") else asked


def implicit(regime: str, optimizer: str) -> Experiment:
    """The experiment for one cell of the paper's table of regimes (``full``, ``rns-no-batch``, ``rns``) by optimisers
    (``sgd``, ``sgdm``, ``adam``).
    """
    label = "app:implicit-reg-impl-details"
    shared = read_table("training", label)
    how = read_table("training", label, "regimes", regime) | read_table("training", label, "optimizers", optimizer)
    same = sampling(shared["dataset"], how.pop("sampler"))
    kept = {name: shared[name] for name in ("dropout", "weight_decay")}
    return same.with_(optimizer=optimizer, epochs=epochs(shared["dataset"]), **kept, **how)


def _experiment(dataset: str, model: str, options: dict[str, Any], sampler: str, cell: dict[str, Any]) -> Experiment:
    """Make an experiment from ``cell``, the hyperparameters in one cell of a table of the paper. The evaluation is
    sampled for neighbour sampling, and exact for all other samplers.
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
    """The number of epochs in the sampling benchmark and in the architecture benchmark."""
    count = int(read_table("protocol", "tab:arch_hparams", "epochs", dataset))
    return int(read_table("protocol", "tab:arch_hparams", "neighbor_epochs")) if sampler == "neighbor" else count


# -- protocol ---------------------------------------------------------------------------------------------------------


def search_space(sampler: str) -> Any:
    """The paper's search space for the options of ``sampler`` in the sampling benchmark, as a list."""
    return read_table("protocol", "subsec:hpo_protocol", "samplers", sampler)


def training_space() -> dict[str, list[float]]:
    """The paper's search space for the learning rate, the dropout and the weight decay."""
    table = read_table("protocol", "subsec:hpo_protocol")
    return {name: table[name] for name in ("lr", "dropout", "weight_decay")}


# -- results ----------------------------------------------------------------------------------------------------------


def paper_result(table: str, *row: str) -> Any:
    """The paper's results in the table with the label ``table``, or the entry of this table under the nested keys
    ``row``. ``None`` means out of memory.

    Metrics, ``{"mean": …, "ci95": …}``, and their differences are fractions. Runtimes are in seconds.

    >>> paper_result("tab:main-results", "ogbn-arxiv", "rns")
    {'test': {'mean': 0.7251, 'ci95': 0.0019}, 'seconds': 100, 'gpu_gb': 2.38, 'ram_gb': 1.51}
    """
    return _measured(read_table("results", table, *row))


def _measured(value: Any) -> Any:
    """Convert the texts that the paper prints to numbers, also in nested tables."""
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
    return sum(int(count) * {"h": 3600, "m": 60, "s": 1}[unit] for count, unit in re.findall(r"(\d+)([hms])", value))


def _hundredth(text: str) -> float:
    return round(float(text) / 100, 6)


# -- the files --------------------------------------------------------------------------------------------------------


@cache
def _file(name: str) -> dict[str, Any]:
    return tomllib.loads((files("handful.studies") / "presets" / f"{name}.toml").read_text(encoding="utf-8"))


def read_table(file: str, *path: str) -> Any:
    """Return a copy of the entry under the nested keys ``path`` in a preset file."""
    value: Any = _file(file)
    for name in path:
        if name not in value:
            raise HandfulError("the paper's tables: " + unknown("entry", name, value))
        value = value[name]
    return deepcopy(value)


GRAPHLAND = tuple(_file("results")["tab:graphland_rns"])
"""The data sets of GraphLand that the paper uses."""
TARGETS: dict[str, tuple[float, ...]] = {
    dataset: tuple(_hundredth(target) for target in rows)
    for dataset, rows in _file("results")["tab:rns_speedup_decomposition"].items()
}
"""The target validation accuracies for which the paper reports speedups (``tab:rns_speedup_decomposition``)."""
