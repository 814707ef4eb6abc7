"""Single tasks: what they report, what they refuse, what they leave behind."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import by_hand
import pyarrow as pa
import pytest
from replay_support import batches_of, ranges_of, replayed

import mainstem as ms
from mainstem.errors import CorruptError, MainstemError, ProgramError
from mainstem.lang.combine import combined
from mainstem.replay import (
    HomeJob,
    LocalReplay,
    Rare,
    RareAbort,
    Routing,
    WaveJob,
    kept,
    own_rows,
    read_state,
    replay_local,
    route_range,
    run_home,
    run_wave,
    staged,
    wave_tasks,
    write_state,
)  # fmt: skip
from mainstem.replay.jobs import Clock
from mainstem.replay.states import TaskState
from mainstem.testing import Outcome, assert_same
from mainstem.variants import variants

HUGE = 2**62


def counters() -> ms.App:
    """Two tables that only an overflow ties together; the second is fed by the first."""
    app = ms.App("counters")

    @app.event
    class Add:
        left: int
        right: str
        by: int

    @app.table(key=int)
    class Left:
        total: int = 0

    @app.table(key=str)
    class Right:
        total: int = 0

    @app.on(Add)
    def add(e):
        Left[e.left].total += e.by
        Right[e.right].total += Left[e.left].total % 1000
        return {"left": Left[e.left].total}

    return app


def adds(by: list[int]) -> pa.Table:
    count = len(by)
    return pa.table({
        "ts": pa.array(range(count), pa.int64()), "left": pa.array([n % 7 for n in range(count)], pa.int64()),
        "right": pa.array([f"r{n % 5}" for n in range(count)]), "by": pa.array(by, pa.int64()),
    })  # fmt: skip


def test_a_rare_abort_is_reported_and_the_tied_dataflow_is_exact(tmp_path: Path) -> None:
    app = counters()
    events = adds([1] * 50 + [HUGE] * 21 + [1] * 30)
    rare = staged(app.spec, jit=False)
    assert len(rare.waves) == 2
    (tmp_path / "rare").mkdir()
    with pytest.raises(RareAbort, match="function 0 aborted") as met:
        replay_local(rare, ranges_of(rare, events, 25), shards=1, epoch=2, folder=tmp_path / "rare", jit=False)
    assert met.value.rare.function == 0 and met.value.rare.code == 1
    assert not list((tmp_path / "rare").glob("carry-1-wave1*"))
    assert pickle.loads(pickle.dumps(met.value)).rare == met.value.rare
    result = app.run(events, engine="oracle")
    assert result.outputs["reason"].to_pylist().count("integer overflow") > 0
    tied = staged(app.spec, "tied", jit=False)
    actual = replayed(tied, events, tmp_path / "tied", shards=3, size=25, epoch=2, jit=False)
    assert_same(Outcome(result.outputs, dict(app.state)), actual)


def test_a_rare_abort_names_the_event(tmp_path: Path) -> None:
    """The first overflow of a stage in one task is that of the serial run."""
    app = counters()
    events = adds([1] * 40 + [HUGE] * 20)
    flow = staged(app.spec, jit=False)
    with pytest.raises(RareAbort) as met:
        replay_local(flow, [batches_of(flow, events, 100)], shards=1, epoch=1, folder=tmp_path, jit=False)
    first = app.run(events, engine="oracle").outputs["status"].to_pylist().index("aborted")
    assert met.value.rare == Rare(0, first, 0, 1)


def divided() -> ms.App:
    """Its division is needed by the output alone, so it is computed at home."""
    app = ms.App("divided")

    @app.event
    class Add:
        left: int
        right: str
        by: int

    @app.table(key=int)
    class Left:
        total: int = 0

    @app.table(key=str)
    class Right:
        total: int = 0

    @app.on(Add)
    def add(e):
        Left[e.left].total += e.by
        Right[e.right].total += 1
        return {"share": Left[e.left].total // Right[e.right].total, "inverse": 100 // e.by}

    return app


def test_a_rare_abort_at_home_is_found(tmp_path: Path) -> None:
    app = divided()
    events = adds([1] * 30 + [0] + [2] * 10)
    flow = staged(app.spec, jit=False)
    with pytest.raises(RareAbort) as met:
        replay_local(flow, ranges_of(flow, events, 16), shards=2, epoch=4, folder=tmp_path, jit=False)
    assert met.value.rare.function == 0 and met.value.rare.code == 2
    result = app.run(events, engine="oracle")
    assert result.outputs["reason"].to_pylist().count("division by zero") == 1
    tied = staged(app.spec, "tied", jit=False)
    actual = replayed(tied, events, tmp_path / "tied", shards=3, size=25, epoch=2, jit=False)
    assert_same(Outcome(result.outputs, dict(app.state)), actual)


def jobs_of(folder: Path, shards: int = 2) -> tuple[list[WaveJob], Path]:
    """One range of the program made by hand; the jobs of wave 1."""
    flow = by_hand.flow()
    report = route_range(batches_of(flow, by_hand.events(1, 100), 50), Routing(flow, shards), folder / "range")
    jobs = [
        WaveJob(flow, task, shards, (report.path,), (), None, folder / f"carry{n}", folder / f"state{n}")
        for n, task in enumerate(wave_tasks(flow, 1, shards))
    ]
    return jobs, report.path


def test_jobs_and_reports_are_picklable(tmp_path: Path) -> None:
    jobs, _ = jobs_of(tmp_path)
    report = run_wave(pickle.loads(pickle.dumps(jobs[0])))
    assert pickle.loads(pickle.dumps(report)) == report
    assert report.carry_bytes == (tmp_path / "carry0").stat().st_size and report.items > 0


def test_a_task_gives_the_same_files_again(tmp_path: Path) -> None:
    jobs, _ = jobs_of(tmp_path)
    contents = []
    for attempt in range(2):
        carry, state = tmp_path / f"carry-{attempt}", tmp_path / f"state-{attempt}"
        job = jobs[1]
        run_wave(WaveJob(job.flow, job.task, job.shards, job.ranges, job.carries, job.state, carry, state))
        contents.append((carry.read_bytes(), state.read_bytes()))
    assert contents[0] == contents[1]


def test_a_missing_carry_file_is_noticed(tmp_path: Path) -> None:
    jobs, path = jobs_of(tmp_path)
    run_wave(jobs[0])
    flow = jobs[0].flow
    for task in wave_tasks(flow, 2, 2):
        job = WaveJob(flow, task, 2, (path,), (jobs[0].carry_to,), None, tmp_path / "carry", tmp_path / "state")
        with pytest.raises(MainstemError, match=r"piece 1 handed on values for .*\n  give the carry files of all"):
            run_wave(job)
        assert not (tmp_path / "carry").exists() and not (tmp_path / "state").exists()
    with pytest.raises(MainstemError, match="handed on values for 0"):
        list(run_home(HomeJob(flow, 0, 2, path, 0, (), 0)))


def test_a_torn_range_file_is_named(tmp_path: Path) -> None:
    jobs, path = jobs_of(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptError, match="range is not a finished exchange file"):
        run_wave(jobs[0])


def test_a_task_without_rows_of_a_key(tmp_path: Path) -> None:
    """Eight shards for two users: most have nothing to do, and say so."""
    flow, events = by_hand.flow(), by_hand.events(1, 80, users=2)
    replay = LocalReplay(flow, 8, tmp_path)
    outputs, _ = replay.run(ranges_of(flow, events, 80), 2, {})
    assert outputs[0].num_rows == 80
    idle = [report for report in replay.reports if hasattr(report, "task") and report.items == 0]
    assert idle and all(report.state_rows in ({"Friends": 0}, {"Sender": 0}, {"Host": 0}) for report in idle)


def test_state_files(tmp_path: Path) -> None:
    flow = by_hand.flow()
    by_hand.app.run(by_hand.events(2, 100))
    tables = dict(by_hand.app.state)
    parts = [own_rows(flow, task, 3, tables) for task in wave_tasks(flow, 3, 3)]
    assert sum(part["Host"].num_rows for part in parts) == tables["Host"].num_rows
    write_state(tmp_path / "state", parts[0])
    assert [(name, rows.to_pylist()) for name, rows in read_state(tmp_path / "state")] == [
        ("Host", parts[0]["Host"].to_pylist())
    ]
    content = bytearray((tmp_path / "state").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "state").write_bytes(content)
    with pytest.raises(CorruptError):
        list(read_state(tmp_path / "state"))
    with pytest.raises(CorruptError, match="is missing; it holds the state of an epoch"):
        list(read_state(tmp_path / "nowhere"))


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Which state files are read."""
    kept.forget()
    found: list[Path] = []
    load = TaskState.load

    def noted(state: TaskState, path: Path) -> None:
        found.append(path)
        load(state, path)

    monkeypatch.setattr(TaskState, "load", noted)
    yield found
    kept.forget()


