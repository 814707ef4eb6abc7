"""Spark, MVPS by hand: SQL windows and as-of joins, batch after batch, with the state carried between batches.

Exact. In a batch, each message takes three steps: an as-of join tells whether sender and recipient are friends by then;
a window per sender and one per IP address add the counts so far. The counts that a batch starts from enter its windows
as rows in front of all its messages, so they need no further join. The state after a batch is cut off from its
history (local checkpoints), so what a batch needs does not grow with the log before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from mainstem.bench import spam_frames as frames
from mainstem.bench.spam_answers import Answer, answer, fresh, open_log, timed

NAME = "Spark, SQL windows"
BATCH = 10_000_000
"""Events of a batch: the more, the faster; windows over so many run within 8 GB on two cores (they spill)."""

_CARRIED = -1  # the place of rows that carry state: before all messages


def sql_windows(spark: SparkSession, log: Path, out: Path, *, scan: bool = True, batch: int = BATCH) -> Answer:
    """Replays the log into `out`: `ts`, `seq`, `spam` per message."""
    fresh(out)
    opened = open_log(log)
    with timed() as watch, frames.tuned(spark):
        spans = opened.ranges(batch)
        state: _State | None = None
        for span in spans[:-1]:
            state = _run(frames.events(spark, opened, span), scan, state, out)
        _run_last(frames.events(spark, opened, spans[-1] if len(spans) > 1 else None), scan, state, out)
    return answer(NAME, watch.seconds, opened.events, out)


@dataclass(frozen=True)
class _State:
    """What later batches need: who are friends, and the counts of senders and IP addresses."""

    friends: DataFrame  # sender, recipient, seq
    senders: DataFrame  # sender, seq, friend, other
    origins: DataFrame  # ip, seq, message, email

    def drop(self) -> None:
        for frame in (self.friends, self.senders, self.origins):
            frame.unpersist()


def _run(events: DataFrame, scan: bool, state: _State | None, out: Path) -> _State:
    """One batch and the state after it."""
    friends = _friends(events, state).localCheckpoint()
    messages = _as_of(frames.messages(events, scan), friends).persist()
    _write(messages, state, out)
    after = _State(
        friends.withColumn("seq", F.lit(_CARRIED)).localCheckpoint(),
        _sums(_senders(messages, state), "sender", "friend", "other"),
        _sums(_origins(messages, state), "ip", "message", "email"),
    )
    messages.unpersist()
    friends.unpersist()
    if state is not None:
        state.drop()
    return after


def _run_last(events: DataFrame, scan: bool, state: _State | None, out: Path) -> None:
    """The last batch: nothing of it is needed twice."""
    _write(_as_of(frames.messages(events, scan), _friends(events, state)), state, out)
    if state is not None:
        state.drop()


def _friends(events: DataFrame, state: _State | None) -> DataFrame:
    """The place from which each pair are friends."""
    new = frames.friendships(events).select(F.col("a").alias("sender"), F.col("b").alias("recipient"), "seq")
    every = new if state is None else new.unionByName(state.friends)
    return every.groupBy("sender", "recipient").agg(F.min("seq").alias("seq"))


def _as_of(messages: DataFrame, friends: DataFrame) -> DataFrame:
    """The messages with `friend` and `other` (1 and 0, or 0 and 1)."""
    known = friends.withColumnRenamed("seq", "friends_from")
    joined = messages.join(known, ["sender", "recipient"], "left")
    friend = F.coalesce((F.col("friends_from") < F.col("seq")).cast("int"), F.lit(0))
    return joined.select(
        "seq",
        "ts",
        "sender",
        "ip",
        "email",
        friend.alias("friend"),
        (1 - friend).alias("other"),
        F.lit(1).alias("message"),
    )


def _write(messages: DataFrame, state: _State | None, out: Path) -> None:
    by_sender = _senders(messages, state).select(
        "*", _so_far("sender", "friend").alias("to_friends"), _so_far("sender", "other").alias("to_others")
    )
    by_origin = _origins(by_sender.where(F.col("seq") > _CARRIED), state).select(
        "*", _so_far("ip", "message").alias("from_ip"), _so_far("ip", "email").alias("emails")
    )
    frames.write(by_origin.where(F.col("seq") > _CARRIED), out)


def _senders(messages: DataFrame, state: _State | None) -> DataFrame:
    """The messages behind what senders' counts start from."""
    return messages if state is None else messages.unionByName(state.senders, allowMissingColumns=True)


def _origins(messages: DataFrame, state: _State | None) -> DataFrame:
    return messages if state is None else messages.unionByName(state.origins, allowMissingColumns=True)


def _so_far(key: str, counted: str) -> Column:
    window = Window.partitionBy(key).orderBy("seq").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return F.sum(counted).over(window)


def _sums(rows: DataFrame, key: str, *counted: str) -> DataFrame:
    sums = rows.groupBy(key).agg(F.lit(_CARRIED).alias("seq"), *(F.sum(name).alias(name) for name in counted))
    return sums.localCheckpoint()
