"""Logs that are out of order inside batches, run and resumed: what `unsorted="batch"` means end to end."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import programs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mainstem as ms

BATCH = 20


def shuffled(size: int = BATCH, seed: int = 1) -> pa.Table:
    """The log of 300 events, in any order inside blocks of `size`."""
    rng, events = random.Random(seed), programs.events(300)
    order = [row for start in range(0, 300, size) for row in rng.sample(range(start, min(300, start + size)), size)]
    return events.take(pa.array(order))


def with_late(table: pa.Table, rows: tuple[int, ...] = (45, 46, 150)) -> pa.Table:
    """Rows of the log put in again far behind their time."""
    found = table.to_pylist()
    for row in rows:
        found.insert(row, {"ts": 1, "src": 1, "dst": 2, "amount": 1})
    return pa.Table.from_pylist(found)


def run(events: Any, **options: Any) -> ms.Result:
    settings: dict[str, Any] = {"batch": BATCH, "unsorted": "batch", **options}
    return programs.app.run(events, initial=programs.initial(), **settings)


def facts(result: ms.Result) -> tuple[list[Any], list[Any], str]:
    return result.outputs.to_pylist(), result.rejects.to_pylist(), result.digest


def sorted_oracle(log: pa.Table) -> tuple[list[Any], list[Any], str]:
    """The serial run on the log that was sorted before (Arrow's sort is stable)."""
    return facts(run(log.sort_by("ts"), engine="oracle", unsorted="error", batch=7))


@pytest.mark.parametrize("options", [{}, {"jit": False}, {"engine": "serial"}, {"engine": "oracle"}])
def test_every_engine_gives_what_the_sorted_log_gives(options: dict[str, Any]) -> None:
    log = shuffled()
    assert facts(run(log, **options)) == sorted_oracle(log)
    assert log["ts"].to_pylist() != sorted(log["ts"].to_pylist())


def test_every_form_of_input_gives_what_the_sorted_log_gives(tmp_path: Path) -> None:
    log = shuffled()
    pq.write_table(log, tmp_path / "log.parquet", row_group_size=33)
    objects = [programs.Transfer(**row) for row in log.to_pylist()]
    for form in (log, pa.Table.from_batches(log.to_batches(7)), objects, iter(objects), tmp_path / "log.parquet"):
        assert facts(run(form)) == sorted_oracle(log)


def test_several_inputs_give_what_the_sorted_ones_give() -> None:
    parts = [shuffled(size=4, seed=seed) for seed in range(3)]
    ascending = [part.sort_by("ts") for part in parts]
    assert facts(run(parts, batch=900)) == facts(run(ascending, unsorted="error", engine="oracle"))


def test_late_events_are_an_error_or_kept() -> None:
    log = with_late(shuffled())
    with pytest.raises(ms.InputError, match=r"row 45: column 'ts' is 1, which is late: .* up to ts 13\n  pass"):
        run(log)
    result = run(log, on_bad="reject")
    assert result.rejects["offset"].to_pylist() == [45, 46, 150]
    assert result.stats.rejected == 3
    assert facts(result)[0::2] == sorted_oracle(shuffled())[0::2]


def test_without_the_option_nothing_may_go_back() -> None:
    with pytest.raises(ms.InputError, match="goes back"):
        programs.app.run(shuffled(), initial=programs.initial())
    with pytest.raises(ms.InputError, match="unsorted is 'maybe'"):
        run(shuffled(), unsorted="maybe")


class Stop(Exception):
    pass


def stopped_after(batches: int) -> Any:
    """Stops a run when so many of its batches are committed."""
    done = 0

    def progress(events: int) -> None:
        nonlocal done
        done += 1
        if done == batches:
            raise Stop

    return progress


@pytest.mark.parametrize("batches", [1, 2, 3, 8, 14])
def test_a_resumed_run_is_the_whole_run(tmp_path: Path, batches: int) -> None:
    """State, outputs on disk, seq and rejects, late ones of the first part too."""
    log = with_late(shuffled())
    whole = run(log, on_bad="reject", state=tmp_path / "whole", out=tmp_path / "whole_out")
    options: dict[str, Any] = {"on_bad": "reject", "state": tmp_path / "state", "out": tmp_path / "out"}
    with pytest.raises(Stop):
        run(log, **options, progress=stopped_after(batches))
    assert facts(run(log, **options, resume=True)) == facts(whole)
    assert facts(run(log, **options, resume=True)) == facts(whole)


def test_runs_may_stop_and_change_their_batches(tmp_path: Path) -> None:
    """Nothing is lost or done twice, whatever the sizes of earlier batches were."""
    log = with_late(shuffled(size=4), rows=(80, 81, 200))
    options: dict[str, Any] = {"on_bad": "reject", "state": tmp_path / "state", "out": tmp_path / "out"}
    for number, batch in enumerate((8, 4, 12, 4)):
        with pytest.raises(Stop):
            run(log, **options, batch=batch, progress=stopped_after(3), resume=number > 0)
    result = run(log, **options, batch=8, resume=True)
    assert facts(result)[0::2] == sorted_oracle(shuffled(size=4))[0::2]
    assert result.rejects["offset"].to_pylist() == [80, 81, 200]


def test_a_log_that_has_grown(tmp_path: Path) -> None:
    """The last batch of a run is closed by the end of the log: rows below it that come later are late."""
    log = shuffled()
    options: dict[str, Any] = {"on_bad": "reject", "state": tmp_path / "state", "out": tmp_path / "out"}
    for length in (50, 110, 237, 300):
        result = run(log.slice(0, length), **options, resume=length > 50)
    assert result.stats.rejected > 0
    kept = [row for offset, row in enumerate(log.to_pylist()) if offset not in result.rejects["offset"].to_pylist()]
    assert facts(result)[0::2] == sorted_oracle(pa.Table.from_pylist(kept))[0::2]
    assert facts(run(log, **options, resume=True)) == facts(result)


@pytest.mark.parametrize("on_bad", ["raise", "reject"])
def test_a_run_over_sorted_events_goes_on_with_unsorted_ones(tmp_path: Path, on_bad: str) -> None:
    """What the first run rejected stays rejected: it takes no place among the events to skip."""
    start = programs.events(100).to_pylist()
    if on_bad == "reject":
        start.insert(30, {"ts": 0, "src": 1, "dst": 2, "amount": 1})
    log = pa.Table.from_pylist(start + shuffled().to_pylist()[100:])
    options: dict[str, Any] = {"on_bad": on_bad, "state": tmp_path / "state", "out": tmp_path / "out"}
    run(log.slice(0, len(start)), **options, unsorted="error", batch=30)
    result = run(log, **options, resume=True)
    assert result.rejects["offset"].to_pylist() == [30] * (on_bad == "reject")
    expected = pa.concat_tables([programs.events(100), shuffled().slice(100)])
    assert facts(result)[0::2] == sorted_oracle(expected)[0::2]


def test_sorted_and_unsorted_logs_follow_each_other(tmp_path: Path) -> None:
    """Three logs, one after the other, then the three as one log again: all of it is known to be done."""
    log, state = shuffled(), tmp_path / "state"
    parts = [log.slice(0, 100), log.slice(100, 100).sort_by("ts"), log.slice(200)]
    for part, unsorted in zip(parts, ("batch", "error", "batch"), strict=True):
        result = run(part, state=state, unsorted=unsorted)
    assert result.digest == sorted_oracle(log)[2]
    again = run(pa.concat_tables(parts), state=state, resume=True)
    assert (again.outputs.num_rows, again.digest) == (0, result.digest)


def test_resuming_an_unsorted_log_needs_the_option(tmp_path: Path) -> None:
    run(shuffled().slice(0, 100), state=tmp_path / "state")
    with pytest.raises(ms.InputError, match=r"events of a log that was not sorted\n  pass unsorted=\"batch\""):
        run(shuffled(), state=tmp_path / "state", resume=True, unsorted="error")


def test_events_before_what_an_earlier_run_committed_are_an_error(tmp_path: Path) -> None:
    """Even with on_bad="reject": this is what a forgotten resume=True looks like."""
    run(shuffled().slice(0, 100), state=tmp_path / "state")
    with pytest.raises(ms.InputError, match="resume=True"):
        run(shuffled(), state=tmp_path / "state", on_bad="reject")


def test_a_sorted_run_keeps_no_cuts(tmp_path: Path) -> None:
    from mainstem.run import CUTS

    run(programs.events(100), state=tmp_path / "state", unsorted="error")
    with ms.open(tmp_path / "state") as db:
        assert CUTS not in db.meta
    run(shuffled().slice(100), state=tmp_path / "state")
    with ms.open(tmp_path / "state") as db:
        assert db.meta[CUTS] == [[1, 100], [BATCH, 300]]
