"""Training of one model in several processes, with ``torch.distributed``.

A *rank* is one of these processes. Only rank 0 writes records and prints. Every function here also works with one
process, so callers need no special case. Nothing is pickled: tensors are sent as bytes, plain values as JSON.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from handful.errors import HandfulError, RankError, ToldElsewhere, explaining
from handful.kernels.threads import set_threads
from handful.signals import handlers_kept

WAIT_SECONDS = 300.0
"""The time that a rank waits for the others to start; ``$HANDFUL_WAIT`` overrides it."""
SILENCE = timedelta(minutes=30)
"""The timeout of messages between ranks: the maximum time that a rank waits for a message. It is longer than any step,
evaluation or loading of a graph.
"""
PIECE = 1 << 28
"""The maximum size of a message between ranks, in bytes."""


def rank() -> int:
    """The rank of this process.

    >>> rank(), size()
    (0, 1)
    """
    return dist.get_rank() if dist.is_initialized() else 0


def size() -> int:
    """The number of ranks."""
    return dist.get_world_size() if dist.is_initialized() else 1


def launched() -> int:
    """The number of ranks that a launcher such as torchrun has started, including this process."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def restarted() -> bool:
    """Whether torchrun has started this process to replace one that failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def owner(index: int, per_step: float, ranks: int) -> int:
    """The rank that computes batch ``index`` of an epoch. A step has ``per_step`` batches.

    >>> [owner(index, per_step=3, ranks=2) for index in range(6)]
    [0, 1, 0, 0, 1, 0]
    """
    return int(math.fmod(index, per_step)) % ranks


# -- joining ----------------------------------------------------------------------------------------------------------


@contextmanager
def join(device: str = "cpu", threads: int | None = None, wait: float | None = None) -> Iterator[None]:
    """A context in which this process is one of the ranks that a launcher started. Without a launcher, nothing changes.

    Ranks on one machine share its cores, unless the user has set a number of threads.

    Args:
        device: the device for training; ranks on GPUs communicate by NCCL, and all other ranks communicate by gloo.
        threads: the number of threads that the user has set, if any.
        wait: the maximum time to wait for all other ranks, in seconds. If ``None``, it is ``$HANDFUL_WAIT`` or, if that
            is not set, ``WAIT_SECONDS``.

    Raises:
        RankError: a rank does not start, or the launcher has not set its variables.
    """
    if launched() == 1 or dist.is_initialized():
        yield
        return
    backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
    wait = float(os.environ.get("HANDFUL_WAIT", WAIT_SECONDS)) if wait is None else wait
    words = f"the ranks did not come together ({{}}): {_MISSING}"
    with explaining(words, RuntimeError, ValueError, kind=RankError):
        store, me, ranks = next(iter(rendezvous("env://", timeout=timedelta(seconds=wait))))
        # The store of torchrun still has the entries of ranks from before a restart.
        store = PrefixStore(f"handful/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        _all_here(store, me, ranks, wait)
        dist.init_process_group(backend, store=store, rank=me, world_size=ranks, timeout=SILENCE)
    try:
        if threads is None:
            _share_cores()
        yield
    finally:
        dist.destroy_process_group()


_MISSING = "start all of them, by torchrun or with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set"


def _all_here(store: Any, me: int, ranks: int, wait: float) -> None:
    """Wait for every rank; after ``wait`` seconds, raise an error that names the missing ranks."""
    names = [f"here/{other}" for other in range(ranks)]
    store.set(names[me], "yes")
    try:
        store.wait(names, timedelta(seconds=wait))
    except RuntimeError:
        missing = [str(other) for other, name in enumerate(names) if not store.check([name])]
        who = f"{'ranks' if len(missing) > 1 else 'rank'} {', '.join(missing)} of {ranks}"
        raise RankError(f"{who} did not come up in {wait:g} s: {_MISSING}") from None


def _share_cores() -> None:
    """Divide the cores among the ranks of this machine, if torchrun has set the number of threads to one."""
    together = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if together > 1 and os.environ.get("OMP_NUM_THREADS", "1") == "1":
        set_threads(max(1, cores // together))


def own_device(device: str | torch.device) -> str | torch.device:
    """The GPU of this rank, if ``device`` is ``cuda`` and there are several ranks; otherwise ``device`` itself."""
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if size() > 1 and str(device) == "cuda" else device


@contextmanager
def agreed() -> Iterator[None]:
    """A context in which an error on one rank becomes an error on all ranks, so that no rank waits for a failed rank.

    Every rank must enter the context. Inside the context, a rank may wait for other ranks only in a nested ``agreed``.

    Raises:
        ToldElsewhere: another rank has failed. Only the failed rank with the lowest number raises its own error.
    """
    mine: HandfulError | OSError | None = None
    try:
        yield
    except (HandfulError, OSError) as error:
        mine = error
    messages = gather(None if mine is None or isinstance(mine, ToldElsewhere) else str(mine))
    failed = [other for other, message in enumerate(messages) if message is not None]
    if mine is not None and (failed[0] == rank() or isinstance(mine, ToldElsewhere)):
        raise mine
    if failed:
        raise ToldElsewhere(f"rank {failed[0]}: {messages[failed[0]]}")


# -- messages ---------------------------------------------------------------------------------------------------------


def _talking() -> AbstractContextManager[None]:
    """A context in which a lost connection to another rank raises a ``RankError``."""
    words = f"rank {rank()} has lost another rank ({{}}): read the error of that rank, then resume"
    return explaining(words, RuntimeError, kind=RankError)  # the errors of torch.distributed are RuntimeErrors


def total(values: Tensor, how: Any = dist.ReduceOp.SUM) -> Tensor:
    """Replace ``values``, in place, by their sum over all ranks (or by the reduction ``how``), and return them."""
    if size() > 1 and values.numel():
        with _talking():
            dist.all_reduce(values, how)
    return values


def add_up(*values: float) -> list[float]:
    """The sum of each value over all ranks."""
    return list(values) if size() == 1 else total(torch.tensor(values, dtype=torch.float64)).tolist()


def largest(*values: float) -> list[float]:
    """The maximum of each value over all ranks."""
    return list(values) if size() == 1 else total(torch.tensor(values, dtype=torch.float64), dist.ReduceOp.MAX).tolist()


def broadcast(value: Any) -> Any:
    """Send the ``value`` of rank 0 to all ranks, and return it. The value must be JSON data; NaN is allowed."""
    return value if size() == 1 else gather(value if rank() == 0 else None)[0]


def broadcast_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Send the tensors of rank 0 to all ranks. Return the tensors on the CPU."""
    kinds = broadcast([[name, str(one.dtype).removeprefix("torch."), list(one.shape)] for name, one in tensors.items()])
    out = {name: torch.empty(shape, dtype=getattr(torch, kind)) for name, kind, shape in kinds}
    for name, one in out.items():
        _send(one.copy_(tensors[name]) if rank() == 0 else one, 0)
    return out