def followed_by(job: WaveJob, folder: Path, name: str) -> WaveJob:
    return replace(job, state=job.state_to, carry_to=folder / f"carry-{name}", state_to=folder / f"state-{name}")


def test_states_are_kept_for_the_next_epoch(tmp_path: Path, loaded: list[Path]) -> None:
    jobs, _ = jobs_of(tmp_path)
    run_wave(jobs[0])
    second = followed_by(jobs[0], tmp_path, "second")
    report = run_wave(second)
    assert loaded == [] and kept.names() == [second.state_to]
    again = replace(second, carry_to=tmp_path / "carry", state_to=tmp_path / "again")
    assert run_wave(again).state_rows == report.state_rows  # what was kept has been used: this one reads the file
    assert loaded == [jobs[0].state_to]
    assert dict(read_state(tmp_path / "again"))["Friends"].equals(dict(read_state(second.state_to))["Friends"])


def test_an_attempt_that_fails_takes_what_was_kept_with_it(tmp_path: Path, loaded: list[Path]) -> None:
    jobs, path = jobs_of(tmp_path)
    run_wave(jobs[0])
    (tmp_path / "torn").write_bytes(b"")
    second = followed_by(jobs[0], tmp_path, "second")
    with pytest.raises(CorruptError, match="torn is not a finished"):
        run_wave(replace(second, ranges=(path, tmp_path / "torn")))
    assert loaded == [] and kept.names() == []
    run_wave(second)
    assert loaded == [jobs[0].state_to]


