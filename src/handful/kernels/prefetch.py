"""The CPU's prefetch instruction, which numba does not offer: load a row into the cache that will be read soon."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _prefetch(typing_context: Any, array: Any, i: Any, j: Any) -> Any:
    """Fetch the cache line of ``array[i, j]``; inside kernels only."""

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
