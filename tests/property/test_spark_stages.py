"""Generated programs in stages, through real Spark jobs, against the oracle: outputs and state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mainstem as ms
from mainstem.lang import dataflow
from mainstem.testing import Case, Outcome, assert_same, generate_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAMS_DEFAULT, PROGRAMS_LONG = 12, 300
EVENTS = 60
PARTITIONS = (1, 2, 4, 8)


def case_of(seed: int) -> Case:
    """Acyclic ones mostly, some mixed, some as they come."""
    layered = (1.0, 1.0, 0.6, 0.0)[seed % 4]
    knobs = {"layered": layered, "tables": (2, 4), "extremes": 0.0} if layered else {}
    return generate_case(f"waves {seed}", n=EVENTS, statements=(2, 5), refs=(1, 6), **knobs)


def written(case: Case, folder: Path) -> list[Path] | Path:
    """Every input of the stream as a file of several row groups."""
    folder.mkdir()
    files = []
    for number, table in enumerate(case.stream.tables(1)):
        files.append(folder / f"{number:02d}.parquet")
        pq.write_table(pa.Table.from_batches(table.to_batches()), files[-1], row_group_size=11)
    return files


def check(seed: int, spark: SparkSession, folder: Path) -> None:
    case = case_of(seed)
    if not case.module.app.program.compiled:
        return
    expected = case.run(engine="oracle")
    outputs = case.module.app.replay(
        spark, written(case, folder / "log"), state=folder / "state", plan="mvps", jit=False,
        partitions=PARTITIONS[seed % len(PARTITIONS)], range_rows=(7, 20, 1_000)[seed % 3],
        epoch_rows=(15, 40)[seed % 2],
    )  # fmt: skip
    order = [("seq", "ascending"), *([("function", "ascending")] if "function" in outputs.columns else [])]
    wanted = expected.outputs
    plain = pa.schema([f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in wanted.schema])
    with ms.open(folder / "state") as database:
        state = {name: database.table(name) for name in expected.state}
    actual = Outcome(outputs.toArrow().sort_by(order), state)
    assert_same(Outcome(wanted.cast(plain).sort_by(order), expected.state), actual, context=case.describe())


def test_programs_fall_apart_into_stages() -> None:
    flows = [dataflow(case_of(seed).module.app.spec) for seed in range(PROGRAMS_DEFAULT)]
    assert sum(any(stage.keyed for stage in flow.stages) for flow in flows) >= PROGRAMS_DEFAULT // 2
    assert sum(len(flow.waves) > 1 for flow in flows) >= 2
    assert any(not stage.keyed for flow in flows for stage in flow.stages)


@pytest.mark.parametrize("seed", range(PROGRAMS_DEFAULT))
def test_stages_on_spark_agree_with_the_oracle(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    check(seed, spark, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(PROGRAMS_DEFAULT, PROGRAMS_DEFAULT + PROGRAMS_LONG))
def test_stages_on_spark_agree_with_the_oracle_long(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    check(seed, spark, tmp_path)