def test_another_file_under_the_same_name_is_read(tmp_path: Path, loaded: list[Path]) -> None:
    jobs, _ = jobs_of(tmp_path)
    run_wave(jobs[0])
    content = jobs[0].state_to.read_bytes()
    jobs[0].state_to.unlink()
    jobs[0].state_to.write_bytes(content)
    run_wave(followed_by(jobs[0], tmp_path, "second"))
    assert loaded == [jobs[0].state_to]
    kept.forget()
    (tmp_path / "state-second").unlink()
    with pytest.raises(CorruptError, match="state-second is missing"):
        run_wave(followed_by(followed_by(jobs[0], tmp_path, "second"), tmp_path, "third"))


def test_kept_states_are_bounded(tmp_path: Path, loaded: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, _ = jobs_of(tmp_path, 4)
    run_wave(replace(jobs[0], keep=False))
    assert kept.names() == []
    for job in jobs[1:]:
        run_wave(job)
    assert kept.names() == [job.state_to for job in jobs[1:]]
    state = kept.take(jobs[3].state_to)
    assert state is not None
    monkeypatch.setattr(kept, "KEPT_BYTES_MAX", 2 * kept.size_of(state))
    second = followed_by(jobs[1], tmp_path, "second")
    run_wave(second)
    assert kept.names() == [jobs[2].state_to, second.state_to]
    run_wave(followed_by(jobs[3], tmp_path, "third"))
    assert kept.names() == [second.state_to, tmp_path / "state-third"]


def test_states_whose_files_are_gone_are_dropped(tmp_path: Path, loaded: list[Path]) -> None:
    """Their tasks run elsewhere by now."""
    jobs, _ = jobs_of(tmp_path, 4)
    for job in jobs:
        run_wave(job)
    assert len(kept.names()) > 1
    jobs[0].state_to.unlink()
    kept.drop_lost()
    assert jobs[0].state_to not in kept.names() and len(kept.names()) == len(jobs) - 1


def test_a_state_that_is_mostly_missing_rows_is_not_kept(
    tmp_path: Path, loaded: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a row that is not there takes a place in the index; only the file forgets it."""
    monkeypatch.setattr(kept, "SMALL_ROWS", 0)
    flow = by_hand.flow()
    events = by_hand.events(1, 100, users=50, links=0.05)
    report = route_range(batches_of(flow, events, 100), Routing(flow, 1), tmp_path / "range")
    (task,) = wave_tasks(flow, 1, 1)
    run_wave(WaveJob(flow, task, 1, (report.path,), (), None, tmp_path / "carry", tmp_path / "state"))
    assert kept.names() == []


def test_a_clock_counts_what_is_inside_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 1.0, 3.0, 3.5, 4.5, 10.0])
    monkeypatch.setattr("mainstem.replay.jobs.perf_counter", lambda: next(times))
    clock = Clock()
    with clock.part("outer"):
        with clock.part("inner"):
            pass
        with clock.part("inner"):
            pass
    assert clock.seconds == {"inner": 3.0, "outer": 7.0}


def test_an_epoch_has_ranges(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="epoch=0"):
        replay_local(by_hand.flow(), [], shards=1, epoch=0, folder=tmp_path)


def test_derived_columns_and_several_functions_of_one_event(tmp_path: Path) -> None:
    app = ms.App("derived")

    @app.event
    class Word:
        text: str

    @app.derive(Word, length=int)
    def lengths(batch):
        return {"length": pa.compute.cast(pa.compute.utf8_length(batch["text"]), pa.int64())}

    @app.table(key=int)
    class ByLength:
        count: int = 0

    @app.table(key=str)
    class ByText:
        count: int = 0
        last: int = 0

    @app.on(Word)
    def count_lengths(e):
        ByLength[e.length].count += 1
        return {"same_length": ByLength[e.length].count}

    @app.on(Word)
    def count_texts(e):
        row = ByText[e.text]
        row.count += ByLength[e.length].count
        row.last = e.ts
        return {"text": e.text, "since": e.ts - row.last}

    words = ["a", "bb", "ccc", "a", "dd", "", "süd"] * 20
    events = pa.table({"ts": pa.array(range(0, 420, 3)), "text": pa.array(words)})
    flow = staged(app.spec, jit=False)
    assert len(flow.waves) == 2 and all(stage.keyed for stage in flow.stages)
    result = app.run(events, engine="oracle")
    actual = replayed(flow, events, tmp_path, shards=3, size=30, epoch=2, jit=False)
    assert_same(Outcome(result.outputs, dict(app.state)), actual)


def test_computed_keys_and_rare_codes_of_whole_functions(tmp_path: Path) -> None:
    """A function that runs whole in one stage may divide by zero: nothing else of it is anywhere."""
    app = ms.App("buckets")

    @app.event
    class Hit:
        at: int
        name: str

    @app.table(key=int)
    class Bucket:
        hits: int = 0

    @app.table(key=(str, int))
    class Named:
        hits: int = 0

    @app.on(Hit)
    def count(e):
        Bucket[e.at % 5].hits += 10 // e.at
        return {"hits": Bucket[e.at % 5].hits}

    @app.on(Hit)
    def name(e):
        Named[e.name, e.at // 3].hits += Bucket[e.at % 5].hits

    events = pa.table({"ts": range(90), "at": [n % 11 for n in range(90)], "name": ["a", "b", ""] * 30})
    flow = staged(app.spec, jit=False)
    assert flow.computed and len(flow.waves) == 2
    result = app.run(events, engine="oracle")
    assert result.outputs["reason"].to_pylist().count("division by zero") == 9
    actual = replayed(flow, events, tmp_path, shards=3, size=40, epoch=1, jit=False)
    assert_same(Outcome(result.outputs, dict(app.state)), actual)


LIMIT, STEP = 10, 1


def limits() -> ms.App:
    app = ms.App("limits")

    @app.event
    class Hit:
        who: int
        where: int

    @app.table(key=int)
    class Who:
        hits: int = 0

    @app.table(key=int)
    class Where:
        hits: int = 0

    @app.on(Hit)
    def hit(e):
        Who[e.who].hits += 1
        Where[e.where].hits += Who[e.who].hits * STEP
        return {"many": Where[e.where].hits > LIMIT}

    return app


@pytest.mark.parametrize(("values", "stages"), [({"LIMIT": [5, 50, 500]}, 4), ({"STEP": [1, 7], "LIMIT": [9]}, 3)])
def test_variants_share_stages(tmp_path: Path, values: dict[str, list[int]], stages: int) -> None:
    """The first stage is the same in all; each variant has its own second one, with tables of the same name."""
    app = limits()
    apps = variants(app, **values)
    flow = combined([staged(variant.spec, jit=False) for variant in apps])
    assert len(flow.homes) == len(apps) and len(flow.stages) == stages
    events = pa.table({"ts": range(200), "who": [n % 7 for n in range(200)], "where": [n * n % 5 for n in range(200)]})
    outputs, tables = replay_local(flow, ranges_of(flow, events, 60), shards=3, epoch=2, folder=tmp_path, jit=False)
    for variant, found in zip(apps, outputs, strict=True):
        result = variant.run(events, engine="oracle")
        assert_same(Outcome(result.outputs), Outcome(found))
        if variant is apps[0]:
            assert_same(Outcome(result.outputs, dict(variant.state)), Outcome(found, tables))
    assert outputs[0]["many"].to_pylist() != outputs[1]["many"].to_pylist()
