"""Runs in a process of its own: a driver that a test kills, or a cluster whose executors a test kills.

python spark_child.py stream <plan> <folder>     handle all files of <folder>/log, then end
python spark_child.py inputs <folder>            handle all files of <folder>/in0, <folder>/in1, …, then end
python spark_child.py cluster <folder>           replays on two executor processes that are killed on the way
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext, cloudpickle

import mainstem as ms
from mainstem.spark import local_session, replay_info
from mainstem.testing import Outcome, assert_same

cloudpickle.register_pickle_by_value(sys.modules["__main__"])


def stream(plan: str, folder: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    from spark_support import bank, meters

    app = meters if plan == "keyed" else bank
    spark = local_session(2)
    schema = spark.read.parquet(str(folder / "log")).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "log"))
    query = app.stream(
        spark, source, state=folder / "state", checkpoint=folder / "checkpoint", plan=plan, partitions=2,
        trigger={"availableNow": True}, jit=False,
    )  # fmt: skip
    query.awaitTermination()
    spark.stop()


def inputs(folder: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    from inputs_support import live_files

    spark = local_session(2)
    live_files(spark, folder)
    spark.stop()


MARKS = Path(os.environ.get("MAINSTEM_TEST_MARKS", "."))
"""Where a task notes that it has been killed once."""

sums = ms.App("sums")


@sums.event
class Add:
    key: int
    amount: int


@sums.table(key=int)
class Sum:
    value: int = 0


@sums.derive(Add, doubled=int)
def double(batch):
    """Some batches kill the process that works on them, or its executor, the first time they are seen."""
    first = batch["ts"][0].as_py()
    for victim, at in (("worker", 900), ("executor", 1500)):
        if TaskContext.get() is not None and first <= at <= batch["ts"][-1].as_py() and _first_time(victim):
            _kill(victim)
    return {"doubled": pc.multiply(batch["amount"], 2)}


@sums.on(Add)
def add(e):
    total = Sum[e.key]
    total.value = total.value * 3 % 1_000_003 + e.doubled
    return {"value": total.value}


def _first_time(victim: str) -> bool:
    try:
        (MARKS / victim).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _kill(victim: str) -> None:
    """This process is the worker; its parent is the daemon that forked it, whose parent is the executor (a JVM)."""
    daemon = os.getppid()
    jvm = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(os.getpid() if victim == "worker" else jvm, signal.SIGKILL)


def cluster(folder: Path) -> None:
    rows = 2000
    table = pa.table(
        {"ts": range(rows), "key": [i * 7 % 23 for i in range(rows)], "amount": [i % 97 for i in range(rows)]}
    )
    (folder / "log").mkdir()
    for i in range(4):
        pq.write_table(table.slice(i * 500, 500), folder / "log" / f"{i}.parquet", row_group_size=100)
    wanted = sums.run(table, engine="oracle")
    state = dict(sums.state)
    spark = local_session(master="local-cluster[2,1,1024]", options={"spark.task.maxFailures": "8"})
    for plan in ("fused", "one_stage", "keyed"):
        for victim in ("worker", "executor"):
            (MARKS / victim).unlink(missing_ok=True)
        df = sums.replay(spark, folder / "log", plan=plan, partitions=2, batch=100, state=folder / plan, jit=False)
        assert (MARKS / "worker").exists()
        assert (MARKS / "executor").exists()
        with ms.open(folder / plan) as database:
            stored = {"Sum": database.table("Sum")}
        assert_same(Outcome(wanted.outputs, state), Outcome(df.orderBy("seq").toArrow(), stored))
        hidden = [file.name for file in (folder / plan / "outputs").iterdir() if file.name.startswith(".")]
        assert not [name for name in hidden if name.endswith(".staged")], hidden
        print("same:", plan, replay_info(df).events)
    spark.stop()


if __name__ == "__main__":
    MARKS = Path(sys.argv[-1])
    if sys.argv[1] == "stream":
        stream(sys.argv[2], Path(sys.argv[3]))
    elif sys.argv[1] == "inputs":
        inputs(Path(sys.argv[2]))
    else:
        cluster(Path(sys.argv[2]))
