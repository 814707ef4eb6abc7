"""Python's arithmetic, checked: each function gives `(value, code)`; a code other than 0 aborts the transaction.

Every function here is plain Python, so that generated kernels run with the JIT off. Where compiled code needs
another form (overflow flags of the processor), an overload stands beside it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic, overload, register_jitable

from mainstem.schema import INT64_MAX, INT64_MIN

# Abort codes that arithmetic can give; a program's own reasons follow after BUILTIN_REASONS.
OVERFLOW, ZERO_DIVISION, TOO_LARGE, DOMAIN, FLOAT_OVERFLOW, NOT_INT64, INDEX, NULL, SHIFT = range(1, 10)
BUILTIN_REASONS = (
    "",
    "integer overflow",
    "division by zero",
    "integer too large for float division",
    "math domain error",
    "float overflow",
    "float is not a 64-bit integer",
    "index out of range",
    "null value",
    "bad shift",
)

EXACT_FLOAT = 2**53  # the largest integer up to which every integer is a float
_TWO63 = 9223372036854775808.0


def _checked(value: int) -> tuple[int, int]:
    return (value, 0) if INT64_MIN <= value <= INT64_MAX else (0, OVERFLOW)


def add(a: Any, b: Any) -> tuple[int, int]:
    return _checked(int(a) + int(b))


def sub(a: Any, b: Any) -> tuple[int, int]:
    return _checked(int(a) - int(b))


def mul(a: Any, b: Any) -> tuple[int, int]:
    return _checked(int(a) * int(b))


def _overflow_intrinsic(builder_method: str) -> Any:
    @intrinsic
    def operation(typing_context: Any, a: Any, b: Any) -> Any:
        signature = types.Tuple((types.int64, types.int64))(types.int64, types.int64)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            pair = getattr(builder, builder_method)(*args)
            overflowed = builder.extract_value(pair, 1)
            # 0 on overflow, as in plain Python: the key slice goes on with the value.
            value = builder.select(overflowed, args[0].type(0), builder.extract_value(pair, 0))
            flag = builder.zext(overflowed, args[0].type)
            return context.make_tuple(builder, sig.return_type, [value, flag])

        return signature, generate

    return operation


# The flag of the processor is 1 on overflow, which is the code OVERFLOW itself.
_add_flag = _overflow_intrinsic("sadd_with_overflow")
_sub_flag = _overflow_intrinsic("ssub_with_overflow")
_mul_flag = _overflow_intrinsic("smul_with_overflow")


@overload(add, strict=False)  # annotations differ
def _add(a: Any, b: Any) -> Any:
    return lambda a, b: _add_flag(a, b)


@overload(sub, strict=False)  # annotations differ
def _sub(a: Any, b: Any) -> Any:
    return lambda a, b: _sub_flag(a, b)


@overload(mul, strict=False)  # annotations differ
def _mul(a: Any, b: Any) -> Any:
    return lambda a, b: _mul_flag(a, b)


@register_jitable
def neg(a: Any) -> tuple[int, int]:
    if a == INT64_MIN:
        return 0, OVERFLOW
    return -a, 0


@register_jitable
def absolute(a: Any) -> tuple[int, int]:
    if a == INT64_MIN:
        return 0, OVERFLOW
    return abs(a), 0


@register_jitable
def floordiv(a: Any, b: Any) -> tuple[int, int]:
    if b == 0:
        return 0, ZERO_DIVISION
    if b == -1:
        return neg(a)
    return a // b, 0


@register_jitable
def mod(a: Any, b: Any) -> tuple[int, int]:
    if b == 0:
        return 0, ZERO_DIVISION
    if b == -1:
        return 0, 0
    return a % b, 0


@register_jitable
def truediv(a: Any, b: Any) -> tuple[float, int]:
    if b == 0:
        return 0.0, ZERO_DIVISION
    if a > EXACT_FLOAT or a < -EXACT_FLOAT or b > EXACT_FLOAT or b < -EXACT_FLOAT:
        return 0.0, TOO_LARGE
    return float(a) / float(b), 0


@register_jitable
def lshift(a: Any, n: Any) -> tuple[int, int]:
    if n < 0 or n > 63:
        return 0, SHIFT
    if n == 63:
        if a == 0:
            return 0, 0
        return (INT64_MIN, 0) if a == -1 else (0, OVERFLOW)
    if a > (INT64_MAX >> n) or a < (INT64_MIN >> n):
        return 0, OVERFLOW
    return a << n, 0


@register_jitable
def rshift(a: Any, n: Any) -> tuple[int, int]:
    if n < 0 or n > 63:
        return 0, SHIFT
    return a >> n, 0


@register_jitable
def int_power(a: Any, n: Any) -> tuple[int, int]:
    """`a ** n` for a constant n >= 0, by repeated multiplication: it overflows exactly when the result does."""
    result = 1
    for _ in range(n):
        result, code = mul(result, a)
        if code != 0:
            return 0, code
    return result, 0


@register_jitable
def float_div(a: float, b: float) -> tuple[float, int]:
    if b == 0.0:
        return 0.0, ZERO_DIVISION
    return a / b, 0


def _fmod(a: float, b: float) -> float:
    """libm's fmod; callers see to it that b is not 0 and a is finite."""
    return math.fmod(a, b)


@overload(_fmod, strict=False)  # annotations differ
def _fmod_compiled(a: Any, b: Any) -> Any:
    return lambda a, b: np.fmod(a, b)  # Numba has no math.fmod


