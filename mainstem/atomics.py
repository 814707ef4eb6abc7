"""Atomic operations on int64 arrays for compiled kernels, and waiting: what threads without locks are made of.

`atomics_plain.py` has the same names in plain Python.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as _intrinsic

from mainstem.jit import compile_kernel

# Numba declares an intrinsic with the arguments of its generator; its callers give those after the typing context.
intrinsic: Any = _intrinsic

SPINS, YIELDS = 200, 50  # how often a waiting thread looks again at once, and after giving its core away; then sleeps
SLEEP_MICROSECONDS = 50
# Of threads that run a batch together: what they wait for takes microseconds, rarely more, and a sleep takes a hundred.
YIELDS_AT_WORK = 2_000

_sched_yield: Any = types.ExternalFunction("sched_yield", types.int32())
_usleep: Any = types.ExternalFunction("usleep", types.int32(types.uint32))


def inlined(function: Any) -> Any:
    return compile_kernel(function, forceinline=True)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    parts = context.make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, parts, [index], wraparound=False)


@intrinsic
def atomic_add(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Adds to `array[index]`; gives what was there before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.atomic_rmw("add", target, arguments[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), generate


@intrinsic
def atomic_load(typing_context: Any, array: Any, index: Any) -> Any:
    """`array[index]` as other threads left it, with everything that they wrote before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.load_atomic(target, "seq_cst", 8)

    return types.int64(array, types.intp), generate


@intrinsic
def atomic_store(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Sets `array[index]`; who loads it sees everything that this thread wrote before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        builder.store_atomic(arguments[2], target, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), generate


@intrinsic
def atomic_release(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """As `atomic_store`, but what this thread loads next may be from before: a plain write on most processors."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        builder.store_atomic(arguments[2], target, "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), generate


@intrinsic
def atomic_change(typing_context: Any, array: Any, index: Any, expected: Any, value: Any) -> Any:
    """Sets `array[index]` if it is `expected`; gives whether it did."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        pair = builder.cmpxchg(target, arguments[2], arguments[3], "seq_cst", "seq_cst")
        return builder.extract_value(pair, 1)

    return types.boolean(array, types.intp, types.int64, types.int64), generate


@intrinsic
def keep_loads_apart(typing_context: Any) -> Any:
    """What this thread has read before was read before what it reads next. No instruction on x86, one on ARM."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("acquire")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Asks for the cache line of `array[index]`, to be written soon. Atomic operations on several lines wait for one
    after the other; asked for before, the lines arrive together."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        number = ir.IntType(32)
        pointer = builder.bitcast(target, ir.IntType(8).as_pointer())
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch",
            [pointer.type],
            fnty=ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number]),
        )
        builder.call(hint, [pointer, number(1), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def ticks(typing_context: Any) -> Any:
    """The processor's time stamp counter."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        counter = builder.module.declare_intrinsic("llvm.readcyclecounter", fnty=ir.FunctionType(ir.IntType(64), []))
        return builder.call(counter, [])

    return types.int64(), generate


@inlined
def rest(turn: int) -> int:
    """One turn of waiting: look again soon at first, then give the core away, then sleep. Gives the next turn."""
    return _rest(turn, YIELDS)


@inlined
def rest_at_work(turn: int) -> int:
    """The same for threads that will soon have what they wait for: about a millisecond before they sleep."""
    return _rest(turn, YIELDS_AT_WORK)


@inlined
def _rest(turn: int, yields: int) -> int:
    if turn >= SPINS:
        if turn < SPINS + yields:
            _sched_yield()
        else:
            _usleep(SLEEP_MICROSECONDS)
    return turn + 1
