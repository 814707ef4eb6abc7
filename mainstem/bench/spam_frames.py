"""The spam log as Spark DataFrames, as all of the Spark alternatives read it: few columns, in known order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from mainstem.apps.spam import EMAIL, SPAM_RATIO, SPAM_SHARE
from mainstem.bench.spam_answers import SpamLog

TUNED = {
    "spark.sql.adaptive.enabled": "true",
    # The states that are joined with have up to a few million short rows: sending them whole beats a shuffle.
    "spark.sql.autoBroadcastJoinThreshold": str(256 << 20),
    "spark.sql.parquet.compression.codec": "snappy",
}


@contextmanager
def tuned(spark: SparkSession, partitions: int | None = None) -> Iterator[int]:
    """Session options for these jobs, put back afterwards; gives the number of shuffle partitions, one per core."""
    count = partitions or spark.sparkContext.defaultParallelism
    options = {**TUNED, "spark.sql.shuffle.partitions": str(count)}
    before = {name: spark.conf.get(name, None) for name in options}
    for name, value in options.items():
        spark.conf.set(name, value)
    try:
        yield count
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def events(spark: SparkSession, log: SpamLog, span: tuple[int, int] | None = None) -> DataFrame:
    """All columns and `seq`. With `span`, only `span[0] <= ts < span[1]`: files and row groups outside are not read."""
    files = [
        spark.read.parquet(str(file.path)).withColumn("seq", F.lit(file.first_seq) + F.col("_metadata.row_index"))
        for file in (log.files if span is None else log.within(span))
    ]
    frame = reduce(DataFrame.unionAll, files)
    return frame if span is None else frame.where((F.col("ts") >= span[0]) & (F.col("ts") < span[1]))


def friendships(frame: DataFrame) -> DataFrame:
    return frame.where(F.col("event") == "Friendship").select("seq", "a", "b")


def messages(frame: DataFrame, scan: bool) -> DataFrame:
    """`seq`, `ts`, `sender`, `recipient`, `ip` and `email` (1 or 0); the text is read only for a scan."""
    found = F.col("content").contains("@") & F.col("content").rlike(EMAIL) if scan else F.col("has_email")
    email = found.cast("int").alias("email")
    return frame.where(F.col("event") == "Message").select("seq", "ts", "sender", "recipient", "ip", email)


def verdict() -> Column:
    """The rule, over the counts of a message's sender and IP address."""
    by_sender = F.col("to_others") > SPAM_RATIO * F.col("to_friends")
    return (by_sender & (F.col("emails") > F.lit(SPAM_SHARE) * F.col("from_ip"))).alias("spam")


def write(frame: DataFrame, out: Path) -> None:
    frame.select("ts", "seq", verdict()).write.mode("append").parquet(str(out))
