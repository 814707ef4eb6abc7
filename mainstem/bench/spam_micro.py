"""Spark, micro-batches: one pass per operator over each batch, with the state at the resolution of batches.

Approximate, as discretised streams are: a message sees every friendship of its batch, also later ones, and the counts
that its sender and IP address have at the end of the batch. Larger batches are faster and more wrong.
"""

from __future__ import annotations

from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mainstem.bench import spam_frames as frames
from mainstem.bench.spam_answers import Answer, answer, fresh, open_log, timed

NAME = "Spark, micro-batches"
BATCH = 200_000
"""Events of a batch: the largest of ReStream's figure 5, per host."""

COMPACT_EVERY = 8
"""Batches after which the friendships of several batches become one frame: plans stay short."""


def micro_batches(spark: SparkSession, log: Path, out: Path, *, scan: bool = True, batch: int = BATCH) -> Answer:
    """Replays the log into `out`: `ts`, `seq`, `spam` per message, approximately."""
    fresh(out)
    opened = open_log(log)
    with timed() as watch, frames.tuned(spark):
        state = _State(spark)
        for span in opened.ranges(batch):
            state.run(frames.events(spark, opened, span), scan, out)
        state.drop()
    return answer(NAME, watch.seconds, opened.events, out)


class _State:
    """The global state between batches: friendships as frames of pairs, counts as one frame each."""

    def __init__(self, spark: SparkSession) -> None:
        self.pairs: list[DataFrame] = []
        self.senders = spark.createDataFrame([], "sender bigint, to_friends bigint, to_others bigint")
        self.origins = spark.createDataFrame([], "ip bigint, from_ip bigint, emails bigint")

    def run(self, events: DataFrame, scan: bool, out: Path) -> None:
        """Operators A, B, C and D, one after the other, each over the whole batch."""
        self._befriend(events)
        messages = frames.messages(events, scan).persist()
        self._count_senders(messages)
        self._count_origins(messages)
        judged = messages.join(F.broadcast(self.senders), "sender").join(F.broadcast(self.origins), "ip")
        frames.write(judged, out)
        messages.unpersist()

    def drop(self) -> None:
        for frame in (*self.pairs, self.senders, self.origins):
            frame.unpersist()

    def _befriend(self, events: DataFrame) -> None:
        new = frames.friendships(events).select(F.col("a").alias("sender"), F.col("b").alias("recipient"))
        self.pairs.append(new.distinct().localCheckpoint())
        if len(self.pairs) >= COMPACT_EVERY:
            merged = reduce(DataFrame.unionAll, self.pairs).distinct().localCheckpoint()
            for frame in self.pairs:
                frame.unpersist()
            self.pairs = [merged]

    def _count_senders(self, messages: DataFrame) -> None:
        # The batch is small and the friendships are many: the batch's pairs go to the friendships, not the other way.
        asked = messages.groupBy("sender", "recipient").agg(F.count("*").alias("n"))
        friends = reduce(DataFrame.unionAll, self.pairs).join(F.broadcast(asked), ["sender", "recipient"]).distinct()
        to_friends = friends.select("sender", F.col("n").alias("to_friends"), F.lit(0).alias("to_others"))
        everything = asked.select("sender", F.lit(0).alias("to_friends"), F.col("n").alias("to_others"))
        corrected = to_friends.withColumn("to_others", -F.col("to_friends"))
        self.senders = _added(self.senders, everything.unionByName(corrected), "sender")

    def _count_origins(self, messages: DataFrame) -> None:
        new = messages.select("ip", F.lit(1).alias("from_ip"), F.col("email").alias("emails"))
        self.origins = _added(self.origins, new, "ip")


def _added(counts: DataFrame, new: DataFrame, key: str) -> DataFrame:
    """The counts with those of a batch; what they were before is dropped."""
    sums = [F.sum(name).alias(name) for name in counts.columns if name != key]
    after = counts.unionByName(new).groupBy(key).agg(*sums).localCheckpoint()
    counts.unpersist()
    return after
