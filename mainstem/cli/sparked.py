"""What the commands need of Spark: a quiet local session, and `replay`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import mainstem as ms
from mainstem.cli import view
from mainstem.cli.load import Loaded
from mainstem.cli.view import err, out
from mainstem.spark.session import local_session
from mainstem.state import digest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_LINES_SHOWN = 20


@contextmanager
def quiet_session(master: str = "local[*]") -> Iterator[SparkSession]:
    """A session whose JVM writes its log to a file; the end of that file is shown when the session's work fails."""
    with tempfile.TemporaryDirectory(prefix="mainstem-spark-") as scratch:
        log = Path(scratch) / "jvm.log"
        try:
            with out.status("starting Spark"):
                spark = local_session(master=master, log=log, options={"spark.local.dir": scratch})
            try:
                yield spark
            finally:
                spark.stop()
        except Exception:
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            for line in lines[-LOG_LINES_SHOWN:]:
                err.print(line, style="dim", markup=False, soft_wrap=True)
            raise


def replay_and_print(
    loaded: Loaded,
    events: list[str],
    *,
    state: Path | None,
    out_dir: Path | None,
    initial: Path | None,
    master: str,
    plan: str,
    show: int,
) -> None:
    """`mainstem replay`: runs the replay and prints outcomes, first rows and the state's digest."""
    with quiet_session(master) as spark:
        started = time.perf_counter()
        with out.status("replaying"):
            outputs = loaded.app.replay(
                spark,
                events if len(events) > 1 else events[0],
                state=state,
                initial=loaded.initial(initial),
                out=out_dir,
                plan=plan,
            )
            counts = outputs.groupBy("status", "reason").count().toArrow()
            first = outputs.orderBy("seq").limit(show).toArrow()
        seconds = time.perf_counter() - started
    view.print_outcomes(view.in_order([(r["status"], r["reason"], r["count"]) for r in counts.to_pylist()]))
    out.print(f"replayed in {seconds:.1f} s, Spark's start excluded")
    if state is not None:
        with ms.open(state) as db:
            found = digest({name: db.table(name) for name in db.tables})
        out.print(f"state digest {found}, kept in {state}", markup=False)
    if show:
        out.print(view.arrow_table(first, show))
