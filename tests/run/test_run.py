"""The embedded run: forms of input, durability, resume, rejects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import programs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mainstem as ms
from mainstem.store import DurableRun
from mainstem.testing import load_program

EVENTS = programs.events(300)


def expected() -> tuple[pa.Table, str]:
    result = programs.app.run(EVENTS, initial=programs.initial(), engine="oracle")
    return result.outputs, result.digest


def assert_same(result: ms.Result, outputs: pa.Table | None = None) -> None:
    rows, digest = expected()
    assert (result.outputs if outputs is None else outputs).to_pylist() == rows.to_pylist()
    assert result.digest == digest


@pytest.mark.parametrize("batch", [1, 7, 300, 65_536])
@pytest.mark.parametrize("jit", [True, False])
def test_every_batch_size_gives_the_oracle(batch: int, jit: bool) -> None:
    assert_same(programs.app.run(EVENTS, initial=programs.initial(), batch=batch, jit=jit))


@pytest.mark.parametrize("batch", [7, 65_536])
def test_a_program_that_compiles_can_be_interpreted(tmp_path: Path, batch: int) -> None:
    run = programs.app.run(
        EVENTS, initial=programs.initial(), batch=batch, engine="interpreted", state=tmp_path / "state"
    )
    assert_same(run)
    assert run.outputs.schema == expected()[0].schema
    assert {stats.engine for stats in run.stats.batches} == {"interpreted"}


def test_forms_of_input_give_one_result(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "log.parquet")
    objects = [programs.Transfer(**row) for row in EVENTS.to_pylist()]
    for form in (EVENTS, EVENTS.to_batches(50), objects, tmp_path / "log.parquet", {"Transfer": EVENTS}):
        events = pa.Table.from_batches(form) if isinstance(form, list) and form is not objects else form
        assert_same(programs.app.run(events, initial=programs.initial()))


def test_state_is_kept_and_the_run_goes_on(tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = programs.app.run(EVENTS.slice(0, 120), state=state, initial=programs.initial(), batch=50)
    second = programs.app.run(EVENTS.slice(120), state=state, batch=50)
    assert_same(second, pa.concat_tables([first.outputs, second.outputs]))
    with ms.open(state) as db:
        assert db.table("Account").equals(programs.app.state["Account"])
        assert db.sql("select count(*) n from Account")["n"].to_pylist() == [programs.app.state["Account"].num_rows]


def test_resume_skips_what_is_committed(tmp_path: Path) -> None:
    state, out = tmp_path / "state", tmp_path / "out"
    programs.app.run(EVENTS.slice(0, 130), state=state, out=out, initial=programs.initial(), batch=50)
    with pytest.raises(ms.InputError, match="resume=True"):
        programs.app.run(EVENTS, state=state, out=out, batch=50)
    assert_same(programs.app.run(EVENTS, state=state, out=out, batch=50, resume=True))
    assert_same(programs.app.run(EVENTS, state=state, out=out, batch=50, resume=True))


def test_outputs_on_disk_equal_outputs_in_memory(tmp_path: Path) -> None:
    result = programs.app.run(EVENTS, initial=programs.initial(), out=tmp_path / "out", batch=64)
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 5
    assert_same(result)


def test_outputs_of_two_runs_are_not_mixed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    programs.app.run(EVENTS, initial=programs.initial(), out=out)
    with pytest.raises(ms.InputError, match="outputs of another run"):
        programs.app.run(EVENTS, initial=programs.initial(), out=out)
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    for resume in (False, True):
        (tmp_path / f"state-{resume}").mkdir()  # a folder that is there says nothing about whose outputs these are
        with pytest.raises(ms.InputError, match=r"the last commit of .* put its outputs into no folder"):
            programs.app.run(EVENTS, state=tmp_path / f"state-{resume}", out=out, resume=resume)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_two_runs_at_once_do_not_share_a_folder_of_outputs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with DurableRun(programs.app.program, tmp_path / "one", out=out):
        for state in (None, tmp_path / "two"):
            with pytest.raises(ms.StoreError, match="gets the outputs of another run right now"):
                programs.app.run(EVENTS, initial=programs.initial(), state=state, out=out)
    programs.app.run(EVENTS, initial=programs.initial(), state=tmp_path / "two", out=out)


def test_statistics_come_as_arrow() -> None:
    table = programs.app.run(EVENTS, initial=programs.initial(), batch=128).stats.table
    assert table["events"].to_pylist() == [128, 128, 44]
    assert set(table["engine"].to_pylist()) == {"serial"}


def test_rejected_rows_are_kept_and_take_no_seq() -> None:
    rows = EVENTS.to_pylist()
    rows.insert(5, {"ts": rows[4]["ts"], "src": None, "dst": 1, "amount": 2})
    rows.insert(100, {"ts": -1, "src": 1, "dst": 1, "amount": 2})
    result = programs.app.run(pa.Table.from_pylist(rows), initial=programs.initial(), on_bad="reject")
    assert_same(result)
    assert result.rejects["offset"].to_pylist() == [5, 100]
    assert result.stats.rejected == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "warp"}, "there is no engine 'warp'"),
        ({"batch": 0}, "at least one event"),
        ({"on_bad": "ignore"}, "on_bad"),
        ({"resume": True}, "needs the state of the earlier run"),
        ({"initial": {"Acount": pa.table({"key": [1]})}}, "no table 'Acount'"),
        ({"initial": {"Account": {"key": 1}}}, "pass Arrow tables"),
        ({"engine": "oracle", "out": "somewhere"}, "keeps nothing on disk"),
        ({"engine": "oracle", "explore": "bfs"}, "'oracle' has no option 'explore'"),
        ({"engine": "oracle", "threads": -3}, "threads=-3"),
        ({"engine": "oracle", "durability": "bogus"}, "unknown durability 'bogus'"),
        ({"keep": -1}, "keep=-1"),
        ({"engine": "oracle", "initial": {"Account": pa.table({"key": [1], "blance": [2]})}}, "balance is missing"),
        ({"engine": "oracle", "initial": {"Account": pa.table({"key": [1], "balance": [2.5]})}}, "cast it to int64"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ms.MainstemError, match=message):
        programs.app.run(EVENTS, **options)  # type: ignore[arg-type]


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with (
        DurableRun(programs.app.program, tmp_path / "state", initial=programs.initial()),
        pytest.raises(ms.LockedError, match="process"),
    ):
        programs.app.run(EVENTS, state=tmp_path / "state")


def test_state_in_shards_is_refused(tmp_path: Path) -> None:
    from mainstem.store import Store, write_shard_file

    schemas = programs.app.program.tables
    with Store.open(tmp_path / "state", schemas) as store:
        file = write_shard_file(tmp_path / "state", 0, "first", programs.initial(), base=True)
        store.commit({}, {"seq": 0, "ts": None}, [file])
    with pytest.raises(ms.StoreError, match="keeps its state in 1 shards"):
        programs.app.run(EVENTS, state=tmp_path / "state")


def test_commits_carry_on_what_live_queries_have_done(tmp_path: Path) -> None:
    from mainstem.store import QUERIES, Store

    with Store.open(tmp_path / "state", programs.app.program.tables) as store:
        store.commit(programs.initial(), {"seq": 0, "ts": None, QUERIES: {"q": 7}})
    programs.app.run(EVENTS, state=tmp_path / "state", batch=100)
    with ms.open(tmp_path / "state") as db:
        assert db.meta[QUERIES] == {"q": 7}


def test_tables_outside_transactions_say_where_to_look() -> None:
    with pytest.raises(ms.ProgramError, match="inside functions bound"):
        programs.Account[1].balance
    with pytest.raises(ms.MainstemError, match="tables: none"):
        ms.App("fresh").state["Account"]


@pytest.mark.parametrize("options", [{"engine": "seriall"}, {"batch": 0}, {"threads": -1}, {"history": True}], ids=str)
def test_a_refused_run_commits_nothing(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ms.MainstemError):
        programs.app.run(EVENTS, state=tmp_path / "state", initial=programs.initial(), jit=False, **options)
    assert_same(programs.app.run(EVENTS, state=tmp_path / "state", initial=programs.initial(), jit=False))


def test_the_oracle_takes_the_last_row_of_a_key() -> None:
    twice = {"Account": pa.table({"key": [1, 1], "balance": [5, 50]})}
    for engine in ("oracle", "serial"):
        programs.app.run(EVENTS.slice(0, 0), initial=twice, engine=engine, jit=False)
        assert programs.app.state["Account"].to_pylist() == [{"key": 1, "balance": 50}], engine


@pytest.mark.parametrize("what", ["events", "functions"])
def test_more_names_than_outputs_tell_apart_are_refused(what: str) -> None:
    head = "import mainstem as ms\napp = ms.App('many')\n@app.event\nclass First:\n    a: int\n"
    event = "@app.event\nclass E{0}:\n    a: int\n@app.on(E{0})\ndef f(e):\n    return {{'x': {0}}}\n"
    function = "@app.on(First)\ndef f{0}(e):\n    return {{'x': {0}}}\n"
    body = [(event if what == "events" else function).format(n) for n in range(129)]
    most = load_program(head + "".join(body[:127]), f"most_{what}")
    made = most.First(ts=1, a=1) if what == "functions" else most.E126(ts=1, a=1)
    assert most.app.run([made], engine="oracle").outputs["x"].to_pylist()[-1] == 126
    with pytest.raises(ms.ProgramError, match=r"has 1(29|30) .*, and outputs tell 128 apart"):
        load_program(head + "".join(body), f"too_many_{what}").app.explain()
