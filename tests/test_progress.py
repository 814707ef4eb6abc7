"""The progress bar: what it says, when it is drawn, and what runs tell it."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import mainstem as ms
from mainstem import progress as bars
from mainstem.errors import InputError, MainstemError
from mainstem.progress import Progress, following, size_of, unit_of

DRAWN_WITHIN_S = 30.0  # a bound for a machine that is busy; a bar comes at once
DAY = 86_400

app = ms.App("clicks")


@app.event
class Click:
    page: int


@app.table(key=int)
class Page:
    clicks: int = 0


@app.on(Click)
def click(e):
    Page[e.page].clicks += 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Where bars are drawn at once."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(bars, "SECONDS_SILENT", 0.0)
    return Terminal()


def wait_for(text: str, stream: Terminal) -> None:
    until = time.monotonic() + DRAWN_WITHIN_S
    while text not in stream.getvalue():
        assert time.monotonic() < until, f"{text!r} is not in {stream.getvalue()!r}"
        time.sleep(0.01)


# -- what it says ---------------------------------------------------------------------------------------------


def test_a_line_says_what_is_known() -> None:
    bar = Progress(total=1_000_000)
    bar(200_000)
    bar(50_000)
    assert bar.line(2.0) == "250,000 of 1,000,000 events, 125,000/s, 0:06 left"
    assert bar.line(2.0, since=4.0) == "250,000 of 1,000,000 events, 125,000/s, 0:02 left"
    assert bar.line(2.0, since=40.0) == "250,000 of 1,000,000 events, 125,000/s, 0:00 left"
    bar.at(1_700_000_000)
    bar.at(1_700_000_000 + DAY)
    bar.rejected(12)
    bar.rejected(1_234)
    assert bar.line(2.0).endswith("0:06 left, 43,200 × real time, 1,234 rejected")


def test_a_line_leaves_out_what_is_not_known() -> None:
    bar = Progress()
    assert bar.line(0.0) == "0 events"
    assert bar.line(1.0) == "0 events"
    bar(5_000)
    assert bar.line(2.0) == "5,000 events, 2,500/s"


def test_more_events_than_expected_leave_no_time() -> None:
    bar = Progress(total=10)
    bar(12)
    assert "left" not in bar.line(1.0)


def test_time_left_in_hours() -> None:
    bar = Progress(total=100_000)
    bar(10)
    assert "2:46:39 left" in bar.line(1.0)


@pytest.mark.parametrize(("per_second", "unit"), [(1, "s"), (10**3, "ms"), (10**6, "us"), (10**9, "ns")])
def test_the_unit_of_timestamps_follows_from_their_size(per_second: int, unit: str) -> None:
    assert unit_of(1_700_000_000 * per_second) == unit
    bar = Progress()
    bar.at(1_700_000_000 * per_second)
    bar.at((1_700_000_000 + 600) * per_second)
    assert bar.multiple(2.0) == pytest.approx(300.0)


def test_the_unit_may_be_said() -> None:
    bar = Progress(ts_unit="ms")
    bar.at(0)
    bar.at(60_000)
    assert bar.multiple(2.0) == pytest.approx(30.0)
    with pytest.raises(InputError, match="ts_unit='hours'"):
        Progress(ts_unit="hours")  # type: ignore[arg-type]


def test_without_timestamps_the_span_of_the_log_tells() -> None:
    bar = Progress(total=100, span=(1_000, 3_000))
    bar(25)
    assert bar.multiple(5.0) == pytest.approx(100.0)
    assert Progress(total=100).multiple(5.0) is None
    assert Progress(span=(1_000, 3_000)).multiple(5.0) is None


# -- when it is drawn -----------------------------------------------------------------------------------------


def test_a_terminal_gets_a_bar(terminal: Terminal) -> None:
    with Progress(total=100, stream=terminal) as bar:
        bar(40)
        wait_for("40 of 100 events", terminal)
        bar.rejected(3)
        wait_for("3 rejected", terminal)
    shown = terminal.getvalue()
    time.sleep(2 / bars._DRAWS_PER_SECOND)
    assert terminal.getvalue() == shown


def test_anything_else_gets_nothing() -> None:
    stream = io.StringIO()
    with Progress(total=100, stream=stream) as bar:
        bar(40)
        assert bar._timer is None
    assert stream.getvalue() == ""


def test_a_short_run_gets_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "SECONDS_SILENT", 600.0)
    with Progress(total=100, stream=terminal) as bar:
        bar(100)
    assert terminal.getvalue() == ""


def test_a_closed_stream_gets_nothing() -> None:
    stream = Terminal()
    stream.close()
    with Progress(stream=stream) as bar:
        bar(1)


def test_a_failing_run_stops_the_bar(terminal: Terminal) -> None:
    bar = Progress(stream=terminal)

    def fail() -> None:
        wait_for("events", terminal)
        raise MainstemError("no")

    with pytest.raises(MainstemError, match="no"), bar:
        fail()
    assert bar._live is None


# -- what a run does ------------------------------------------------------------------------------------------


def clicks(count: int, bad: int = 0) -> pa.Table:
    pages: list[int | None] = [None] * bad + [n % 7 for n in range(count - bad)]
    return pa.table({"ts": [100 + n for n in range(count)], "page": pages})


def test_runs_tell_events_times_and_rejects() -> None:
    bar = Progress()
    app.run(clicks(30, bad=4), on_bad="reject", batch=10, progress=bar, jit=False)
    assert (bar.done, bar.rejects) == (26, 4)
    assert bar.multiple(1.0) == 25.0  # from ts 104 to 129


@pytest.mark.parametrize("engine", ["serial", "oracle"])
def test_a_plain_function_is_told_events_only(engine: str) -> None:
    told: list[int] = []
    app.run(clicks(25), batch=10, progress=told.append, engine=engine, jit=False)
    assert told == [10, 10, 5]


def test_auto_is_silent_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    app.run(clicks(25), jit=False)
    assert capfd.readouterr() == ("", "")
    with following("auto", clicks(5)) as told:
        assert told is None


def test_auto_on_a_terminal_knows_the_size(terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", terminal)
    pq.write_table(clicks(25), tmp_path / "log.parquet")
    with following("auto", str(tmp_path)) as told:
        assert isinstance(told, Progress)
        assert (told.total, told.span) == (25, (100, 124))
        told(5)
        wait_for("5 of 25 events", terminal)


def test_what_is_no_progress_is_refused() -> None:
    with pytest.raises(InputError, match="progress=3"):
        app.run(clicks(1), progress=3, jit=False)  # type: ignore[arg-type]


def test_sizes_of_logs(tmp_path: Path) -> None:
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(clicks(25), first)
    pq.write_table(clicks(5), second)
    assert size_of(tmp_path) == size_of([str(first), second]) == size_of({"Click": [first, second]}) == (30, (100, 124))
    assert size_of(clicks(9)) == (9, None)
    assert size_of(str(tmp_path / "*.parquet"))[0] == 30


def test_sizes_that_are_not_known(tmp_path: Path) -> None:
    assert size_of(str(tmp_path / "nowhere.parquet")) == (None, None)
    assert size_of(iter([])) == (None, None)
    (tmp_path / "broken.parquet").write_bytes(b"no Parquet")
    assert size_of(tmp_path / "broken.parquet") == (None, None)
    pcsv.write_csv(clicks(3), tmp_path / "log.csv")
    assert size_of(tmp_path / "log.csv") == (None, None)
    times = pa.table({"ts": pa.array([1, 2], pa.timestamp("ms"))})
    pq.write_table(times, tmp_path / "times.parquet")
    assert size_of(tmp_path / "times.parquet") == (2, None)
