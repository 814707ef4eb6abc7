"""From a Python function to a transaction: parse, analyse, translate."""

from mainstem.lang.build import build
from mainstem.lang.emit import INTERNAL
from mainstem.lang.explain import explain, plan_of
from mainstem.lang.program import FIXED_COLUMNS, Bound, Function, Program, Spec
from mainstem.lang.runtime import Abort, Table, abort, require

__all__ = [
    "FIXED_COLUMNS",
    "INTERNAL",
    "Abort",
    "Bound",
    "Function",
    "Program",
    "Spec",
    "Table",
    "abort",
    "build",
    "explain",
    "plan_of",
    "require",
]
