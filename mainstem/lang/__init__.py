"""From a Python function to a transaction: parse, analyse, translate."""

from mainstem.lang.build import build
from mainstem.lang.dataflow import RARE_CODES, Carry, Dataflow, Home, Piece, Stage, dataflow
from mainstem.lang.emit import INTERNAL
from mainstem.lang.explain import explain, plan_of
from mainstem.lang.program import FIXED_COLUMNS, Bound, Function, Program, Spec
from mainstem.lang.runtime import Abort, Table, abort, require

__all__ = [
    "FIXED_COLUMNS",
    "INTERNAL",
    "RARE_CODES",
    "Abort",
    "Bound",
    "Carry",
    "Dataflow",
    "Function",
    "Home",
    "Piece",
    "Program",
    "Spec",
    "Stage",
    "Table",
    "abort",
    "build",
    "dataflow",
    "explain",
    "plan_of",
    "require",
]
