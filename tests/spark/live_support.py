"""Live runs over folders of files, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from spark_support import write_files

import mainstem as ms
from mainstem.app import App

NOW = {"availableNow": True}


class Live:
    """A live run over a folder of files, one after the other; `go` handles all that is there, then ends."""

    def __init__(
        self, spark: SparkSession, folder: Path, app: App, table: pa.Table, files: int = 6, per_batch: int = 1,
        *, ties: bool = False,
    ) -> None:  # fmt: skip
        self.spark, self.folder, self.app, self.table, self.per_batch = spark, folder, app, table, per_batch
        self.state, self.checkpoint = folder / "state", folder / "checkpoint"
        write_files(folder / "log", table, files, ties=ties)

    def source(self) -> DataFrame:
        schema = self.spark.read.parquet(str(self.folder / "log")).schema
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", self.per_batch)
        return reader.parquet(str(self.folder / "log"))

    def go(self, **options: Any) -> None:
        options = {"state": self.state, "checkpoint": self.checkpoint, "trigger": NOW, "jit": False, **options}
        self.app.stream(self.spark, self.source(), **options).awaitTermination()

    def outputs(self) -> DataFrame:
        return self.spark.read.parquet(str(self.state / "outputs"))

    def epoch(self) -> int:
        with ms.open(self.state) as database:
            return database.epoch

    def forget_last_commit(self) -> int:
        """As if Spark died after our commit and before its own: it hands out the same batch again."""
        last = max(int(file.name) for file in (self.checkpoint / "commits").iterdir() if file.name.isdecimal())
        (self.checkpoint / "commits" / str(last)).unlink()
        (self.checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
        return last
