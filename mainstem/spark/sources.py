"""What `replay` reads: paths that tasks open themselves, and DataFrames.

A path (file, glob, directory) is one input, its files in order of their names: the same as for `app.run`. Parquet files
whose footers prove that their row groups follow each other in time are cut into splits, so that several tasks read one
input; any other path is read by one task, which then finds rows out of order like the embedded run does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mainstem.errors import InputError, SparkError
from mainstem.gate import inputs_of
from mainstem.gate.files import FileInput, files_of
from mainstem.gate.raw import Input, Raw, Request
from mainstem.replay.footers import RowGroup, Stretch, StretchInput, first_disorder, stretches_of
from mainstem.schema import EventSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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


def inputs_of_paths(sources: Sequence[Source]) -> list[Any] | dict[str, list[Any]]:
    """The paths, in the form that the gate takes."""
    if sources[0].event is None:
        return [source.path for source in sources]
    by_event: dict[str, list[Any]] = {}
    for source in sources:
        by_event.setdefault(str(source.event), []).append(source.path)
    return by_event


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
class Split:
    """What one task reads of one input: some stretches, or all of it when there are none."""

    source: int
    event: str | None
    path: str
    part: int = 0
    first_row: int = 0  # of the input
    stretches: tuple[Stretch, ...] = ()

    def open(self) -> Input:
        if self.stretches:
            return StretchInput(self.path, self.event, self.stretches, self.first_row)
        return FileInput(self.path, self.event)


def splits_of(source: Source, groups: Sequence[RowGroup] | None, count: int) -> list[Split]:
    """About `count` splits of equal rows; one when the footers do not prove the order."""
    assert source.path is not None
    if not groups or first_disorder(groups) is not None:
        return [Split(source.index, source.event, source.path)]
    splits: list[Split] = []
    chosen: list[RowGroup] = []
    total, first, done = sum(group.rows for group in groups), 0, 0
    for group in groups:
        chosen.append(group)
        done += group.rows
        if done * count >= total * (len(splits) + 1):
            splits.append(Split(source.index, source.event, source.path, len(splits), first, stretches_of(chosen)))
            chosen, first = [], done
    return splits


class NoInput(Input):
    """Stands for the inputs before the one that a task reads, so that it has its own number in errors and rejects."""

    what = "another task's input"

    def read(self, request: Request) -> Iterator[Raw]:
        return iter(())
