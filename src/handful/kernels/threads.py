"""One thread pool for all numba kernels.

A kernel is serial, releases the GIL, and processes a range of rows. ``over_rows`` gives each thread a range with about
the same number of edges. Numba's own parallel loops are not used: numba's default threading layer aborts the process
when two threads (training, and the sampler that prefetches batches) enter a parallel loop at once.
"""

from __future__ import annotations

import ctypes
import glob
import itertools
import os
import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Event, Lock, Thread, local
from typing import Any

import numba
import numpy as np
import torch
from filelock import FileLock, Timeout
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic

LONGEST_COMPILATION = 60.0
"""The maximum time, in seconds, to wait for another process that compiles the same kernel."""

_lock = Lock()
_pool: ThreadPoolExecutor | None = None
_threads = max(1, torch.get_num_threads())
_here = local()
_announced = False


def _renew() -> None:
    """Give a forked child process a new pool and a new lock, since the parent's threads do not exist in the child.

    The threads of torch do not exist in the child either, and OpenMP would wait for them for ever. So torch uses one
    thread, as in the workers of its ``DataLoader``.
    """
    global _lock, _pool
    _lock, _pool = Lock(), None
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_renew)


def _outnumber_cores() -> None:
    """Start more GNU OpenMP threads than there are cores, so that idle OpenMP threads sleep instead of spinning.

    ``OMP_WAIT_POLICY=PASSIVE`` has the same effect, but OpenMP reads it only once, when torch is imported. The
    additional threads sleep too. OpenMP keeps them as long as the thread that started them exists, so handful starts
    them from a daemon thread that waits until the process ends.
    """
    with open("/proc/self/maps", encoding="utf-8") as maps:
        path = next(line.split(maxsplit=5)[-1].rstrip() for line in maps if "libgomp" in line)
    openmp, started = ctypes.CDLL(path), Event()
    nothing = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)  # each thread calls free(NULL)
    count = ctypes.c_uint(openmp.omp_get_num_procs() + 1)

    def hold() -> None:
        openmp.GOMP_parallel(nothing, None, count, ctypes.c_uint(0))
        started.set()
        Event().wait()

    Thread(target=hold, name="handful-idle", daemon=True).start()
    started.wait()


if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
    with suppress(OSError, StopIteration, AttributeError):  # another system, or another OpenMP: change nothing
        _outnumber_cores()


def get_threads() -> int:
    """The number of threads that a kernel may use."""
    return _threads


def set_threads(count: int) -> None:
    """Let kernels and torch use ``count`` threads each. They do not compete for cores, since kernels and torch do not
    run at the same time.
    """
    global _pool, _threads
    if count < 1:
        raise ValueError(f"threads must be at least 1, got {count}")
    with _lock:
        # The old pool is not shut down: kernels that run now keep it until they have ended, then its threads end too.
        _pool, _threads = None, count
    torch.set_num_threads(count)


def _workers() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            own = (_here, "in_pool", True)
            _pool = ThreadPoolExecutor(_threads, "handful-kernel", initializer=setattr, initargs=own)
        return _pool


def kernel(function: Callable[..., Any]) -> Any:
    """Compile ``function`` on its first use, and cache the machine code on disk. The first compilation prints a note.

    The compiler may reorder and fuse sums to use vector instructions. NaN and infinity are handled as usual. If
    several processes need the kernel at once, such as the ranks of a run, one compiles it and the others wait.
    """
    compiled: Any = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract"})(function)
    folder, module = compiled.stats.cache_path, function.__module__.rpartition(".")[2]
    pattern = os.path.join(folder, f"{module}.{function.__name__}-*.nbi")
    compile_for = compiled.compile

    def compile_once(signature: Any) -> Any:
        global _announced
        # Numba's own lock comes first: a thread that holds it may need the file's lock, for a kernel that this kernel
        # calls.
        with global_compiler_lock, _held(os.path.join(folder, f"{module}.{function.__name__}.lock")):
            if not _announced and not glob.glob(pattern):
                _announced = True
                print("handful: compiling its kernels for this machine (once)…", file=sys.stderr, flush=True)
            return compile_for(signature)

    compiled.compile = compile_once
    return compiled


def _held(path: str) -> ExitStack:
    """Hold the lock of a file. After a timeout, continue without the lock; two processes may then compile the same
    kernel.
    """
    held = ExitStack()
    with suppress(Timeout, OSError):
        held.enter_context(FileLock(path, timeout=LONGEST_COMPILATION))
    return held


def row_ranges(indptr: np.ndarray, pieces: int) -> list[tuple[int, int]]:
    """Split the rows of a CSR into about ``pieces`` ranges with about the same number of edges plus rows."""
    rows = len(indptr) - 1
    if pieces <= 1 or rows < 2:
        return [(0, rows)]
    work = float(indptr[-1]) + rows
    wanted = (work * k / pieces for k in range(1, pieces))
    cuts = [bisect_left(range(rows), before, key=lambda row: float(indptr[row]) + row) for before in wanted]
    return [(lo, hi) for lo, hi in itertools.pairwise([0, *cuts, rows]) if hi > lo]


def even_ranges(count: int, pieces: int) -> list[tuple[int, int]]:
    """Split ``range(count)`` into at most ``pieces`` ranges of about equal length."""
    cuts = [count * k // pieces for k in range(pieces + 1)]
    return [(lo, hi) for lo, hi in itertools.pairwise(cuts) if hi > lo]


def run(function: Callable[..., Any], pieces: Sequence[tuple[Any, ...]], *args: Any) -> list[Any]:
    """Call ``function(*piece, *args)`` for every piece: the first on this thread, the others on the pool. Return the
    results in order.

    A piece is a range ``lo, hi``, followed by arguments for only this call.

    If this thread belongs to the pool, it runs all pieces itself: a thread that waits for its own pool could wait for
    ever.
    """
    if len(pieces) <= 1 or hasattr(_here, "in_pool"):
        return [function(*piece, *args) for piece in pieces]
    workers = _workers()
    rest = [workers.submit(function, *piece, *args) for piece in pieces[1:]]
    first = function(*pieces[0], *args)
    return [first, *(job.result() for job in rest)]


def over_rows(function: Callable[..., Any], indptr: np.ndarray, *args: Any) -> list[Any]:
    """Call ``function(lo, hi, indptr, *args)`` on all threads, for row ranges with about the same number of edges plus
    rows.
    """
    pieces = get_threads() if int(indptr[-1]) + len(indptr) > 20_000 else 1
    return run(function, row_ranges(indptr, pieces), indptr, *args)


def _prefetch(typing_context: Any, array: Any, i: Any, j: Any) -> Any:
    """Prefetch the cache line of ``array[i, j]``. Only kernels can call this function."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = [context.cast(builder, args[k], signature.args[k], types.intp) for k in (1, 2)]
        view = context.make_array(signature.args[0])(context, builder, args[0])
        address = cgutils.get_item_pointer(context, builder, signature.args[0], view, place, wraparound=False)  # type: ignore[no-untyped-call]
        byte = builder.bitcast(address, ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte.type], ir.FunctionType(ir.VoidType(), [byte.type, word, word, word])
        )
        builder.call(hint, [byte, word(0), word(3), word(1)])  # to read, into every cache, as data
        return context.get_dummy_value()

    return types.void(array, i, j), generate


prefetch: Any = intrinsic(_prefetch)
