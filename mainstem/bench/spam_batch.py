"""Spark, single batch: a full pass over the log per operator, with every state paired with the places where it changed.

Exact. Each pass leaves all versions of its state, one per message, and the last pass puts them together, so what is
held between passes grows with the log.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from mainstem.bench import spam_frames as frames
from mainstem.bench.spam_answers import Answer, answer, fresh, open_log, timed

NAME = "Spark, single batch"


def single_batch(spark: SparkSession, log: Path, out: Path, *, scan: bool = True) -> Answer:
    """Replays the log into `out`: `ts`, `seq`, `spam` per message."""
    fresh(out)
    opened = open_log(log)
    with timed() as watch, frames.tuned(spark):
        events = frames.events(spark, opened)
        friends = first_friendships(events)
        senders = sender_versions(frames.messages(events, scan), friends)
        origins = origin_versions(frames.messages(events, scan))
        frames.write(senders.join(origins, "seq"), out)
    return answer(NAME, watch.seconds, opened.events, out)


def first_friendships(events: DataFrame) -> DataFrame:
    """Operator A: the place from which each pair are friends."""
    pairs = frames.friendships(events).groupBy(F.col("a").alias("sender"), F.col("b").alias("recipient"))
    return pairs.agg(F.min("seq").alias("friends_from"))


def sender_versions(messages: DataFrame, friends: DataFrame) -> DataFrame:
    """Operator B: the sender's counts after each message."""
    joined = messages.join(friends, ["sender", "recipient"], "left")
    is_friend = F.coalesce((F.col("friends_from") < F.col("seq")).cast("int"), F.lit(0))
    so_far = Window.partitionBy("sender").orderBy("seq").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return joined.select(
        "ts",
        "seq",
        F.sum(is_friend).over(so_far).alias("to_friends"),
        F.sum(1 - is_friend).over(so_far).alias("to_others"),
    )


def origin_versions(messages: DataFrame) -> DataFrame:
    """Operator C: the counts of the IP address after each message."""
    so_far = Window.partitionBy("ip").orderBy("seq").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return messages.select(
        "seq", F.count("*").over(so_far).alias("from_ip"), F.sum("email").over(so_far).alias("emails")
    )