@register_jitable
def float_floordiv(a: float, b: float) -> tuple[float, int]:
    """CPython's float floor division, step for step, so that the last bit agrees."""
    if b == 0.0:
        return 0.0, ZERO_DIVISION
    remainder = _fmod(a, b) if not math.isinf(a) else math.nan
    quotient = (a - remainder) / b
    if remainder != 0.0 and (b < 0) != (remainder < 0):
        quotient -= 1.0
    if quotient == 0.0:
        return math.copysign(0.0, a / b), 0
    if math.isnan(quotient) or math.isinf(quotient):
        return quotient, 0
    floor = quotient - _fraction(quotient)
    if quotient - floor > 0.5:
        floor += 1.0
    return floor, 0


@register_jitable
def _fraction(x: float) -> float:
    """What floor() takes off, without leaving floats (floor of a huge float is no int64)."""
    if abs(x) >= 4503599627370496.0:  # 2**52: no fraction left
        return 0.0
    return x - float(math.floor(x))


@register_jitable
def float_mod(a: float, b: float) -> tuple[float, int]:
    if b == 0.0:
        return 0.0, ZERO_DIVISION
    if math.isinf(a):
        return math.nan, 0
    remainder = _fmod(a, b)
    if remainder == 0.0:
        return math.copysign(0.0, b), 0
    if (b < 0) != (remainder < 0):
        remainder += b
    return remainder, 0


@register_jitable
def float_power(a: float, n: Any) -> tuple[float, int]:
    """`a ** n` for a constant integer n."""
    if a == 0.0 and n < 0:
        return 0.0, ZERO_DIVISION
    if n == 0:
        return 1.0, 0
    return _overflow_of(_pow(a, float(n)), a)


def _pow(a: float, b: float) -> float:
    """libm's pow, which raises nothing."""
    try:
        return math.pow(a, b)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


@overload(_pow, strict=False)  # annotations differ
def _pow_compiled(a: Any, b: Any) -> Any:
    return lambda a, b: math.pow(a, b)


@register_jitable
def _overflow_of(result: float, argument: float) -> tuple[float, int]:
    if math.isinf(result) and not math.isinf(argument):
        return 0.0, FLOAT_OVERFLOW
    return result, 0


@register_jitable
def math_pow(a: float, b: float) -> tuple[float, int]:
    result = _pow(a, b)
    if math.isnan(result) and not (math.isnan(a) or math.isnan(b)):
        return 0.0, DOMAIN
    if math.isinf(result) and not (math.isinf(a) or math.isinf(b)):
        return (0.0, DOMAIN) if a == 0.0 else (0.0, FLOAT_OVERFLOW)
    return result, 0


@register_jitable
def math_fmod(a: float, b: float) -> tuple[float, int]:
    if math.isnan(a) or math.isnan(b):
        return math.nan, 0
    if b == 0.0 or math.isinf(a):
        return 0.0, DOMAIN
    return _fmod(a, b), 0


@register_jitable
def to_int(x: float) -> tuple[int, int]:
    """`int(x)`: towards zero."""
    if not (-_TWO63 <= x < _TWO63):
        return 0, NOT_INT64
    return int(x), 0


@register_jitable
def floor_int(x: float) -> tuple[int, int]:
    if not (-_TWO63 <= x < _TWO63):
        return 0, NOT_INT64
    return math.floor(x), 0


@register_jitable
def ceil_int(x: float) -> tuple[int, int]:
    if not (-_TWO63 <= x < _TWO63):
        return 0, NOT_INT64
    return math.ceil(x), 0


@register_jitable
def round_int(x: float) -> tuple[int, int]:
    """`round(x)`: half to even."""
    if not (-_TWO63 <= x < _TWO63):
        return 0, NOT_INT64
    if abs(x) >= 4503599627370496.0:
        return int(x), 0
    low = math.floor(x)
    rest = x - float(low)
    if rest > 0.5 or (rest == 0.5 and (low & 1) == 1):
        low += 1
    return int(low), 0


@register_jitable
def index_in(i: Any, length: Any) -> tuple[int, int]:
    """A Python index into a fixed array of `length`."""
    if i < 0:
        i += length
    if i < 0 or i >= length:
        return 0, INDEX
    return i, 0


@register_jitable
def less_int_float(a: Any, b: float) -> bool:
    """`a < b` exactly: a float can't hold every integer."""
    if math.isnan(b):
        return False
    if b >= _TWO63:
        return True
    if b < -_TWO63:
        return False
    low = math.floor(b)
    return bool(a < low or (a == low and float(low) < b))


@register_jitable
def equal_int_float(a: Any, b: float) -> bool:
    if not (-_TWO63 <= b < _TWO63):
        return False
    low = math.floor(b)
    return bool(a == low and float(low) == b)


@register_jitable
def less_float_int(a: float, b: Any) -> bool:
    """`a < b` exactly."""
    if math.isnan(a):
        return False
    return not less_int_float(b, a) and not equal_int_float(b, a)


@register_jitable
def carried(code: Any) -> tuple[int, int]:
    """What another place has found out about this transaction: 0, or why it aborts."""
    return 0, code


@register_jitable
def saved(rows: Any, count: Any, row: Any) -> bool:
    """Whether a transaction has saved this row for undo."""
    for i in range(count):
        if rows[i] == row:
            return True
    return False


@register_jitable
def locate(tables: Any, rows: Any, first: Any, end: Any, start: Any, table: Any, row: Any) -> int:
    """Where a row stands among the refs `first` to `end`, looking from `start` on; -1 when it is not there.

    A loop over keys meets them in the order of its refs, so the next one is mostly where the last one was or behind it.
    """
    for k in range(max(start, first), end):
        if rows[k] == row and tables[k] == table:
            return int(k)
    for k in range(first, min(start, end)):
        if rows[k] == row and tables[k] == table:
            return int(k)
    return -1
