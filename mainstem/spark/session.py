"""Spark sessions: the options that matter, each with its reason, and a session for tools and tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.errors import SparkError
from mainstem.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS: dict[str, str] = {
    # Events travel to Python in Arrow batches; Spark's 10,000 rows make the fixed cost per batch visible.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # An Arrow table below 48 MB would be copied row by row into the query plan: 0 keeps it columnar (15 x faster).
    "spark.sql.execution.arrow.localRelationThreshold": "0",
    # Python workers talk to the JVM through unix sockets instead of TCP: about a quarter less time per row.
    "spark.python.unix.domain.socket.enabled": "true",
    # Workers are forked from a process that has Mainstem loaded; Spark ends idle ones after a minute.
    "spark.python.daemon.module": "mainstem.spark.daemon",
    # `query.stop()` during a batch matches a regex over a long message and overflows the default stack of 1 MB, which
    # kills the stream's thread. In the *default* options, so that a user's own extraJavaOptions stay as they are.
    "spark.driver.defaultJavaOptions": "-Xss16m",
}

WORKER_MEMORY: dict[str, str] = {
    # Tasks allocate the same arrays over and over. Kept by the process, their pages need not be mapped and cleared for
    # every batch, which costs more than what is done with them.
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
    "MIMALLOC_PURGE_DELAY": "-1",
    # A worker that was just started touches all its memory for the first time: in large pages, with few faults. Where
    # Linux does not offer them, or another C library runs, these say nothing.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MIMALLOC_ALLOW_LARGE_OS_PAGES": "1",
}
"""Environment of Python workers."""

LOCAL_CHECKPOINTS: dict[str, str] = {
    # A third of the time per micro-batch on a local disk. Not for HDFS or object stores: its rename is not atomic
    # against a second writer, and only a local folder is sure to have a single one.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

LOCAL_SESSION: dict[str, str] = {
    # Tools and tests have one machine: no need for the name server, the web page or the progress line.
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # 200 partitions, the default, are made for clusters.
    "spark.sql.shuffle.partitions": "2",
}

_REGISTERED = "_mainstem_registered"


def configure(builder: SparkSession.Builder, *, local_checkpoints: bool = False) -> SparkSession.Builder:
    """Prepares a session builder for Mainstem and returns it; an option set afterwards wins.

    Sets `OPTIONS`, and unless `spark-submit` started this process also finds a Java for the session and lets local
    workers run this Python. `local_checkpoints=True` adds the fast checkpoint writer for checkpoints on a local disk.
    The web page, the master, memory and everything else are left to the caller.
    """
    environment = {f"spark.executorEnv.{name}": value for name, value in WORKER_MEMORY.items()}
    for name, value in {**OPTIONS, **environment, **(LOCAL_CHECKPOINTS if local_checkpoints else {})}.items():
        builder = builder.config(name, value)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has chosen both already
        ensure_java()
        if str(getattr(builder, "_options", {}).get("spark.master", "local")).startswith("local"):
            # Spark would start `python3` of the PATH, which often has other packages than this virtual environment.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return builder


def local_session(
    cores: int | str = "*",
    *,
    master: str = "",
    options: Mapping[str, str] | None = None,
    name: str = "mainstem",
    log: Path | None = None,
) -> SparkSession:
    """A configured session on this machine, or on `master`. With `log`, what Spark's JVM prints goes to that file."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkError(f"Spark is not installed ({error}): pip install 'mainstem[spark]'") from error
    target = master or f"local[{cores}]"
    here = target.startswith("local")
    builder = configure(SparkSession.builder.appName(name).master(target), local_checkpoints=here)
    for option, value in {**(LOCAL_SESSION if here else {}), **(options or {})}.items():
        builder = builder.config(option, value)
    with _printing_to(log):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    return session


def register(spark: SparkSession) -> None:
    """Lets a session read tables of a store: `spark.read.format("mainstem")`.

    `app.replay`, `app.stream` and `local_session` do it by themselves.
    """
    if not getattr(spark, _REGISTERED, False):  # Spark warns when a format is registered again
        from mainstem.spark.datasource import MainstemSource

        spark.dataSource.register(MainstemSource)
        setattr(spark, _REGISTERED, True)


@contextmanager
def _printing_to(log: Path | None) -> Iterator[None]:
    """Points standard error at `log` for a moment; a JVM that starts meanwhile keeps it there."""
    if log is None:
        yield
        return
    saved = os.dup(2)
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
