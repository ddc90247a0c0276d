"""``fit``: one training run. A run that has a run folder can be resumed after an interruption."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from handful import ranks
from handful.convert import from_pyg
from handful.errors import HandfulError, RankError, SamplerError, explaining, require_kind
from handful.files import plain, seal, write_json
from handful.graph import Graph
from handful.kernels.memory import release
from handful.nn import make_model, model_name
from handful.nn.network import Network, arrange, usable_device
from handful.samplers.base import Sampler
from handful.settings import ClassWeightName, GraphOn, OptimizerName, SchedulerName, Settings, vary_settings
from handful.shuffle.over_ranks import check_model
from handful.shuffle.shards import ShardedGraph
from handful.training.assessment import best_threshold
from handful.training.callbacks import Callback, Progress
from handful.training.card import write_card
from handful.training.checkpoint import begin_alike, plain_part, restore_checkpoint, save_checkpoint
from handful.training.cost import Loss, peak_gpu, peak_ram
from handful.training.execution import GRAPH_ON, Execution, InMemory, OverShards, stays_on_host, within
from handful.training.first_hop import aggregate_bytes, hops_of, know, resolve_first_hop
from handful.training.label_features import add_label_head, settle
from handful.training.links import LinkGraph, Links, OfLinks, check_links
from handful.training.loop import Loop, batch_loss, train
from handful.training.loss import NodeLosses, balanced_weights, losses_of, node_losses, units_of
from handful.training.metrics import METRICS, Metric, own_metric
from handful.training.optim import MakeOptimizer, MakeScheduler, make_optimizer, make_scheduler, name_of
from handful.training.record import Run, RunFolder, describe, differences, load_weights, save_model, write_encoding
from handful.vocabulary import title

if TYPE_CHECKING:
    from torch_geometric.data import Data

Devices = str | torch.device | Sequence[str | torch.device]
SEED = 42
"""The default seed."""


def fit(
    model: nn.Module | str,
    graph: Graph | Data | Links,
    sampler: Sampler,
    settings: Settings | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    seed: int = SEED,
    device: Devices = "cpu",
    graph_on: GraphOn = GRAPH_ON,
    optimizer: OptimizerName | MakeOptimizer | None = None,
    scheduler: SchedulerName | MakeScheduler | None = None,
    loss: NodeLosses | None = None,
    class_weight: ClassWeightName | Sequence[float] | Tensor | None = None,
    metric: str | Metric | Callable[[Tensor, Tensor], Any] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = False,
    memory: int | str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    record: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Run:
    """Train ``model`` on ``graph`` with the batches of ``sampler``. Afterwards the model has its best weights.

    Args:
        model: a model of handful; any module with ``forward(x, edge_index)``, which may also take ``edge_weight`` or
            ``edge_attr``; or the name of a model, which ``fit`` makes for the graph and returns as ``run.model``.
        graph: a ``Graph`` or a PyG ``Data``, with features, labels and a split. For link prediction, it is the result
            of ``split_links``.
        sampler: the source of batches.
        settings: the training settings; ``fields`` override them.
        options: if ``model`` is a name, the options of the model, such as ``{"hidden": 64}``.
        seed: the seed of all random numbers in training. If ``model`` is a name, the seed also determines the initial
            weights. A module already has its weights: call ``torch.manual_seed`` before you create it.
        device: the device for training. If there are several devices, or names separated by commas, the model's layers
            are distributed over them in order.
        graph_on: where the graph is stored: ``device``, on the (first) device; ``host``, in main memory, where the CPU
            prepares the batches and evaluates the model; ``auto``, on the device if it has enough memory, and otherwise
            in main memory. This choice does not change the batches.
        optimizer: a name, a class of ``torch.optim``, or a function with the arguments (parameters, lr=…,
            weight_decay=…).
        scheduler: a name, or a function that takes the optimiser and returns a torch scheduler. The scheduler steps
            after every epoch. A ``ReduceLROnPlateau`` steps after every evaluation, with the validation metric.
        loss: a function of outputs ``(t, outputs)`` and labels that returns the loss of each node, ``(t,)``. The
            default is cross-entropy for classes, squared error for a regression, and, for several labels per node, the
            mean of their binary cross-entropies. For a regression, the labels are standardised with the mean and
            standard deviation of the training nodes.
        class_weight: a name, or a weight for every class.
        metric: a name, a function of (prediction, y), or a metric of ``torchmetrics``; see
            ``handful.training.metrics.own_metric``.
        callbacks: see ``Callback``.
        progress: whether to show a progress bar, in a terminal or a notebook.
        memory: a budget for the anonymous memory of the process, such as ``"8GiB"``. If there is a budget, all batches
            of an epoch are made in one pass over the graph (``handful.shuffle``). They are stored in scratch files if
            they do not fit into memory. The batches and the result are the same as without a budget. A budget requires
            a saved graph (its arrays are memory-mapped), training on the CPU, and the sampler ``rns`` or ``cluster``.
        out: the run folder; if ``None``, nothing is written. If there are several ranks, only rank 0 writes.
        resume: whether to continue the run in ``out``. If there is no run, a new one starts. The result is, bit for
            bit, that of an uninterrupted run. If the run in ``out`` has another configuration, an error is raised.
        record: the configuration to write to ``config.json``; for internal use by ``Experiment.run``.
        fields: fields of ``Settings`` by name.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=200&degree=4")
    >>> run = hf.fit("sage", graph, hf.RandomNodes(parts=4), options={"hidden": 16, "layers": 2}, epochs=3, lr=0.01)
    >>> run.epochs, run.steps
    (3, 12)
    >>> model = hf.SAGE(graph.num_features, graph.num_outputs, hidden=16, layers=2)
    >>> hf.fit(model, graph, hf.RandomNodes(parts=4), epochs=2).model is model
    True
    """
    require_kind("settings", settings, Settings | None, "a Settings")
    either = {"optimizer": optimizer, "scheduler": scheduler, "class_weight": class_weight, "metric": metric}
    by_name = {name: value for name, value in either.items() if isinstance(value, str)}
    own: dict[str, Any] = {k: v for k, v in {**either, "loss": loss}.items() if v is not None and k not in by_name}
    how = vary_settings(settings or Settings(), {**fields, **by_name})
    if progress and ranks.rank() == 0:
        callbacks = [*callbacks, Progress()]
    graph = with_task(as_graph(graph), how)
    if isinstance(model, str):
        model = make_seeded_model(model, graph, seed, options or {})
    elif options is not None:
        raise HandfulError("options are for a model that is given by name: a module has its own")
    with ranks.agreed():
        loop = begin(model, graph, sampler, how, seed, device, callbacks, graph_on=graph_on, memory=memory, **own)
    folder = RunFolder(out) if out is not None and ranks.rank() == 0 else None
    config = _config(loop, device, record, own) if folder is not None or ranks.size() > 1 else {}
    with ExitStack() as stack:
        stack.callback(release)
        with ranks.agreed():
            run = None if folder is None else _open_folder(stack, folder, loop, config, resume)
        _check_alike(config)
        if not ranks.broadcast(run is not None):
            begin_alike(loop)
            train(loop, folder)
            run = _finish(loop, folder)
        return _share_run(run, loop)


def _open_folder(stack: ExitStack, folder: RunFolder, loop: Loop, config: dict[str, Any], resume: bool) -> Run | None:
    """Lock the folder until ``stack`` is closed, and load the checkpoint into ``loop``. If the run is already finished,
    return it.
    """
    stack.enter_context(folder.opened(config, resume))
    write_encoding(folder, loop.graph)
    if folder.result.exists():
        return _read_ended(loop, folder)
    if folder.checkpoint.exists():
        restore_checkpoint(loop, folder)
    folder.rewind(loop.history)
    return None


def _check_alike(config: dict[str, Any]) -> None:
    """Raise an error if the configuration of this rank differs from that of rank 0, for example because this rank has
    another graph with the same name.
    """
    here = plain(config)
    first = ranks.broadcast(here)
    with ranks.agreed():
        for name, (theirs, ours) in differences(first, here).items():
            raise RankError(f"rank {ranks.rank()} would train something else: {name} is {ours}, and {theirs} on rank 0")


def _share_run(run: Run | None, loop: Loop) -> Run:
    """Broadcast the result and the weights of rank 0 to every rank."""
    if run is not None and ranks.size() == 1:
        return run
    kept = ranks.broadcast({} if run is None else {**run.to_json(), "history": run.history, "dir": run.dir})
    loop.model.load_state_dict(ranks.broadcast_tensors(loop.model.state_dict()))
    return Run(**kept, model=loop.model)


def as_graph(graph: Graph | Data | Links) -> Graph:
    """Convert a PyG ``Data`` or ``Links`` to a graph; a ``Graph`` is returned unchanged."""
    if isinstance(graph, Graph):
        return graph
    if isinstance(graph, Links):
        return LinkGraph.of(graph)
    if not hasattr(graph, "to_dict"):
        raise HandfulError(f"graph takes a Graph or a PyG Data; `handful.load` gives one by name, got {graph!r}")
    return from_pyg(graph)


def with_task(graph: Graph, settings: Settings) -> Graph:
    """``graph`` with the task, the metric and the positive class that ``settings`` specify."""
    wanted = {name: getattr(settings, name) for name in ("task", "metric", "positive")}
    asked = {name: value for name, value in wanted.items() if value not in (None, getattr(graph, name))}
    return graph.replace(**asked) if asked else graph


def make_seeded_model(name: str, graph: Graph, seed: int, options: Mapping[str, Any]) -> Network:
    """Make the model ``name`` for ``graph``, with initial weights drawn with ``seed``."""
    graph.require_training()
    if options.get("two_logits") and graph.num_outputs == 1 and graph.kind != "binary":
        raise HandfulError(f"two_logits is for two classes, and {graph.name} has labels for {graph.kind}: leave it out")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make_model(name, graph.num_features, graph.num_outputs, **options)


def begin(
    model: nn.Module,
    graph: Graph,
    sampler: Sampler,
    settings: Settings,
    seed: int = SEED,
    device: Devices = "cpu",
    callbacks: Sequence[Callback] = (),
    *,
    graph_on: GraphOn = "device",
    memory: int | str | None = None,
    **own: Any,
) -> Loop:
    """Prepare a run: put the model and the graph on their devices, and make the optimiser, the scheduler and the loop.

    ``own`` contains the values of ``optimizer``, ``scheduler``, ``loss``, ``class_weight`` and ``metric`` that the user
    passed as objects, not as names.
    """
    require_kind("model", model, nn.Module, "a module; `handful.make_model` makes one by name")
    require_kind("sampler", sampler, Sampler, "a sampler, such as RandomNodes(parts=4)")
    require_kind("loss", own.get("loss", node_losses), Callable, "a function of (outputs, y) for the loss of each node")
    for callback in callbacks:
        require_kind("callbacks", callback, Callback, "instances of Callback")
    if not isinstance(seed, Integral) or not 0 <= seed < 2**63:
        raise HandfulError(f"seed takes a whole number between 0 and 2⁶³, got {seed!r}")
    graph, sampler = resolve(model, graph, sampler, settings)
    if isinstance(graph, LinkGraph):
        check_links(sampler, settings, memory)
        graph_on = "device" if graph_on == "auto" else graph_on  # no trial step: it would need labels of nodes
    if graph.edge_attr is not None and (isinstance(model, Network) or memory is not None):
        what = "a memory budget" if memory is not None else f"the model {type(model).__name__}"
        raise HandfulError(f"edge_attr cannot be used with {what}: leave it out, graph.replace(edge_attr=None)")
    losses, weights = losses_of(graph, own.get("loss")), _class_weights(graph, settings, own.get("class_weight"))
    metric = own_metric(own["metric"]) if "metric" in own else METRICS[graph.metric]
    devices = [usable_device(ranks.own_device(name)) for name in device_names(device)]
    settings = settle(settings, graph, sampler, model)
    add_label_head(model, graph, sampler, settings, memory, devices[0])
    loss = partial(batch_loss, precision=settings.precision, losses=losses, class_weight=weights)
    graph, execution = place(graph, model, sampler, settings, devices, graph_on, memory, loss)
    model = arrange(model, devices, settings.checkpoint_activations)
    setattr(model, "units", units_of(graph))  # noqa: B010  (mypy takes module attributes for tensors)
    weights = None if weights is None else weights.to(devices[0])
    optimizer = make_optimizer(settings, model.parameters(), own.get("optimizer"))
    scheduler = make_scheduler(settings, optimizer, own.get("scheduler"))
    what = (model, graph, sampler, optimizer, settings, seed)
    return Loop(*what, scheduler, losses, weights, metric, callbacks, execution)


def resolve(model: nn.Module, graph: Graph, sampler: Sampler, settings: Settings) -> tuple[Graph, Sampler]:
    """Set the task of ``graph``, adapt ``sampler`` to ``model``, and return both.

    Raises:
        HandfulError: the graph's features, labels or shards do not allow this model, sampler or setting.
    """
    graph = with_task(graph.require_training(), settings)
    sampler = adapt_sampler(sampler, type(model), model.depth if isinstance(model, Network) else None)
    if isinstance(model, Network) and model.in_features != graph.num_features:
        features = f"takes {model.in_features} features, and the graph has {graph.num_features}"
        raise HandfulError(f"the model {features}: make it with graph.num_features")
    if graph.kind != "binary" and settings.threshold != "half":
        raise HandfulError(f"threshold is for two classes, and the labels of {graph.name} are {graph.kind}")
    if isinstance(graph, ShardedGraph):
        check_model(model)
        sampler.deal(graph, 0, 0)  # raises an error if the sampler has no partition
        if settings.evaluation != "exact":
            raise HandfulError("a graph in shards is evaluated exactly: leave evaluation out")
    return graph, sampler


def place(
    graph: Graph,
    model: nn.Module,
    sampler: Sampler,
    settings: Settings,
    devices: Sequence[torch.device],
    graph_on: GraphOn,
    memory: int | str | None,
    loss: Loss,
) -> tuple[Graph, Execution]:
    """Put the graph on the device where it stays during training, and return it with the execution of the run."""
    if len(devices) > 1 and ranks.size() > 1:
        raise HandfulError("several devices share one model, and several ranks train copies of it: use one of the two")
    exact = resolve_first_hop(model, graph, sampler, settings, memory)
    aggregate = partial(know, model=model, settings=settings, memory=memory)
    if isinstance(graph, ShardedGraph):
        if memory is not None:
            raise HandfulError("memory is for a graph in one place, and this one is in shards: leave it out")
        graph.to(devices[0])  # a shard stays on the CPU, and refuses other devices
        return graph, OverShards(graph, aggregate(graph) if exact else None)
    aggregates = aggregate_bytes(graph, hops_of(settings)) if exact else 0
    stays = stays_on_host(graph_on, graph, model, sampler, devices[0], loss, aggregates)
    graph = graph.to("cpu" if stays else devices[0])
    execution = (OfLinks if isinstance(graph, LinkGraph) else InMemory)(devices[0] if stays else None)
    if memory is not None:
        execution = within(memory, sampler, {graph.device, *devices})
    return graph, replace(execution, known=aggregate(graph, shared=ranks.size() > 1)) if exact else execution


def _class_weights(graph: Graph, settings: Settings, own: Sequence[float] | Tensor | None) -> Tensor | None:
    """The weight of every class, on the CPU; ``None`` if classes are not weighted."""
    if own is None and settings.class_weight == "none":
        return None
    if graph.kind not in ("binary", "multiclass"):
        raise HandfulError(f"class_weight is for classes, and the labels of {graph.name} are {graph.kind}")
    if own is None:
        return balanced_weights(graph).cpu()
    with explaining(f"class_weight takes a number for every class, got {own!r}", TypeError, ValueError, RuntimeError):
        weights = torch.as_tensor(own, dtype=torch.float32, device="cpu")
    if weights.shape != (graph.num_classes,):
        raise HandfulError(f"class_weight has shape {tuple(weights.shape)} for {graph.num_classes} classes")
    if not bool((weights >= 0).all() & weights.isfinite().all() & (weights > 0).any()):
        raise HandfulError("class_weight takes finite numbers that are not negative, and not only zeros")
    return weights


def adapt_sampler(sampler: Sampler, kind: type[nn.Module], depth: int | None) -> Sampler:
    """Adapt ``sampler`` to a model of class ``kind``. ``depth`` is the model's receptive field in hops; ``None`` if
    unknown.

    Raises:
        SamplerError: the sampler draws separate nodes for each layer, but the model needs the same nodes in all layers,
            or the model and the sampler have different numbers of layers.
    """
    name = model_name(kind) or kind.__name__
    if sampler.layerwise and not (issubclass(kind, Network) and kind.sums_neighbors):
        why = f"{title(sampler.name)} cannot train {name}: its layers are weighted sums over nodes of their own"
        raise SamplerError(f"{why}. Use model gcn, sage or graphland-sage, or another sampler")
    if issubclass(kind, Network) and kind.sees_all and not sampler.shared:
        raise SamplerError(f"{name} sees all nodes of a batch, and {sampler} trims them: use it without trimmed")
    return sampler if depth is None else sampler.for_depth(depth)


def device_names(device: Devices) -> list[str | torch.device]:
    """The list of devices that ``device`` specifies.

    >>> device_names("cuda:0,cuda:1"), device_names(["cpu"])
    (['cuda:0', 'cuda:1'], ['cpu'])
    """
    if isinstance(device, str):
        return [name.strip() for name in device.split(",")]
    return [device] if isinstance(device, torch.device) else list(device)


def _config(loop: Loop, device: Devices, record: Mapping[str, Any] | None, own: dict[str, Any]) -> dict[str, Any]:
    """The configuration of the run; only a run with the same configuration can be resumed."""
    seen = {
        "graph": loop.graph.name,
        **describe(loop.model),
        "sampler": {"name": loop.sampler.name, **loop.sampler.options()},
        "settings": asdict(loop.settings),
        "seeds": [loop.seed],
        "device": ",".join(map(str, device_names(device))),
    }
    objects: dict[str, Any] = {name: name_of(one) if callable(one) else [*map(float, one)] for name, one in own.items()}
    # The result of a user's function is unknown, so the record describes the result.
    if "optimizer" in own:
        objects["made optimizer"] = {"class": name_of(loop.optimizer), **plain_part(loop.optimizer.defaults)}
    if "scheduler" in own and loop.scheduler is not None:
        objects["made scheduler"] = {"class": name_of(loop.scheduler), **plain_part(loop.scheduler.state_dict())}
    return {**(record or seen), **({"own": objects} if own else {}), "data": loop.graph.identity()}


def _read_ended(loop: Loop, folder: RunFolder) -> Run:
    """Read the result of a finished run, and load the best weights into the model."""
    if not folder.model.exists() and folder.checkpoint.exists():
        restore_checkpoint(loop, folder)
        loop.model.load_state_dict(loop.best_weights)
        save_model(loop.model, folder.model)
    load_weights(loop.model, folder.model)
    return replace(folder.run(), model=loop.model)


def _finish(loop: Loop, folder: RunFolder | None) -> Run:
    """Load the best weights into the model, write the checkpoint, the model and the result to ``folder``, and return
    the result.
    """
    peaks = [peak for device in loop.devices if (peak := peak_gpu(device)) is not None]
    run = Run(
        **loop.counts(),
        seed=loop.seed,
        model=loop.model,
        metric=loop.metric.name,
        higher_is_better=loop.metric.higher_is_better,
        val=loop.best_val,
        test=loop.best_test,
        epochs=loop.epoch,
        peak_ram_bytes=peak_ram(),
        peak_gpu_bytes=sum(peaks) if peaks else None,
        threshold=0.5 if loop.graph.kind == "binary" else None,
        dir=None if folder is None else str(folder.path),
    )
    if folder is not None:
        save_checkpoint(loop, folder)
    loop.model.load_state_dict(loop.best_weights)
    if loop.settings.threshold == "f1":
        assert loop.graph.val_mask is not None
        nodes, outputs = loop.execution.outputs(loop)
        run.threshold = best_threshold(outputs[loop.graph.val_mask[nodes]], loop.graph)
    if folder is not None:
        with folder.written("the result"):
            save_model(loop.model, folder.model)
            write_json(folder.result, seal(run.to_json()))
            write_card(folder.path)
    return run
