"""`math` functions as transactions see them: `(value, code)` instead of exceptions, with CPython's rules.

CPython raises ValueError when a finite argument gives nan, and for an infinite result either OverflowError or
ValueError, depending on the function. `FUNCTIONS` is the list that the language knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numba.extending import overload

from mainstem.lang.arith import DOMAIN, FLOAT_OVERFLOW

# True: an infinite result of a finite argument is an overflow; False: a domain error.
_OVERFLOWS = {
    "sqrt": False, "exp": True, "expm1": True, "log": False, "log2": False, "log10": False, "log1p": False,
    "sin": False, "cos": False, "tan": False, "asin": False, "acos": False, "atan": False,
    "sinh": True, "cosh": True, "tanh": False,
}  # fmt: skip


def _make(name: str) -> Callable[[float], tuple[float, int]]:
    function = getattr(math, name)
    infinite = FLOAT_OVERFLOW if _OVERFLOWS[name] else DOMAIN

    def interpreted(x: float) -> tuple[float, int]:
        try:
            return function(x), 0
        except OverflowError:
            return 0.0, FLOAT_OVERFLOW
        except ValueError:
            return 0.0, DOMAIN

    # CPython answers a zero or negative logarithm itself, before it asks libm.
    positive_only = name in ("log", "log2", "log10")

    @overload(interpreted, strict=False)  # annotations differ
    def compiled(x: Any) -> Any:
        def run(x: float) -> tuple[float, int]:
            if positive_only and x <= 0.0:
                return 0.0, DOMAIN
            result = function(x)
            if math.isnan(result) and not math.isnan(x):
                return 0.0, DOMAIN
            if math.isinf(result) and not math.isinf(x):
                return 0.0, infinite
            return result, 0

        return run

    interpreted.__name__ = interpreted.__qualname__ = f"math_{name}"
    return interpreted


FUNCTIONS: dict[str, Callable[[float], tuple[float, int]]] = {name: _make(name) for name in _OVERFLOWS}
# These never fail, so generated code calls them as they are.
PLAIN = {"fabs": 1, "atan2": 2, "copysign": 2}
PREDICATES = ("isnan", "isinf", "isfinite")
CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau, "inf": math.inf, "nan": math.nan}
