"""Spark sessions in processes of their own, so that sessions on one core and on several can take turns.

A process has one session and may use as many cores as it has task slots: JVM, driver and workers together. The parent
writes one line of JSON per replay to its standard input and reads one with the answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal

from mainstem.apps import spam
from mainstem.bench import spam_plain
from mainstem.bench.memory import PeakMemory
from mainstem.bench.spam_answers import Answer, answer, fresh, open_log, timed
from mainstem.errors import MainstemError
from mainstem.replay.hot import VARIABLE as SPLIT_VARIABLE
from mainstem.replay.hot import Balance
from mainstem.variants import variants as variants_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mainstem.spark.replay import ReplayInfo

HEAP_GB_MAX = 8  # what the alternatives of spam_plain need for windows over 10 million events
STOP_SECONDS_MAX = 60
VARIANT_STEP = 0.05  # of the share that makes an address suspect, from one version of the rule to the next
_LINES_SHOWN = 15  # of what a process that failed has printed


def heap_gb() -> int:
    """For sessions that run the alternatives: half of the machine's memory, within bounds."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(HEAP_GB_MAX, memory // (2 << 30)))


class SparkProcess:
    """`with SparkProcess(2, scratch) as spark: spark.replay("mvps", log, out, scan=True)`."""

    def __init__(self, cores: int, scratch: Path, *, heap: int = 1) -> None:
        self.cores = cores
        # Of the last replay: memory in bytes by role, if it was watched; its tables; how evenly tasks were filled.
        self.peak: dict[str, int] = {}
        self.state_bytes = 0
        self.balance: list[Balance] = []
        self.hot_keys: list[str] = []
        folder = Path(tempfile.mkdtemp(prefix=f"spark-{cores}-", dir=scratch))
        self._printed = folder / "printed.log"
        task = json.dumps({"cores": cores, "heap": heap, "folder": str(folder)})
        with open(self._printed, "wb") as printed:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mainstem.bench.replay_spark", task],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=printed, text=True,
            )  # fmt: skip

    def __enter__(self) -> SparkProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def replay(self, call: str, log: Path, out: Path, *, watch: bool = False, **options: Any) -> Answer:
        """Runs one of `CALLS` from `log` into `out`. With `watch`, `peak` has the memory it took afterwards."""
        task = {"call": call, "log": str(log), "out": str(out), "watch": watch, "options": options}
        reply = self._asked(json.dumps(task))
        if not reply:
            code = self._process.wait()
            last = "\n".join(self._printed.read_text(errors="replace").splitlines()[-_LINES_SHOWN:])
            raise MainstemError(f"{call} of {log} on {self.cores} cores failed (exit code {code}):\n{last}")
        found = json.loads(reply)
        self.peak, self.state_bytes = found.get("peak", {}), found.get("state_bytes", 0)
        self.balance = [Balance(**one) for one in found.get("balance", ())]
        self.hot_keys = found.get("hot_keys", [])
        return Answer(**found["answer"])

    def _asked(self, task: str) -> str:
        """The line of the answer; empty when the process has ended."""
        try:
            _pipe(self._process.stdin).write(task + "\n")
            _pipe(self._process.stdin).flush()
        except BrokenPipeError:
            return ""
        return _pipe(self._process.stdout).readline()

    def close(self) -> None:
        """The end of its input ends the process, and Spark with it."""
        try:
            self._process.communicate(timeout=STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


# --- in the process -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replayed:
    seconds: float
    info: ReplayInfo | None = None


def mvps(
    spark: SparkSession, log: Path, out: Path, *, scan: bool = True, epoch_rows: int | None = None,
    partitions: int | None = None, split: bool = True,
) -> Replayed:  # fmt: skip
    """The staged plan, a shard per core unless told; `split`: hot keys."""
    asked = {"epoch_rows": epoch_rows, "partitions": partitions}
    os.environ[SPLIT_VARIABLE] = str(int(split))
    return _mainstem(spark, log, out, "mvps", scan, {name: n for name, n in asked.items() if n is not None})


def fused(spark: SparkSession, log: Path, out: Path, *, scan: bool = True) -> Replayed:
    """All in one task."""
    return _mainstem(spark, log, out, "fused", scan, {})


def auto(spark: SparkSession, log: Path, out: Path, *, scan: bool = True) -> Replayed:
    """With the plan that Mainstem chooses."""
    return _mainstem(spark, log, out, "auto", scan, {})


def _mainstem(
    spark: SparkSession, log: Path, out: Path, plan: Literal["auto", "mvps", "fused"], scan: bool,
    options: Mapping[str, Any],
) -> Replayed:  # fmt: skip
    from mainstem.spark.replay import replay_info

    fresh(out)
    app = spam.app if scan else spam.app_without_scan
    with timed() as watch:
        outputs = app.replay(spark, str(log), out=out, plan=plan, progress=None, **options)
    return Replayed(watch.seconds, replay_info(outputs))


def variants(spark: SparkSession, log: Path, out: Path, *, number: int) -> Replayed:
    """So many versions of the rule at once. What the app's own rule, which is the first, says is left in `out`."""
    fresh(out)
    shares = [spam.SPAM_SHARE + VARIANT_STEP * n for n in range(number)]
    versions = variants_of(spam.app, SPAM_SHARE=shares)
    with timed() as watch:
        spam.app.replay(spark, str(log), out=out, variants=versions, progress=None)
    for path in out.glob("v*.parquet"):
        if not path.name.startswith("v00-"):
            path.unlink()
    return Replayed(watch.seconds)


MAINSTEM: dict[str, Callable[..., Replayed]] = {"auto": auto, "mvps": mvps, "fused": fused, "variants": variants}
ALTERNATIVES: dict[str, Callable[..., Answer]] = {
    "single_batch": spam_plain.single_batch,
    "sql_windows": spam_plain.sql_windows,
    "micro_batches": spam_plain.micro_batches,
}


def run(spark: SparkSession, task: Mapping[str, Any]) -> dict[str, Any]:
    call, log, out = task["call"], Path(task["log"]), Path(task["out"])
    if call in ALTERNATIVES:
        return {"answer": asdict(ALTERNATIVES[call](spark, log, out, **task["options"]))}
    with PeakMemory() if task["watch"] else nullcontext() as peak:
        done = MAINSTEM[call](spark, log, out, **task["options"])
    # Read back when nobody watches: that memory is not the replay's.
    found = answer(call, done.seconds, open_log(log).events, out)
    if done.info is None:
        return {"answer": asdict(found)}
    return {
        "answer": asdict(found),
        "peak": {} if peak is None else peak.bytes,
        "state_bytes": done.info.state_bytes,
        "balance": [asdict(one) for one in done.info.balance],
        "hot_keys": [str(hot) for hot in done.info.hot_keys],
    }


def serve(cores: int, heap: int, folder: Path) -> None:
    """Answers one task after the other, until there are no more."""
    from mainstem.spark.session import local_session

    # Spark prints to standard output, too; answers go through a copy that nobody else has.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    options = {
        "spark.driver.memory": f"{heap}g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    session = local_session(cores, options=options, name="mainstem-bench")
    try:
        for line in sys.stdin:
            print(json.dumps(run(session, json.loads(line))), file=answers, flush=True)
    finally:
        session.stop()


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    serve(asked["cores"], asked["heap"], Path(asked["folder"]))
