"""Several variants of a program in one replay: each as if it had run alone, and what changed between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstem as ms
from mainstem.apps import fraud, spam


def test_variants_equal_runs_of_their_own(spark: Any, tmp_path: Path) -> None:
    spam.write_log(tmp_path / "log", 6_000, users=200)
    apps = ms.variants(spam.app, SPAM_SHARE=[0.1, 0.3], SPAM_RATIO=[1, 2])
    replays = spam.app.replay(
        spark, tmp_path / "log", variants=apps, out=tmp_path / "out", partitions=2, range_rows=1_000, epoch_rows=3_000
    )
    assert list(replays) == [app.name for app in apps]
    caught = []
    for app in apps:
        expected = app.run(tmp_path / "log").outputs
        actual = replays[app.name].orderBy("seq").toArrow()
        for column in ("seq", "ts", "status", "spam"):
            assert actual[column].to_pylist() == expected[column].cast(actual[column].type).to_pylist()
        caught.append(sum(bool(value) for value in expected["spam"].to_pylist()))
    assert len(set(caught)) > 1, "the variants must differ, or this proves nothing"


def test_changes_name_the_transactions_that_ended_otherwise(spark: Any, tmp_path: Path) -> None:
    spam.write_log(tmp_path / "log", 4_000, users=100)
    old, new = ms.variants(spam.app, SPAM_SHARE=[0.1, 0.5])
    replays = spam.app.replay(spark, tmp_path / "log", variants=[old, new], out=tmp_path / "out")
    before, after = (app.run(tmp_path / "log").outputs for app in (old, new))
    pairs = zip(before["seq"].to_pylist(), before["spam"].to_pylist(), after["spam"].to_pylist(), strict=True)
    expected = [(seq, a, b) for seq, a, b in pairs if a != b]
    changes = replays.changes().toArrow()
    assert expected
    assert expected == list(zip(*(changes[c].to_pylist() for c in ("seq", "spam_before", "spam_after")), strict=True))
    assert {tuple(names) for names in changes["changed"].to_pylist()} == {("spam",)}
    counts = replays.counts().where("spam").toArrow().to_pylist()
    assert {row["variant"]: row["count"] for row in counts} == {
        app.name: sum(map(bool, outputs["spam"].to_pylist())) for app, outputs in ((old, before), (new, after))
    }


def test_a_part_of_the_log_and_rows_to_start_from(spark: Any, tmp_path: Path) -> None:
    log = fraud.generate(3_000)
    times = log["ts"].to_pylist()
    start, stop = times[1_000], times[2_000]
    import pyarrow.parquet as pq

    pq.write_table(log, tmp_path / "log.parquet")
    (only,) = ms.variants(fraud.app, **{_a_constant(): [1]})
    replays = fraud.app.replay(spark, tmp_path / "log.parquet", variants=[only], between=(start, stop))
    inside = log.filter(pa.array([start <= ts < stop for ts in times]))
    expected = only.run(inside).outputs
    assert replays[only.name].orderBy("seq").toArrow()["ts"].to_pylist() == expected["ts"].to_pylist()


def _a_constant() -> str:
    """Some integer that the rules use by name."""
    with pytest.raises(ms.ProgramError) as refused:
        ms.variants(fraud.app, NO_SUCH_NAME=[1])
    names = refused.value.remedy.rpartition(": ")[2].split(", ")
    return next(name for name in names if type(getattr(fraud, name, None)) is int)


def test_what_variants_can_not_be(spark: Any, tmp_path: Path) -> None:
    spam.write_log(tmp_path / "log", 100, users=10)
    with pytest.raises(ms.ProgramError, match="known by the names"):
        spam.app.replay(spark, tmp_path / "log", variants=[spam.app, spam.app])
    with pytest.raises(ms.ProgramError, match="differ in their"):
        spam.app.replay(spark, tmp_path / "log", variants=[spam.app, fraud.app])
    (one,) = ms.variants(spam.app, SPAM_SHARE=[0.2])
    with pytest.raises(ms.InputError, match="they would share it"):
        spam.app.replay(spark, tmp_path / "log", variants=[one], state=tmp_path / "state")
    replays = spam.app.replay(spark, tmp_path / "log", variants=[one])
    with pytest.raises(ms.InputError, match="there is no variant 'other'"):
        replays["other"]
