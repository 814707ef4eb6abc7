"""Live, keyed: shards in tasks. Files in the store are the truth; a worker's memory is a cache of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mainstem.spark import blobs
from mainstem.spark.execute import shard_to_files
from mainstem.spark.job import Job, Report
from mainstem.spark.live import EMITTED, Emit, Live
from mainstem.spark.preprocess import preprocess_rows
from mainstem.spark.target import arrange, begin, check_reports, pending_rejects, rejects_stem
from mainstem.store import Store, pending
from mainstem.store.carried import refuse_waiting
from mainstem.store.partitions import SHARDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Keyed(Live):
    def __init__(
        self, job: Job, path: str, out: str | Emit, initial: Any, progress: Callable[[int], None] | None,
        kept: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """`kept`: options of the store."""
        store = Store.open(path, job.program.tables, **kept)
        try:
            refuse_waiting(store.path, store.meta, "plan='keyed'")
            if store.epoch == 0:
                begin(job.program, store, initial or {}, job.shards)
            arrange(job.program, store, job.shards)
            super().__init__(replace(job, state=path), store, out, progress)
        except BaseException:
            store.close()
            raise

    def execute(self, df: DataFrame, meta: dict[str, Any]) -> int:
        job = replace(
            self.job, after_ts=self.after_ts, first_seq=self.seq, stem=f"part-{self.seq:020d}", out=str(self.folder),
            rejects=str(self.rejects), rejects_stem=rejects_stem(self.store), shard_files=self.store.shard_files,
        )  # fmt: skip
        packed = df.mapInArrow(preprocess_rows(job, 0, None), blobs.ROW_SCHEMA)
        placed = packed.repartitionById(job.shards, "shard").sortWithinPartitions(*blobs.ORDER)
        rows = placed.mapInArrow(shard_to_files(job), Report.SCHEMA).collect()
        reports = sorted((Report.from_text(row.report) for row in rows), key=lambda report: report.shard)
        check_reports(reports)
        return self._commit(reports, meta)

    def _commit(self, reports: list[Report], meta: dict[str, Any]) -> int:
        events = max((report.events for report in reports), default=0)
        times = [report.last_ts for report in reports if report.last_ts is not None]
        meta |= {"seq": self.seq + events, "ts": max(times, default=self.store.meta.get("ts")), SHARDS: self.job.shards}
        staged = [name for report in reports for name in report.staged]
        meta |= {EMITTED: staged} if self.emit else pending(self.folder, staged)
        meta |= pending_rejects(self.rejects, [name for report in reports for name in report.rejects_staged])
        self.store.commit({}, meta, [file for report in reports if (file := report.shard_file) is not None])
        self.store.publish_pending()
        return events
