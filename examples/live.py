"""A live ledger on Spark Structured Streaming, with durable state that is queried while it runs.

python examples/live.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import mainstem as ms
from mainstem.apps import ledger


def main(folder: Path) -> None:
    spark = ms.configure(SparkSession.builder.master("local[2]"), local_checkpoints=True).getOrCreate()
    ledger.write_log(folder / "log", events=40_000, files=4)
    log = str(folder / "log")
    # One file per micro-batch, to see several. A socket, Kafka or any other source works the same way.
    events = spark.readStream.schema(spark.read.parquet(log).schema).option("maxFilesPerTrigger", 1).parquet(log)
    query = ledger.app.stream(
        spark,
        events,
        initial=ledger.initial(),
        state=folder / "state",
        checkpoint=folder / "checkpoint",
        out=folder / "out",
    )
    query.processAllAvailable()
    with ms.open(folder / "state") as db:  # any other process could do this
        print("committed batches:", db.epoch)
        print(db.sql("select key, balance from Account order by balance desc limit 3").to_pylist())
    query.stop()
    spark.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
