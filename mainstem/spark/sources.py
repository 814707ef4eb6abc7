"""What `replay` reads: paths that tasks open themselves, and DataFrames.

A path (file, glob, directory) is one input, its files in order of their names: the same as for `app.run`. Parquet files
whose footers prove that their row groups follow each other in time are cut into splits, so that several tasks read one
input; any other path is read by one task, which then finds rows out of order like the embedded run does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.errors import InputError, SparkError
from mainstem.gate import inputs_of
from mainstem.gate.files import FileInput, files_of
from mainstem.gate.prefetch import prefetched
from mainstem.gate.raw import Input, Place, Raw, RawBatch, Request
from mainstem.schema import EventSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FOOTER_THREADS = 8

_FORMS = "give a path, a DataFrame, a list of these, or a dict {EventType: input}"


@dataclass(frozen=True)
class Source:
    """One input: exactly one of `path` and `df` is set. `event` names its type when the user gave a dict."""

    index: int
    event: str | None
    path: str | None = None
    df: DataFrame | None = None


def sources_of(given: Any, events: Sequence[EventSchema], *, streaming: bool) -> list[Source]:
    """The inputs in their order, which decides ties of `ts`."""
    if isinstance(given, Mapping):
        named = [(_event_of(key, events), item) for key, value in given.items() for item in _items(value)]
    else:
        named = [(None, item) for item in _items(given)]
    if not named:
        raise InputError(f"there is no input\n  {_FORMS}")
    return [_source(index, event, item, streaming) for index, (event, item) in enumerate(named)]


def _event_of(key: Any, events: Sequence[EventSchema]) -> str | None:
    """The gate knows what may be the key of a dict of inputs, and says so when it is something else."""
    return inputs_of({key: pa.table({"ts": pa.array([], pa.int64())})}, events)[0].event


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _source(index: int, event: str | None, item: Any, streaming: bool) -> Source:
    from pyspark.sql import DataFrame

    if isinstance(item, DataFrame):
        return Source(index, event, df=_checked(item, streaming))
    if isinstance(item, (str, os.PathLike)) and not streaming:
        path = local_path(item, f"input {index}")
        files_of(path)  # an error when there are none
        return Source(index, event, path=path)
    if streaming:
        raise InputError(f"input {index} is {type(item).__name__}\n  give a streaming DataFrame (spark.readStream…)")
    remedy = (
        "app.run takes it, or spark.createDataFrame(table)" if isinstance(item, (pa.Table, pa.RecordBatch)) else _FORMS
    )
    raise InputError(f"input {index} is {type(item).__name__}, which Spark can't replay\n  {remedy}")


def _checked(df: DataFrame, streaming: bool) -> DataFrame:
    if type(df).__module__.startswith("pyspark.sql.connect"):
        raise SparkError(CLASSIC_ONLY)
    if df.isStreaming and not streaming:
        raise InputError("the DataFrame is a stream\n  use app.stream, or read the stored log with spark.read")
    if streaming and not df.isStreaming:
        raise InputError("the DataFrame is not a stream\n  use app.replay, or read it with spark.readStream")
    return df


CLASSIC_ONLY = (
    "this is a Spark Connect session; Mainstem works with Spark Classic only, because its driver holds the state\n"
    "  start the session without .remote(…), e.g. with mainstem.spark.local_session() or spark-submit"
)


def local_path(path: str | os.PathLike[str], what: str) -> str:
    """An absolute path: tasks have working directories of their own. URLs of other file systems are refused."""
    text = os.fspath(path)
    text = text.removeprefix("file://") if text.startswith("file:///") else text.removeprefix("file:")
    if "://" in text:
        raise InputError(
            f"{what} is {text}, which tasks can't open as a file\n"
            "  mount it, or read it with spark.read and pass the DataFrame"
        )
    return os.path.abspath(text)


@dataclass(frozen=True)
class Stretch:
    """Neighbouring row groups of one Parquet file."""

    file: str
    first_row: int
    row_groups: tuple[int, ...]


@dataclass(frozen=True)
class Split:
    """What one task reads of one input: some stretches, or all of it when there are none."""

    source: int
    event: str | None
    path: str
    part: int = 0
    first_row: int = 0  # of the input
    stretches: tuple[Stretch, ...] = ()

    def open(self) -> Input:
        return SplitInput(self) if self.stretches else FileInput(self.path, self.event)


@dataclass(frozen=True)
class Footers:
    """What the Parquet footers of an input say."""

    rows: list[int]  # per stretch
    stretches: list[Stretch]  # one per row group, in order
    in_order: bool  # no row group begins before the end of the one before it

    @property
    def total(self) -> int:
        return sum(self.rows)


def read_footers(path: str) -> Footers | None:
    """None when some file is no Parquet or keeps no statistics of `ts`."""
    files = files_of(path)
    if any(file.suffix.lower() != ".parquet" for file in files):
        return None
    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        groups = [group for of_file in pool.map(_row_groups, files) for group in of_file]
    if any(low is None for _, _, low, _ in groups):
        return None
    ranges = [(low, high) for _, rows, low, high in groups if rows]
    in_order = all(before[1] <= after[0] for before, after in pairwise(ranges))
    return Footers([rows for _, rows, _, _ in groups], [stretch for stretch, _, _, _ in groups], in_order)


def _row_groups(file: Path) -> list[tuple[Stretch, int, Any, Any]]:
    """(stretch, rows, smallest ts, largest ts) per row group; no times when the footer has none."""
    try:
        metadata = pq.read_metadata(file)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{file} can't be read as .parquet: {error}\n  repair or replace the file, or leave it out"
        ) from error
    column = next((i for i in range(metadata.num_columns) if metadata.schema.column(i).path == "ts"), None)
    found, row = [], 0
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        statistics = None if column is None else group.column(column).statistics
        known = statistics is not None and statistics.has_min_max
        times = (statistics.min, statistics.max) if statistics is not None and known else (None, None)
        found.append((Stretch(str(file), row, (i,)), group.num_rows, *times))
        row += group.num_rows
    return found


def splits_of(source: Source, footers: Footers | None, count: int) -> list[Split]:
    """About `count` splits of equal rows; one when the footers do not prove the order."""
    assert source.path is not None
    if footers is None or not footers.in_order:
        return [Split(source.index, source.event, source.path)]
    splits: list[Split] = []
    chosen: list[Stretch] = []
    first = done = 0
    for stretch, rows in zip(footers.stretches, footers.rows, strict=True):
        chosen.append(stretch)
        done += rows
        if done * count >= footers.total * (len(splits) + 1):
            splits.append(Split(source.index, source.event, source.path, len(splits), first, _joined(chosen)))
            chosen, first = [], done
    return splits


def _joined(stretches: list[Stretch]) -> tuple[Stretch, ...]:
    """Neighbouring row groups of one file become one stretch."""
    joined: list[Stretch] = []
    for stretch in stretches:
        if joined and joined[-1].file == stretch.file:
            joined[-1] = replace(joined[-1], row_groups=joined[-1].row_groups + stretch.row_groups)
        else:
            joined.append(stretch)
    return tuple(joined)


class SplitInput(Input):
    """A split as an input of the gate; errors name the file and the row in it."""

    def __init__(self, split: Split) -> None:
        self.split, self.what, self.event = split, split.path, split.event

    def read(self, request: Request) -> Iterator[Raw]:
        return prefetched(self._read(request))

    def _read(self, request: Request) -> Iterator[Raw]:
        for stretch in self.split.stretches:
            row = stretch.first_row
            try:
                for raw in _read_stretch(stretch, request):
                    yield replace(raw, place=Place(stretch.file, row))
                    row += len(raw)
            except (pa.ArrowException, OSError) as error:
                raise InputError(
                    f"{stretch.file} can't be read, after row {row}: {error}\n"
                    "  repair or replace the file, or leave it out"
                ) from error


def _read_stretch(stretch: Stretch, request: Request) -> Iterator[Raw]:
    metadata = pq.read_metadata(stretch.file)
    there = metadata.schema.to_arrow_schema().names
    names = [name for name in request.names if name in there]
    # Names of event types repeat: as a dictionary they cost a look-up each, not a string comparison.
    encoded = ["event"] if request.by_column and "event" in there else None
    with pq.ParquetFile(stretch.file, metadata=metadata, read_dictionary=encoded) as file:
        for batch in file.iter_batches(request.batch_size, row_groups=list(stretch.row_groups), columns=names):
            yield RawBatch(batch, all_names=there)


class NoInput(Input):
    """Stands for the inputs before the one that a task reads, so that it has its own number in errors and rejects."""

    what = "another task's input"

    def read(self, request: Request) -> Iterator[Raw]:
        return iter(())
