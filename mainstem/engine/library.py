"""The names that generated kernels use: checked arithmetic, `math`, key probes, arrays of a context."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mainstem.engine import native
from mainstem.jit import plain
from mainstem.lang import arith, mathlib, rings
from mainstem.lang.asked import asked
from mainstem.state import probe2, probe3, probe4, row_of

_ARITHMETIC = (
    arith.add, arith.sub, arith.mul, arith.neg, arith.absolute, arith.floordiv, arith.mod, arith.truediv,
    arith.lshift, arith.rshift, arith.int_power, arith.float_div, arith.float_floordiv, arith.float_mod,
    arith.float_power, arith.math_pow, arith.math_fmod, arith.to_int, arith.floor_int, arith.ceil_int,
    arith.round_int, arith.index_in, arith.less_int_float, arith.equal_int_float, arith.less_float_int, arith.carried,
    arith.saved, arith.locate,
)  # fmt: skip


def names(jit: bool) -> dict[str, Any]:
    """The namespace of a generated module, `kernel` excepted."""
    takes = {
        "take": native.take if jit else native.plain_take,
        "take_own": native.take_own if jit else native.plain_take_own,
        "take_matrix": native.take_matrix if jit else native.plain_take_matrix,
        "natural": native.natural if jit else native.plain_natural,
    }
    helpers = {p.__name__: p if jit else plain(p) for p in (row_of, probe2, probe3, probe4, asked)}
    return {
        "math": math,
        **{function.__name__: function for function in (*_ARITHMETIC, *rings.FUNCTIONS)},
        **{f"math_{name}": function for name, function in mathlib.FUNCTIONS.items()},
        **helpers,
        **takes,
        "np": np,
    }
