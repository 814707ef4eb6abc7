"""Mainstem: transactional stream processing in Python, as if in order."""

from __future__ import annotations

from typing import Any

from mainstem import tools as tools
from mainstem.app import App, check
from mainstem.errors import (
    CorruptError,
    HistoryError,
    InputError,
    LockedError,
    MainstemError,
    ProgramError,
    QueryError,
    SparkError,
    StoreError,
    UserCodeError,
)
from mainstem.gate import Gate
from mainstem.lang import abort, require
from mainstem.query import Change, Database
from mainstem.query import open_db as open  # `ms.open("dir/")` reads like the built-in
from mainstem.result import Result
from mainstem.schema import Array
from mainstem.state import entries
from mainstem.variants import variants
from mainstem.why import Why
from mainstem.windows.aggregates import all_ as all
from mainstem.windows.aggregates import any_ as any
from mainstem.windows.aggregates import avg, count, distinct, first, fold, last
from mainstem.windows.aggregates import max_ as max
from mainstem.windows.aggregates import min_ as min
from mainstem.windows.aggregates import sum_ as sum  # `ms.sum("kwh")` reads like the built-in

__version__ = "0.1.0"

__all__ = [
    "App",
    "Array",
    "Change",
    "CorruptError",
    "Database",
    "Gate",
    "HistoryError",
    "InputError",
    "LockedError",
    "MainstemError",
    "ProgramError",
    "QueryError",
    "Result",
    "SparkError",
    "StoreError",
    "UserCodeError",
    "Why",
    "abort",
    "all",
    "any",
    "avg",
    "check",
    "configure",
    "count",
    "distinct",
    "entries",
    "first",
    "fold",
    "last",
    "max",
    "min",
    "open",
    "require",
    "sum",
    "variants",
]


def configure(builder: Any, **options: Any) -> Any:
    """Sets the Spark options that matter on a session builder; see `mainstem.spark.session.configure`."""
    from mainstem.spark.session import configure as configure_builder

    return configure_builder(builder, **options)
