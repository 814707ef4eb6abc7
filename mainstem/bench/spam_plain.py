"""ReStream's alternatives for the spam log (its sections 2.3, 5.2 and 5.3): what one would do without Mainstem.

All read the same Parquet files and write the verdict on every message as Parquet. The Spark ones are what a Spark
engineer would write with care: only the needed columns are read, the scan for e-mail addresses runs before any shuffle,
small states are broadcast, plans adapt, and there is one shuffle partition per core.
"""

from __future__ import annotations

from mainstem.bench.spam_answers import Answer, Error, error_against
from mainstem.bench.spam_batch import single_batch
from mainstem.bench.spam_micro import micro_batches
from mainstem.bench.spam_serial import serial_loop, serial_run
from mainstem.bench.spam_windows import sql_windows

__all__ = [
    "EXACT_ON_SPARK",
    "ONE_CORE",
    "Answer",
    "Error",
    "error_against",
    "micro_batches",
    "serial_loop",
    "serial_run",
    "single_batch",
    "sql_windows",
]

EXACT_ON_SPARK = (single_batch, sql_windows)
"""`f(spark, log, out, scan=…) -> Answer`, equal to the serial run."""

ONE_CORE = (serial_run, serial_loop)
"""`f(log, out, scan=…) -> Answer`, without Spark, on one core."""
