"""Spark as the pipeline: replay of stored logs, live runs, and the session they need."""

from mainstem.spark.replay import ReplayInfo, replay, replay_info
from mainstem.spark.session import configure, local_session, register
from mainstem.spark.stream import stream
from mainstem.spark.variants import replay_one_by_one, replay_variants

__all__ = [
    "ReplayInfo",
    "configure",
    "local_session",
    "register",
    "replay",
    "replay_info",
    "replay_one_by_one",
    "replay_variants",
    "stream",
]
