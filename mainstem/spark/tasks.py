"""What runs inside Spark tasks. Everything here gets plain data, and gives back Arrow batches.

    fused        files -> gate -> executor -> Parquet (or rows)                        one task
    preprocess   rows or file splits -> gate -> blobs                                  N tasks
    execute      blobs -> merge -> executor -> Parquet (or output blobs)               one task, or one per shard
    unpack       output blobs -> rows                                                  N tasks
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.engine import make_executor
from mainstem.errors import MainstemError
from mainstem.gate import EventBatch, batches, inputs_of, open_events
from mainstem.gate.raw import Input
from mainstem.lang import Program
from mainstem.schema import INT64_MIN
from mainstem.spark import blobs, late
from mainstem.spark.merge import Key, Ordered, merge
from mainstem.spark.outcome import Outcome
from mainstem.spark.sink import Sink
from mainstem.spark.sources import NoInput, Split, SplitInput
from mainstem.state import State, stable_hash