def gather(value: Any) -> list[Any]:
    """Collect the ``value`` of every rank, in the order of the ranks. The values must be JSON data."""
    text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
    return [json.loads(bytes(piece.numpy()).decode()) for piece in exchange([text] * size())]


def exchange(out: Sequence[Tensor]) -> list[Tensor]:
    """All-to-all exchange: ``out[r]`` is sent to rank ``r``.

    Args:
        out: one CPU tensor for each rank. Lengths may differ; all tensors have the same dtype and width.

    Returns:
        One tensor from each rank, in the order of the ranks.
    """
    if size() == 1:
        return [out[0]]
    width, kind = tuple(out[0].shape[1:]), out[0].dtype
    sent = torch.tensor([len(one) for one in out])
    got = torch.empty_like(sent)
    with _talking():
        dist.all_to_all_single(got, sent)
    inbox = [torch.empty(int(length), *width, dtype=kind) for length in got]
    source, sink = [_bytes(one.contiguous()) for one in out], [_bytes(one) for one in inbox]
    longest, piece = int(largest(max(map(len, source), default=0))[0]), max(1, PIECE // size())
    for lo in range(0, longest, piece):
        leaving, arriving = [one[lo : lo + piece] for one in source], [one[lo : lo + piece] for one in sink]
        lengths = [*map(len, arriving)]
        landed = torch.empty(sum(lengths), dtype=torch.uint8)
        with _talking():
            dist.all_to_all_single(landed, torch.cat(leaving), lengths, [*map(len, leaving)])
        for place, values in zip(arriving, torch.split(landed, lengths), strict=True):
            place.copy_(values)
    return inbox


# -- sharing work -----------------------------------------------------------------------------------------------------


def share(count: int, of: int | None = None) -> tuple[int, int]:
    """Divide ``count`` rows among the ranks, and return the start and the end (exclusive) of the range of rank ``of``.

    By default, ``of`` is this rank.

    >>> share(5)
    (0, 5)
    """
    of = rank() if of is None else of
    return count * of // size(), count * (of + 1) // size()


def fill(rows: Tensor) -> Tensor:
    """Complete ``rows`` in place with the rows of the other ranks; each rank has computed only its own ``share``."""
    for other in range(size()):
        lo, hi = share(len(rows), other)
        _send(rows[lo:hi], other)
    return rows


def _send(tensor: Tensor, source: int) -> None:
    """Broadcast a contiguous tensor from rank ``source`` to all ranks, in place and in pieces."""
    data = _bytes(tensor)
    with _talking():
        for lo in range(0, len(data) if size() > 1 else 0, PIECE):
            dist.broadcast(data[lo : lo + PIECE], source)


def _bytes(tensor: Tensor) -> Tensor:
    """The memory of a contiguous tensor, as a tensor of bytes."""
    return tensor.view(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)


# -- starting ---------------------------------------------------------------------------------------------------------


def start(processes: int, command: Sequence[str]) -> None:
    """Run ``python COMMAND`` in ``processes`` processes on this machine, with torchrun's launcher.

    Raises:
        SystemExit: a process failed. The exit code is that of the first process that failed. The failed process itself
            has printed its error.
    """
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=f"handful-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # the ranks print their own errors
    try:
        with handlers_kept():
            elastic_launch(config, sys.executable)(*command)
    except ChildFailedError as error:
        code = error.get_first_failure()[1].exitcode
        raise SystemExit(code if code > 0 else 128 - code) from None
    except SignalException as error:
        raise SystemExit(128 + int(error.sigval)) from None
    finally:
        logging.disable(before)
