"""Checks of arguments that `replay` and `stream` share: each error names the argument and what to pass instead."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mainstem.errors import InputError, SparkError
from mainstem.jit import JIT_ENABLED
from mainstem.lang import Program
from mainstem.spark.session import register
from mainstem.spark.sources import CLASSIC_ONLY, local_path
from mainstem.state import State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_MIN = (4, 1)
"""`DataFrame.repartitionById`, which places shards without hashing, came with 4.1."""


def check_session(spark: Any) -> None:
    """Refuse what is no session that can run Mainstem; one that can is told about the format `mainstem`."""
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkError(f"Spark is not installed ({error})\n  pip install 'mainstem[spark]'") from error
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise SparkError(CLASSIC_ONLY)
    if not isinstance(spark, SparkSession):
        raise SparkError(f"a SparkSession is needed, not {type(spark).__name__}\n  e.g. mainstem.spark.local_session()")
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < SPARK_MIN:
        raise SparkError(
            f"Spark {pyspark.__version__} is too old\n  use Spark {'.'.join(map(str, SPARK_MIN))} or later"
        )
    register(spark)


def positive(name: str, value: Any, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name}={value!r}\n  pass a positive number")
    return value


def folder(name: str, value: Any) -> str | None:
    """An absolute path that the driver and all tasks see as a folder."""
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise InputError(f"{name}={value!r}\n  pass the path of a folder")
    return local_path(value, f"{name}=")


def check_initial(program: Program, initial: Any) -> Mapping[str, pa.Table] | None:
    """Tables to start from; applied to an empty state here, so that mistakes show before a job runs."""
    if initial is None:
        return None
    if not isinstance(initial, Mapping) or not all(isinstance(table, pa.Table) for table in initial.values()):
        raise InputError(f"initial is {type(initial).__name__}\n  pass a dict {{table name: Arrow table}}")
    state = State({table.name: table for table in program.tables})
    state.load(initial)
    return dict(initial)


def chosen_jit(jit: bool | None) -> bool:
    return JIT_ENABLED if jit is None else jit


def default_partitions(spark: SparkSession) -> int:
    return max(1, spark.sparkContext.defaultParallelism)
