"""Live: a streaming DataFrame to a StreamingQuery with durable state, exactly once."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from mainstem.errors import InputError, SparkError
from mainstem.gate.validate import check_on_bad
from mainstem.lang import Program
from mainstem.spark import options
from mainstem.spark.frames import project
from mainstem.spark.job import Job
from mainstem.spark.live import Emit, Live
from mainstem.spark.live_inputs import united
from mainstem.spark.live_keyed import Keyed
from mainstem.spark.live_one import OneStage
from mainstem.spark.live_rows import LiveInput
from mainstem.spark.plan import check_program, why_not_keyed
from mainstem.spark.replay import compile_program
from mainstem.spark.sources import Source, sources_of
from mainstem.spark.target import check_out
from mainstem.store import Durability, check_durability
from mainstem.store.lending import ask_back, lend, returned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("mainstem.spark")

PLANS = ("auto", "one_stage", "keyed")
ORDERS = ("ready", "batch")
ALL_EVENTS = 1 << 62
"""Events per kernel call: a micro-batch is one batch of the engine and one commit."""


def stream(
    program: Program,
    spark: SparkSession,
    events: Any,
    *,
    state: str | Path,
    checkpoint: str | Path,
    initial: Mapping[str, pa.Table] | None = None,
    out: str | Path | Emit | None = None,
    plan: Literal["auto", "one_stage", "keyed"] = "auto",
    partitions: int | None = None,
    on_bad: Literal["raise", "reject"] = "raise",
    order: Literal["ready", "batch"] = "ready",
    idle: float | None = None,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
    jit: bool | None = None,
    progress: Callable[[int], None] | None = None,
    durability: Durability = "sync",
    keep: int = 2,
) -> StreamingQuery:
    """Runs live: every micro-batch is one commit to the store in `state`, and its outputs appear exactly once.

    `events`: a streaming DataFrame, a list of them, or a dict {EventType: DataFrame}. In a micro-batch events count in
    order of (ts, input, partition, row); an event older than the last committed one is bad input: `on_bad` raises, or
    keeps it in `<state>/rejects`. `checkpoint` is Spark's own folder for this query; keep it and `state` together.

    Several inputs are in one order whatever the timing: an event runs when every other input has shown a later place
    in the order, and waits until then, as part of every commit. A row of nothing but a `ts` is a heartbeat: nothing
    before it will come from that input. `idle`: seconds after which a silent input no longer holds up others; None
    waits for ever, and only that makes the order independent of timing. `order="batch"` does not wait: what comes in
    one micro-batch is in order, and an event older than the last committed one is too late. What waits when nothing
    more comes is run by `app.run([], state=…, complete=True)`, which also closes open windows.

    `out`: a folder for Parquet files (default `<state>/outputs`), or a function `out(table, batch_id)`. The function is
    called after the commit, and called again with the same table and id if the process died before it returned.
    `initial`: tables to start from when `state` is new. `trigger`: arguments of `DataStreamWriter.trigger`, e.g.
    `{"availableNow": True}`. `plan="keyed"` runs shards in tasks, `partitions` of them. Another plan, or
    another number, than the last run on `state` had moves the rows first, in one commit. `progress` is called after
    each batch with its number of events. `durability`, `keep`: as in `app.run`; a micro-batch is durable before Spark
    notes it as done, unless `durability` is "none".
    """
    options.check_session(spark)
    check_program(program)
    sources = sources_of(events, program.inputs, streaming=True)
    check_on_bad(on_bad)
    _check_order(order, idle, len(sources))
    check_durability(durability, keep)
    tables = options.check_initial(program, initial)
    path = _state_path(state)
    checkpoint_path = _checkpoint_path(checkpoint, path)
    target = out if callable(out) else options.folder("out", out) or os.path.join(path, "outputs")
    gated = order == "ready" and len(sources) > 1
    count = options.positive("partitions", partitions, options.default_partitions(spark))
    shards = _shards(program, plan, count, gated)
    if trigger is not None and not isinstance(trigger, Mapping):
        raise InputError(
            f"trigger={trigger!r}\n  pass a dict, e.g. {{'availableNow': True}} or {{'processingTime': '1 second'}}"
        )
    frames = [project(source, program) for source in sources]
    _check_types(frames)
    frame = united(frames) if gated else _united(sources, frames, program)
    ask_back(path)
    if not callable(target):
        check_out(target, path)
    compiled = options.chosen_jit(jit)
    compile_program(program, compiled)
    job = Job(program, ALL_EVENTS, on_bad, compiled, shards=shards)
    kept = {"durability": durability, "keep": keep}
    live: Live
    if shards:
        live = Keyed(job, path, target, tables, progress, kept)
    else:
        inputs = [LiveInput.of(*pair) for pair in zip(sources, frames, strict=True)] if gated else []
        live = OneStage(job, path, target, tables, progress, kept, inputs, idle)
    log.info("live run of %s on %s: plan %s", program.name, path, "keyed" if shards else "one_stage")
    try:
        query = _start(frame, live, checkpoint_path, trigger, name)
    except BaseException:
        live.close()
        raise
    give_back = partial(_give_back, path, query, live)
    lend(path, give_back)
    threading.Thread(target=_close_after, args=(path, query, give_back), name="mainstem-live", daemon=True).start()
    return query


def _start(
    frame: DataFrame, live: Live, checkpoint: str, trigger: Mapping[str, Any] | None, name: str | None
) -> StreamingQuery:
    writer = frame.writeStream.foreachBatch(live).option("checkpointLocation", checkpoint)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    if name is not None:
        writer = writer.queryName(name)
    return writer.start()


def _close_after(path: str, query: StreamingQuery, give_back: Callable[[], None]) -> None:
    try:
        query.awaitTermination()
    except Exception as error:  # whoever waits for the query gets it; here it only means that the run has ended
        log.debug("live run on %s ended: %s", path, error)
    give_back()
    returned(path, give_back)


def _give_back(path: str, query: StreamingQuery, live: Live) -> None:
    """Close the store of a run that has ended; its own thread may not have come to it yet."""
    if query.isActive:
        raise SparkError(
            f"a live run on {path} is active in this process (query {query.id})\n  stop it first: query.stop()"
        )
    live.close()


def _state_path(state: Any) -> str:
    path = options.folder("state", state)
    if path is None:
        raise InputError("state is None\n  pass a directory that keeps the state")
    return path


def _checkpoint_path(checkpoint: Any, state: str) -> str:
    """Spark's own rules, said early: it escapes spaces in some places and not in others."""
    if not isinstance(checkpoint, (str, os.PathLike)) or not os.fspath(checkpoint):
        raise InputError(
            f"checkpoint={checkpoint!r}\n  pass the path of a folder for Spark's own notes about this query"
        )
    text = os.fspath(checkpoint)
    if any(c.isspace() or c == "%" for c in text):
        raise InputError(
            f"checkpoint={text!r} has a space or a percent sign, which Spark handles wrongly\n  choose another path"
        )
    if "://" in text:
        return text
    path = os.path.abspath(text.removeprefix("file:"))
    if path == state:
        raise InputError(f"checkpoint and state are the same directory, {state}\n  give each its own")
    return path


