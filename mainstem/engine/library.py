"""The names that generated kernels use: checked arithmetic, `math`, key probes."""

from __future__ import annotations

import math
from typing import Any

from mainstem.lang import arith, mathlib
from mainstem.state import plain, probe1, probe2, probe3, probe4

_ARITHMETIC = ["add", "sub", "mul", "neg", "absolute", "floordiv", "mod", "truediv", "lshift", "rshift", "int_power", "float_div", "float_floordiv", "float_mod", "float_power", "math_pow", "math_fmod", "to_int", "floor_int", "ceil_int", "round_int", "index_in", "less_int_float", "equal_int_float", "less_float_int", "saved"]


def names(jit: bool) -> dict[str, Any]:
    """The namespace of a generated module, `kernel` excepted."""
    probes = {p.__name__: p if jit else plain(p) for p in (probe1, probe2, probe3, probe4)}
    return {
        "math": math,
        **{name: getattr(arith, name) for name in _ARITHMETIC},
        **{f"math_{name}": function for name, function in mathlib.FUNCTIONS.items()},
        **probes,
    }
