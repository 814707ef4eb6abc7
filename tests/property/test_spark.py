"""Generated programs on Spark: replay on 1, 2, 4 partitions and live in several micro-batches, against the oracle."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mainstem as ms
from mainstem.testing import Case, Outcome, assert_same, generate_case

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL = {"events": (1, 2), "statements": (2, 5), "tables": (1, 3)}
# (seed, knobs): some touch several keys per event (one state stage), some only one (the keyed plan).
PROGRAMS: list[tuple[str, dict[str, Any]]] = [
    *((f"spark {i}", SMALL) for i in range(4)),
    *((f"spark keyed {i}", {**SMALL, "keyed": True}) for i in range(3)),
]
EVENTS, FILES = 120, 6


@pytest.fixture(params=PROGRAMS, ids=lambda p: p[0])
def case(request: pytest.FixtureRequest) -> Case:
    seed, knobs = request.param
    return generate_case(seed, n=EVENTS, **knobs)


def cut(table: pa.Table, parts: int) -> Iterator[pa.Table]:
    """Pieces that split no timestamp: inside a micro-batch the order of files with equal times is Spark's."""
    ts = table["ts"].to_pylist()
    starts = [i for i in range(table.num_rows) if i == 0 or ts[i] != ts[i - 1]]
    chosen = sorted({starts[len(starts) * p // parts] for p in range(parts)}) if starts else [0]
    for start, end in zip(chosen, [*chosen[1:], table.num_rows], strict=True):
        yield table.slice(start, end - start)


def write(table: pa.Table, folder: Path, parts: int) -> Path:
    """The table as files in order; times of modification rise, because a live source goes by them."""
    folder.mkdir(parents=True)
    for i, piece in enumerate(cut(table, parts)):
        path = folder / f"part-{i:03d}.parquet"
        pq.write_table(piece, path)
        os.utime(path, (1_000_000 + i, 1_000_000 + i))
    return folder


def outputs(df: DataFrame) -> pa.Table:
    return df.toArrow().sort_by([("seq", "ascending"), *by_function(df.columns)])


def by_function(columns: list[str]) -> list[tuple[str, str]]:
    return [("function", "ascending")] if "function" in columns else []


def in_order(outcome: Outcome) -> Outcome:
    """Spark promises no order of rows with equal `seq` (several functions of one event), so both sides are sorted."""
    table = outcome.outputs
    plain = pa.schema(
        [f.with_type(f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in table.schema]
    )
    return Outcome(table.cast(plain).sort_by([("seq", "ascending"), *by_function(table.column_names)]), outcome.state)


def stored(folder: Path, expected: Outcome) -> dict[str, pa.Table]:
    with ms.open(folder) as database:
        return {name: database.table(name) for name in expected.state}


def parallel_plan(case: Case) -> str:
    return "keyed" if case.module.app.program.keyed else "one_stage"


def test_both_plans_are_used() -> None:
    plans = [parallel_plan(generate_case(seed, **knobs)) for seed, knobs in PROGRAMS]
    assert plans.count("keyed") >= 2
    assert plans.count("one_stage") >= 2


@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_replay(case: Case, spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    expected = in_order(case.run(engine="oracle"))
    folders = [write(t, tmp_path / f"input{i}", FILES) for i, t in enumerate(case.stream.tables())]
    df = case.module.app.replay(
        spark,
        [str(f) for f in folders],
        state=str(tmp_path / "state"),
        plan="auto" if partitions == 1 else parallel_plan(case),
        partitions=partitions,
        jit=False,
        batch=50,
    )
    assert_same(expected, Outcome(outputs(df), stored(tmp_path / "state", expected)), context=case.describe())


@pytest.mark.parametrize("files_per_batch", [1, 4])
def test_live(case: Case, spark: SparkSession, tmp_path: Path, files_per_batch: int) -> None:
    merged = one_input(case)
    expected = in_order(merged.run(engine="oracle"))
    (table,) = merged.stream.tables()
    folder = str(write(table, tmp_path / "input", FILES))
    source = spark.readStream.schema(spark.read.parquet(folder).schema).option("maxFilesPerTrigger", files_per_batch)
    state = tmp_path / "state"
    query = case.module.app.stream(
        spark,
        source.parquet(folder),
        state=str(state),
        checkpoint=str(tmp_path / "checkpoint"),
        plan=parallel_plan(case),
        trigger={"availableNow": True},
        jit=False,
    )
    query.awaitTermination()
    df = spark.read.parquet(str(state / "outputs"))
    assert_same(expected, Outcome(outputs(df), stored(state, expected)), context=case.describe())


def one_input(case: Case) -> Case:
    """The same events as one input in the total order, which a live source delivers piece by piece."""
    stream = type(case.stream)(case.stream.schemas, (tuple(case.stream.ordered()),))
    return Case(case.seed, case.stream_seed, case.source, case.module, stream)
