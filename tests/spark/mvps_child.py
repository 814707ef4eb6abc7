"""Staged replays in a process of their own, whose tasks kill the driver, a worker or an executor.

python mvps_child.py driver <folder> <kind>:<count>     the driver dies in the count-th task of that kind
python mvps_child.py cluster <folder> <kind>,<kind>+…   a worker dies in the first task of each kind; with + an executor
                                                        dies, too, in the third one

A kind is range, wave1, wave2, wave3 or home; for the driver also commit, between two epochs.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from mvps_support import mail, mail_log
from pyspark import cloudpickle
from spark_support import assert_run, expected, write_files

from mainstem.spark import local_session, mvps, mvps_tasks
from mainstem.spark.mvps_tasks import Done, HomeWork, RangeWork, WaveWork, Work, perform

cloudpickle.register_pickle_by_value(sys.modules["__main__"])

OPTIONS = {"plan": "mvps", "partitions": 2, "range_rows": 120, "epoch_rows": 300, "jit": False}


def kind_of(work: Work) -> str:
    if isinstance(work, WaveWork):
        return f"wave{work.task.wave}"
    return {RangeWork: "range", HomeWork: "home"}.get(type(work), "other")


class Killing:
    """In place of `perform`: tasks do their work, and some then kill a process before they report it."""

    def __init__(self, marks: Path, victims: dict[str, dict[int, Any]]) -> None:
        self.marks, self.victims = marks, victims  # kind -> count -> who dies

    def __call__(self, shared: Any, works: Iterable[Work]) -> Iterator[Done]:
        for work in works:
            done = list(perform(shared, [work]))
            self.reach(kind_of(work))
            yield from done

    def reach(self, kind: str) -> None:
        victim = self.victims.get(kind, {}).get(self._count(kind))
        if victim is not None:
            os.kill(_process(victim), signal.SIGKILL)

    def _count(self, kind: str) -> int:
        """How many tasks of the kind have come here, over all processes."""
        count = 1
        while True:
            try:
                (self.marks / f"{kind}-{count}").touch(exist_ok=False)
                return count
            except FileExistsError:
                count += 1


def _process(victim: Any) -> int:
    """This process is the worker; its parent is the daemon that forked it, whose parent is the executor (a JVM)."""
    if victim == "worker":
        return os.getpid()
    if victim == "executor":
        return int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
    return int(victim)


def driver(folder: Path, step: str) -> None:
    kind, _, count = step.partition(":")
    marks = folder / f"marks-{kind}-{count}"
    marks.mkdir()
    killing = Killing(marks, {kind: {int(count): os.getpid()}})
    mvps_tasks.perform = killing  # type: ignore[assignment]
    save = mvps.Driver._commit

    def commit(self: mvps.Driver, number: int) -> None:
        save(self, number)
        killing.reach("commit")

    mvps.Driver._commit = commit  # type: ignore[method-assign]
    spark = local_session(2)
    mail.replay(spark, folder / "log", state=folder / "state", **OPTIONS)
    spark.stop()


def cluster(folder: Path, kinds: list[str]) -> None:
    table = mail_log()
    path = write_files(folder / "log", table, files=2, row_group=130)
    (folder / "marks").mkdir()
    spark = local_session(master="local-cluster[2,1,1024]", options={"spark.task.maxFailures": "8"})
    victims: dict[str, dict[int, Any]] = {
        kind.rstrip("+"): {1: "worker", **({3: "executor"} if kind.endswith("+") else {})} for kind in kinds
    }
    mvps_tasks.perform = Killing(folder / "marks", victims)  # type: ignore[assignment]
    df = mail.replay(spark, path, state=folder / "state", **OPTIONS)
    assert_run(expected(mail, table), mail, df, folder / "state")
    for kind in victims:
        assert (folder / "marks" / f"{kind}-4").exists(), kind
    assert not list((folder / "state" / "outputs").glob(".*"))
    print("same")
    spark.stop()


if __name__ == "__main__":
    if sys.argv[1] == "driver":
        driver(Path(sys.argv[2]), sys.argv[3])
    else:
        cluster(Path(sys.argv[2]), sys.argv[3].split(","))
