"""The inputs of a staged replay as row groups that ranges are cut from; those that can't be cut are spooled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from mainstem.errors import InputError, MainstemError
from mainstem.gate.raw import Request
from mainstem.lang import Program
from mainstem.replay.footers import first_disorder, read_footers
from mainstem.replay.ranges import LogInput, check_order, fields_read, user_derives
from mainstem.replay.spool import BATCH_ROWS, SpoolWriter, log_input, spool_error, why_not_spooled
from mainstem.spark import blobs
from mainstem.spark.execute import blob_feed
from mainstem.spark.frames import project
from mainstem.spark.job import Job, Report, Task
from mainstem.spark.manifest import Manifest
from mainstem.spark.mvps_tasks import Common, Done, SpoolDone, SpoolWork, Work, spool_folder, stage_rejects
from mainstem.spark.preprocess import preprocess_rows
from mainstem.spark.sources import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RunJob = Callable[[str, Sequence[Work]], list[Done]]


class Inputs:
    """Opens the inputs of one replay. What was spooled is noted in its manifest, and used again when it goes on."""

    def __init__(self, spark: SparkSession, sources: Sequence[Source], common: Common, run: RunJob) -> None:
        self._spark, self._sources, self._common, self._run = spark, sources, common, run
        self._program = common.flow.program

    def open(self, manifest: Manifest) -> list[LogInput]:
        found: dict[int, LogInput] = {}
        spooled: list[Source] = []
        for source in self._sources:
            input = self._as_it_is(source)
            if input is None:
                spooled.append(source)
            else:
                found[source.index] = input
        for source in spooled:
            if str(source.index) not in manifest.spooled:
                self._check_types(source)
        missing = [source for source in spooled if str(source.index) not in manifest.spooled]
        self._note(manifest, self._spool_paths([source for source in missing if source.df is None]))
        self._note(manifest, [self._spool_frame(source) for source in missing if source.df is not None])
        for source in spooled:
            file = spool_folder(self._common) / manifest.spooled[str(source.index)]
            found[source.index] = log_input(file, source.path or "DataFrame", source.event)
        return [found[source.index] for source in self._sources]

    def _as_it_is(self, source: Source) -> LogInput | None:
        """None when the input has to be spooled."""
        groups = None if source.path is None else read_footers(source.path)
        if groups is None:
            return None
        input = LogInput(str(source.path), source.event, groups)
        if self._common.on_bad == "raise":
            check_order(source.index, input)
        return None if first_disorder(groups) is not None else input

    def _check_types(self, source: Source) -> None:
        why = why_not_spooled(self._program)
        if why and source.event is None:
            raise spool_error(source.index, source.path or "DataFrame", why)

    def _spool_paths(self, sources: Sequence[Source]) -> list[SpoolDone]:
        if not sources:
            return []
        works = [SpoolWork(source.index, source.event, str(source.path)) for source in sources]
        done = self._run("convert inputs to Parquet", works)
        return [one for one in done if isinstance(one, SpoolDone)]

    def _spool_frame(self, source: Source) -> SpoolDone:
        """One task merges what the partitions of the DataFrame have checked, as a plan with one state stage does."""
        common, program = self._common, self._program
        job = Job(_declared(program), BATCH_ROWS, common.on_bad, after_ts=common.after_ts)
        asked = replace(program, derives=tuple(user_derives(program)))
        rows = project(source, asked).mapInArrow(preprocess_rows(job, source.index, source.event), blobs.ROW_SCHEMA)
        in_order = rows.repartition(1).sortWithinPartitions(*blobs.ORDER)
        done = in_order.mapInArrow(_spool_blobs(job, common, source.index, source.event), Report.SCHEMA).collect()
        found = json.loads(done[0].report)
        if "error" in found:
            blobs.raise_error(found["error"].encode())
        return SpoolDone(source.index, found["file"], tuple(found["rejects_staged"]), found["rejected"])

    def _note(self, manifest: Manifest, done: Sequence[SpoolDone]) -> None:
        for one in done:
            manifest.spooled[str(one.input)] = one.file
            manifest.spool_totals.rejected += one.rejected
            manifest.spool_totals.rejects_staged += one.rejects_staged


@dataclass(frozen=True)
class _Declared(Program):
    """A program whose derive functions run later: what they see is read, and what they add is not."""

    reads: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def used_columns(self) -> dict[str, list[str]]:
        return {event: list(names) for event, names in self.reads}


def _declared(program: Program) -> Program:
    per_event = zip(program.events, fields_read(program), strict=True)
    reads = tuple((event.name, tuple(field.name for field in own)) for event, own in per_event)
    kept = {f.name: getattr(program, f.name) for f in fields(program)}
    return _Declared(**{**kept, "derives": (), "reads": reads})


def _spool_blobs(job: Job, common: Common, number: int, event: str | None) -> Task:
    def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            text = json.dumps(asdict(_spool_rows(job, common, number, event, rows)))
        except MainstemError as error:
            text = json.dumps({"error": blobs.pack_error(error).decode()})
        yield pa.record_batch([pa.array([text])], names=["report"])

    return task


def _spool_rows(job: Job, common: Common, number: int, event: str | None, rows: Iterator[pa.RecordBatch]) -> SpoolDone:
    program = common.flow.program
    request = Request(program.events, fields_read(program), BATCH_ROWS, event)
    writer = SpoolWriter(spool_folder(common), number, request)
    feed = blob_feed(job, rows)
    rejects = None
    if feed is not None:
        for ordered in feed.ordered:
            writer.write(ordered.batch)
        rejects = feed.all_rejects()
    staged = stage_rejects(common, f"spool-{number:04d}", rejects) if rejects is not None else ()
    return SpoolDone(number, writer.close().name, staged, 0 if rejects is None else rejects.num_rows)


def check_resumable(sources: Sequence[Source], asked: bool | None, folder: Path) -> None:
    """Nobody but the user knows whether a DataFrame is the same as before."""
    if asked is None and any(source.df is not None for source in sources):
        raise InputError(
            f"{folder} holds an interrupted replay of a DataFrame\n"
            "  pass resume=True when it has the same rows, to go on, or resume=False to start over"
        )
