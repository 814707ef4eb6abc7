"""A Spark session for the commands, whose noise goes to a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.cli.interrupts import interrupts_deferred
from mainstem.cli.view import err, out
from mainstem.errors import MainstemError
from mainstem.spark.session import local_session

if TYPE_CHECKING:
    from mainstem.spark.types import SparkSession

LOG_LINES_SHOWN = 20


@contextmanager
def quiet_session(master: str = "local[*]") -> Iterator[SparkSession]:
    """A session whose JVM writes its log to a file; the end of that file is shown when the session's work fails."""
    with tempfile.TemporaryDirectory(prefix="mainstem-spark-") as scratch:
        log = Path(scratch) / "jvm.log"
        try:
            with out.status("starting Spark"), interrupts_deferred():
                spark = local_session(master=master, log=log, options={"spark.local.dir": scratch})
            try:
                yield spark
            finally:
                spark.stop()
        except MainstemError:
            raise  # says itself what to do
        except Exception:
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            for line in lines[-LOG_LINES_SHOWN:]:
                err.print(line, style="dim", markup=False, soft_wrap=True)
            raise
