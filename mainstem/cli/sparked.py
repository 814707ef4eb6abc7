"""A Spark session for the commands, whose noise goes to a file."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from mainstem.cli.view import err, out
from mainstem.errors import MainstemError
from mainstem.spark.session import local_session

if TYPE_CHECKING:
    from mainstem.spark.types import SparkSession

LOG_LINES_SHOWN = 20


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Ctrl-C takes effect at the end of the block: a Spark that is interrupted while it starts leaves a JVM behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is note:  # else Spark has set its own, which cancels jobs
            signal.signal(signal.SIGINT, before)
    if noted:
        raise KeyboardInterrupt


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
