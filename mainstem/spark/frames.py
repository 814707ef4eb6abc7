"""DataFrames as inputs: the columns that a program needs of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from mainstem.gate import Rejects, batches
from mainstem.gate.columns import piece_of_batch
from mainstem.gate.raw import Input, Raw, RawBatch, Request
from mainstem.lang import Program
from mainstem.spark.sources import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def project(source: Source, program: Program) -> DataFrame:
    """The columns that the program reads. What is missing raises here, before a job runs."""
    from pyspark.sql.pandas.types import to_arrow_schema

    df = source.df
    assert df is not None
    request = _request(source, program)
    columns = to_arrow_schema(df.schema)
    empty = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in columns], schema=columns)
    piece_of_batch(RawBatch(empty), request, f"input {source.index} (DataFrame)")
    return df.select(*[name for name in df.columns if name in request.names])


class _Probe(Input):
    """Learns what the gate would ask of an input."""

    what = "DataFrame"
    request: Request | None = None

    def __init__(self, event: str | None) -> None:
        self.event = event

    def read(self, request: Request) -> Iterator[Raw]:
        self.request = request
        return iter(())


def _request(source: Source, program: Program) -> Request:
    probe = _Probe(source.event)
    stream = batches(
        [probe], program.inputs, batch_size=1, on_bad="raise", rejects=Rejects(),
        derives=program.derives, columns=program.used_columns,
    )  # fmt: skip
    for _ in stream:
        pass
    assert probe.request is not None
    return probe.request
