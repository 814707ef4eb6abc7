"""Several variants of a program over one log, in one go: the log is read and routed once, equal stages run once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from mainstem.errors import InputError
from mainstem.gate.validate import check_on_bad
from mainstem.lang import Program
from mainstem.spark import options
from mainstem.spark.compare import Replays
from mainstem.spark.mvps_replay import Flows, Folders, replay_in_stages
from mainstem.spark.mvps_tasks import variant_prefix
from mainstem.spark.plan import why_not_staged
from mainstem.spark.replay import read_outputs, replay, staged_options
from mainstem.spark.sources import sources_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def replay_variants(
    names: Sequence[str],
    flows: Flows,
    spark: SparkSession,
    events: Any,
    *,
    initial: Mapping[str, pa.Table] | None = None,
    out: str | Path | None = None,
    state: None = None,
    partitions: int | None = None,
    batch: int | None = None,
    on_bad: Literal["raise", "reject"] = "raise",
    jit: bool | None = None,
    progress: Callable[[int], None] | None = None,
    between: tuple[int | None, int | None] | None = None,
    resume: bool | None = None,
    exchange: str | Path | None = None,
    range_rows: int | None = None,
    epoch_rows: int | None = None,
) -> Replays:
    """`flows` gives a dataflow with a home per variant, in the order of `names`; see `replay` for the options.

    Output files of variant n are `vNN-part-….parquet` in the folder `out`.
    """
    options.check_session(spark)
    _refuse_state(state)
    program = flows("rare").program
    sources = sources_of(events, program.events, streaming=False)
    check_on_bad(on_bad)
    folder = options.folder("out", out)
    if on_bad == "reject" and folder is None:
        raise InputError('on_bad="reject" keeps rejected rows in a folder, but there is none\n  pass out=')
    if why := why_not_staged(program, sources, flows("rare")):
        raise InputError(f"variants are replayed in stages, which is not possible: {why}\n  replay them one by one")
    chosen = staged_options(
        options.positive("partitions", partitions, options.default_partitions(spark)), asked_partitions=partitions,
        range_rows=range_rows, epoch_rows=epoch_rows, between=between, exchange=exchange, resume=resume,
        on_bad=on_bad, batch=batch, jit=jit,
    )  # fmt: skip
    tables = options.check_initial(program, initial)
    folders = Folders.of(spark, None, folder, chosen.exchange)
    result = replay_in_stages(spark, sources, flows, folders, chosen, initial=tables, progress=progress)
    homes = result.flow.homes
    frames = {}
    for number, (name, home) in enumerate(zip(names, homes, strict=True)):
        prefix = variant_prefix(number, len(homes))
        own = [file for file in result.files if file.name.startswith(prefix)]
        frames[name] = read_outputs(spark, home.program, own, prefix)
    return Replays(frames)


def replay_one_by_one(
    programs: Mapping[str, Program], spark: SparkSession, events: Any, *, out: str | Path | None = None,
    state: None = None, **how: Any,
) -> Replays:  # fmt: skip
    """Variants with windows, which have no stages to share: each replays the log by itself, as `replay` does.

    Output files of variant n are in the folder `vNN` of `out`.
    """
    _refuse_state(state)
    folder = options.folder("out", out)
    frames = {}
    for number, (name, program) in enumerate(programs.items()):
        own = None if folder is None else Path(folder) / f"v{number:02d}"
        frames[name] = replay(program, spark, events, out=own, **how)
    return Replays(frames)


def _refuse_state(state: Any) -> None:
    if state is not None:
        raise InputError("variants have no state=: they would share it\n  pass out=, or replay one of them")
