"""What the footers of Parquet files say about time, and reading some of their row groups.

A path (file, glob, directory) is one input, its files in order of their names: the same as for `app.run`. Footers with
the smallest and largest `ts` of every row group tell where to cut an input, so that several tasks read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.errors import InputError
from mainstem.gate.cast import to_ts
from mainstem.gate.files import files_of
from mainstem.gate.prefetch import prefetched
from mainstem.gate.raw import Input, Place, Raw, RawBatch, Request

_FOOTER_THREADS = 8


@dataclass(frozen=True)
class RowGroup:
    """One row group of one Parquet file."""

    file: str
    number: int  # in the file
    first_row: int  # of the file
    rows: int
    low: int  # smallest and largest ts
    high: int


@dataclass(frozen=True)
class Stretch:
    """Neighbouring row groups of one file, without the first `skip` rows; `rows` of them."""

    file: str
    first_row: int  # of the file, where the row groups begin
    row_groups: tuple[int, ...]
    skip: int
    rows: int


def stretches_of(groups: Sequence[RowGroup]) -> tuple[Stretch, ...]:
    """Consecutive row groups as one stretch per file."""
    found = []
    for file, of_file in groupby(groups, key=lambda group: group.file):
        own = list(of_file)
        numbers = tuple(group.number for group in own)
        found.append(Stretch(file, own[0].first_row, numbers, 0, sum(group.rows for group in own)))
    return tuple(found)


def read_footers(path: str) -> tuple[RowGroup, ...] | None:
    """The row groups of an input that have rows; None when a file is no Parquet or keeps no statistics of `ts`."""
    files = files_of(path)
    if any(file.suffix.lower() != ".parquet" for file in files):
        return None
    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        by_file = list(pool.map(_row_groups, files))
    if any(groups is None for groups in by_file):
        return None
    return tuple(group for groups in by_file for group in groups or ())


def first_disorder(groups: Sequence[RowGroup]) -> tuple[RowGroup, RowGroup] | None:
    """The first row group that begins before the end of the one before it, after that one; None when all is well."""
    return next(((before, after) for before, after in pairwise(groups) if after.low < before.high), None)


def _row_groups(file: Path) -> list[RowGroup] | None:
    metadata = _metadata(file)
    column = next((i for i in range(metadata.num_columns) if metadata.schema.column(i).path == "ts"), None)
    type = None if column is None else metadata.schema.to_arrow_schema().field("ts").type
    found, row = [], 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows:
            times = None if column is None else _times(group.column(column).statistics, type)
            if times is None:
                return None
            found.append(RowGroup(str(file), number, row, group.num_rows, *times))
        row += group.num_rows
    return found


def _times(statistics: Any, type: pa.DataType) -> tuple[int, int] | None:
    """Smallest and largest ts as the gate reads them; None when the footer does not tell them exactly."""
    if statistics is None or not statistics.has_min_max:
        return None
    if pa.types.is_integer(type):
        values = [statistics.min, statistics.max]
        times = pa.array(values, type)
    elif pa.types.is_timestamp(type) or pa.types.is_date32(type):
        times = pa.array([statistics.min_raw, statistics.max_raw], pa.int64())
        times = (times.cast(pa.int32()) if pa.types.is_date32(type) else times).view(type)
    else:
        return None
    cast = to_ts(times, "typed")
    return None if len(cast.bad) else (cast.array[0].as_py(), cast.array[1].as_py())


def _metadata(file: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(file)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{file} can't be read as .parquet: {error}\n  repair or replace the file, or leave it out"
        ) from error


class StretchInput(Input):
    """Some rows of an input, from `first_row` on; errors name the file and the row in it."""

    def __init__(self, what: str, event: str | None, stretches: Sequence[Stretch], first_row: int) -> None:
        self.what, self.event, self.stretches, self.first_row = what, event, stretches, first_row

    def read(self, request: Request) -> Iterator[Raw]:
        return prefetched(read_stretches(self.stretches, request))


def read_stretches(stretches: Sequence[Stretch], request: Request) -> Iterator[Raw]:
    for stretch in stretches:
        row = stretch.first_row + stretch.skip
        try:
            for raw in _read_stretch(stretch, request):
                yield replace(raw, place=Place(stretch.file, row))
                row += len(raw)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{stretch.file} can't be read, after row {row}: {error}\n  repair or replace the file, or leave it out"
            ) from error


def _read_stretch(stretch: Stretch, request: Request) -> Iterator[RawBatch]:
    metadata = pq.read_metadata(stretch.file)
    there = metadata.schema.to_arrow_schema().names
    names = [name for name in request.names if name in there]
    # Names of event types repeat: as a dictionary they cost a look-up each, not a string comparison.
    encoded = ["event"] if request.by_column and "event" in there else None
    skip, left = stretch.skip, stretch.rows
    with pq.ParquetFile(stretch.file, metadata=metadata, read_dictionary=encoded) as file:
        for batch in file.iter_batches(request.batch_size, row_groups=list(stretch.row_groups), columns=names):
            taken = batch.slice(min(skip, batch.num_rows), left)
            skip, left = max(skip - batch.num_rows, 0), left - taken.num_rows
            if taken.num_rows:
                yield RawBatch(taken, all_names=there)
            if not left:
                return
