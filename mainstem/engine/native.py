"""What generated entry points are made of: arrays from a context, and the compiled callable behind one pointer."""

from __future__ import annotations

from typing import Any

from numba import cfunc, types
from numba.extending import intrinsic
from numba.np import arrayobj

_SIGNATURE = types.int64(types.int64, types.int64, types.int64)


def entry(function: Any) -> Any:
    """A C function `int64(context, item, worker)` that needs neither the GIL nor reference counts."""
    options: dict[str, Any] = {"cache": True, "_nrt": False}
    return cfunc(_SIGNATURE, **options)(function)


def _array(context: Any, builder: Any, array_type: Any, address: Any, shape: Any) -> Any:
    element = context.get_data_type(array_type.dtype)
    size = context.get_constant(types.intp, context.get_abi_sizeof(element))
    strides = [size]
    for extent in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    array = context.make_array(array_type)(context, builder)
    arrayobj.populate_array(
        array,
        data=builder.inttoptr(address, element.as_pointer()),
        shape=shape,
        strides=strides,
        itemsize=size,
        meminfo=None,
    )
    return array._getvalue()


def _slot(context: Any, builder: Any, base: Any, number: Any) -> tuple[Any, Any]:
    """Address and length of one array of a context."""
    word = context.get_value_type(types.int64)
    slots = builder.inttoptr(base, word.as_pointer())
    two = context.get_constant(types.int64, 2)
    at = builder.mul(number, two)
    length_at = builder.add(at, context.get_constant(types.int64, 1))
    return builder.load(builder.gep(slots, [at])), builder.load(builder.gep(slots, [length_at]))


@intrinsic
def word(typing_context: Any, base: Any, number: Any) -> Any:
    """A number of a context, in the place of an array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _slot(context, builder, arguments[0], arguments[1])[0]

    return types.int64(types.int64, types.int64), generate


@intrinsic
def take(typing_context: Any, base: Any, number: Any, dtype: Any) -> Any:
    array_type = types.Array(dtype.dtype, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, length = _slot(context, builder, arguments[0], arguments[1])
        return _array(context, builder, array_type, address, [length])

    return array_type(types.int64, types.int64, dtype), generate


@intrinsic
def take_own(typing_context: Any, base: Any, number: Any, dtype: Any, worker: Any) -> Any:
    """The worker's own row of an array with one row per worker; `length` is that of a row."""
    array_type = types.Array(dtype.dtype, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, length = _slot(context, builder, arguments[0], arguments[1])
        size = context.get_constant(types.int64, context.get_abi_sizeof(context.get_data_type(array_type.dtype)))
        skipped = builder.mul(builder.mul(arguments[3], length), size)
        return _array(context, builder, array_type, builder.add(address, skipped), [length])

    return array_type(types.int64, types.int64, dtype, types.int64), generate


@intrinsic
def take_matrix(typing_context: Any, base: Any, number: Any, dtype: Any, width: Any) -> Any:
    array_type = types.Array(dtype.dtype, 2, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, length = _slot(context, builder, arguments[0], arguments[1])
        return _array(context, builder, array_type, address, [length, arguments[3]])

    return array_type(types.int64, types.int64, dtype, types.int64), generate


@intrinsic
def natural(typing_context: Any, number: Any) -> Any:
    """The number, which is not negative: an array that is indexed by it need not ask whether to count from its end."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zero = context.get_constant(types.int64, 0)
        builder.assume(builder.icmp_signed(">=", arguments[0], zero))
        return arguments[0]

    return types.int64(types.int64), generate


def plain_natural(number: int) -> int:
    return number


def plain_take(context: Any, number: int, dtype: Any) -> Any:
    return context[number]


def plain_take_own(context: Any, number: int, dtype: Any, worker: int) -> Any:
    return context[number][worker]


def plain_take_matrix(context: Any, number: int, dtype: Any, width: int) -> Any:
    return context[number]