def _check_order(order: str, idle: Any, inputs: int) -> None:
    if order not in ORDERS:
        raise InputError(
            f"order={order!r}\n"
            '  use "ready": inputs wait for each other; or "batch": what comes in one micro-batch is in order'
        )
    if idle is None:
        return
    if isinstance(idle, bool) or not isinstance(idle, (int, float)) or not idle > 0:
        raise InputError(f"idle={idle!r}: an input is silent for some time\n  give seconds above 0, or None to wait")
    if order == "batch" or inputs == 1:
        why = 'with order="batch"' if order == "batch" else "of one input"
        raise InputError(f"idle={idle!r}, but {why} no input waits for another\n  leave it out")


def _shards(program: Program, plan: str, partitions: int, gated: bool) -> int:
    if plan not in PLANS:
        raise SparkError(f"there is no plan {plan!r} for a live run\n  use one of {', '.join(PLANS)}")
    if plan != "keyed":
        return 0
    why = why_not_keyed(program)
    if why:
        raise SparkError(f"plan='keyed' is not possible for app {program.name}: {why}\n  use plan='one_stage'")
    if gated:
        raise SparkError(
            "plan='keyed' is not possible with order='ready': inputs wait for each other in the driver\n"
            "  use plan='one_stage', or order='batch'"
        )
    return partitions


def _united(sources: Sequence[Source], frames: Sequence[DataFrame], program: Program) -> DataFrame:
    """All inputs as one stream. Their partitions stand in the order of the inputs, so ties of `ts` go by input."""
    from pyspark.sql import functions

    named = [
        frame.withColumn("event", functions.lit(source.event))
        if source.event is not None and len(program.inputs) > 1
        else frame
        for source, frame in zip(sources, frames, strict=True)
    ]
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), named)


def _check_types(frames: Sequence[DataFrame]) -> None:
    found: dict[str, tuple[int, str]] = {}
    for number, frame in enumerate(frames):
        for field in frame.schema.fields:
            here = field.dataType.simpleString()
            first, there = found.setdefault(field.name, (number, here))
            if there != here:
                raise InputError(
                    f"column {field.name!r} is {there} in input {first} and {here} in input {number}\n"
                    "  cast them to one type; live inputs share their columns"
                )
