"""The exactly-once protocol of a live run. Spark hands out micro-batches at least once; the commit record decides.

    1  a batch that the store has committed already is not run again: its recorded outcome is emitted again
    2  else it runs; outputs and rejects are staged under hidden names
    3  one commit takes the changed rows, the batch id and the names of the staged files
    4  files get their final names, or the user's function gets the outputs
    5  the callback returns, and Spark notes the batch as done

Killed before 3, the batch leaves no trace and runs again. Killed after 3, a restart finds it in 1.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.errors import SparkError, StoreError
from mainstem.schema import INT64_MIN
from mainstem.spark.job import Job
from mainstem.store import QUERIES, Store, discard_staged
from mainstem.store.outputs import EMITTED_KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EMITTED = EMITTED_KEY
"""Key of a commit's meta: staged outputs for the user's function."""

_QUERY_ID = "sql.streaming.queryId"  # Spark's own name of the local property

Emit = Callable[[pa.Table, int], None]


def _query_of(df: DataFrame) -> str:
    """The id of the streaming query whose batch this is: the same after a restart from its checkpoint."""
    query = df.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    if query is None:
        raise SparkError("Spark does not tell the id of the query\n  unset PYSPARK_PIN_THREAD, which must not be false")
    return query


class Live(ABC):
    """One live run; calling it handles a micro-batch. Subclasses say how a new batch is executed and committed."""

    def __init__(self, job: Job, store: Store, out: str | Emit, progress: Callable[[int], None] | None) -> None:
        self.job, self.store, self.progress = job, store, progress
        self.emit = out if callable(out) else None
        # Outputs for a function stay here until the next batch, because a crash may come before the function returns.
        self.folder = Path(store.path) / EMITTED if callable(out) else Path(out)
        self.rejects = Path(store.path) / "rejects"
        self._busy = threading.Lock()
        self._ended = False
        store.publish_pending()
        self._discard()

    def __call__(self, df: DataFrame, batch: int) -> None:
        query = _query_of(df)
        with self._busy:
            if self._ended:
                raise SparkError(f"the live run on {self.store.path} has ended\n  start it again with app.stream")
            self._ended = True  # unless all goes well: after an error the memory may be ahead of the store
            if self._is_committed(query, batch):
                self._emit_again(query, batch)
            else:
                self._handle(df, query, batch)
            self._ended = False

    def _handle(self, df: DataFrame, query: str, batch: int) -> None:
        events = self.execute(df, {QUERIES: {**self.store.meta.get(QUERIES, {}), query: batch}})
        self._emit(batch)
        self._discard()
        if self.progress is not None:
            self.progress(events)

    @abstractmethod
    def execute(self, df: DataFrame, meta: dict[str, Any]) -> int:
        """Run a new batch and commit it with `meta`; the number of events that have run."""

    def close(self) -> None:
        """Release the store; waits for a batch that is being handled."""
        with self._busy:
            self._ended = True
            self.store.close()

    @property
    def seq(self) -> int:
        return int(self.store.meta.get("seq", 0))

    @property
    def after_ts(self) -> int:
        last = self.store.meta.get("ts")
        return INT64_MIN if last is None else int(last)

    def _is_committed(self, query: str, batch: int) -> bool:
        last = self.store.meta.get(QUERIES, {}).get(query)
        if last is None or batch == last + 1:
            return False
        if batch > last:
            raise StoreError(
                f"Spark goes on with batch {batch}, but the state in {self.store.path} ends with batch {last}\n"
                "  it is older than the checkpoint: restore both from the same moment, or start both anew"
            )
        return True

    def _emit_again(self, query: str, batch: int) -> None:
        """Files were published when the store was opened; only a function may have missed the last batch."""
        if self.store.meta.get(QUERIES, {}).get(query) == batch:
            self._emit(batch)

    def _emit(self, batch: int) -> None:
        if self.emit is None:
            return
        staged = self.store.meta.get(EMITTED, [])
        if staged:
            table = pa.concat_tables(pq.read_table(self.folder / name) for name in staged)
            self.emit(table.sort_by("seq") if len(staged) > 1 else table, batch)

    def _discard(self) -> None:
        """Remove hidden files that the last commit does not name."""
        discard_staged(self.rejects)
        if self.emit is None:
            discard_staged(self.folder)
            return
        kept = set(self.store.meta.get(EMITTED, []))
        for file in self.folder.glob(".*.staged"):
            if file.name not in kept:
                file.unlink(missing_ok=True)
