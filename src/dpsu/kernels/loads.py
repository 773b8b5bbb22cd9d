"""Intrinsics that NumPy does not have: eight bytes from any place, a long product, a prefetch.

A loop over bytes costs eight loads and as many checks of indices.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dpsu.runtime.jit import Intrinsic, njit

if sys.byteorder != "little":
    raise ImportError("dpsu reads eight bytes at once, the lowest first; this machine does not")


def _load_word(context: Any, data: Any, at: Any) -> Any:
    """Eight bytes from position `at` on as a little-endian word.

    There is no check of the position: the caller knows that at least eight bytes follow it.
    """
    from llvmlite import ir
    from numba import types

    def read(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, values[0])
        place = builder.bitcast(builder.gep(array.data, [values[1]]), ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return types.uint64(data, types.int64), read


def _prefetch(context: Any, array: Any, at: Any) -> Any:
    """Begin to load the cache line of ``array[at]``, without waiting for it."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

    def begin(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        held = context.make_array(signature.args[0])(context, builder, values[0])
        place = builder.bitcast(builder.gep(held.data, [values[1]]), ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        call = ir.FunctionType(ir.VoidType(), [place.type, word, word, word])
        insert: Any = cgutils.get_or_insert_function
        # To read, to keep, and of data.
        builder.call(
            insert(builder.module, call, "llvm.prefetch"), [place, word(0), word(3), word(1)]
        )
        return context.get_dummy_value()

    return types.void(array, types.int64), begin


def _fold_product(context: Any, one: Any, other: Any) -> Any:
    """Both halves of the product of two words, of 128 bits, combined by exclusive or."""
    from llvmlite import ir
    from numba import types

    def multiply(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        long = ir.IntType(128)
        product = builder.mul(builder.zext(values[0], long), builder.zext(values[1], long))
        high = builder.lshr(product, ir.Constant(long, 64))
        return builder.trunc(builder.xor(product, high), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), multiply


# In compiled code these take no context.
load_word: Any = Intrinsic(_load_word)
prefetch: Any = Intrinsic(_prefetch)
fold_product: Any = Intrinsic(_fold_product)


@njit(cache=True, inline="always")
def load_end(data: Any, at: Any, rest: Any) -> Any:
    """The last `rest` < 8 bytes of a text as a word whose other bytes are 0."""
    if at + 8 <= len(data):
        return load_word(data, at) & ((np.uint64(1) << np.uint64(8 * rest)) - np.uint64(1))
    word = np.uint64(0)
    for i in range(rest):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return word
