"""Tables that change while their directory lives: what is taken in, what is refused, and what rows then hold."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from store_driver import ACCOUNT, SCHEMAS, VISIT, accounts, visits

import mainstem as ms
from mainstem.app import App
from mainstem.errors import CorruptError, StoreError
from mainstem.lang.history import history_schema
from mainstem.schema import Field, TableSchema, Type
from mainstem.state import State, digest
from mainstem.store import Store, frame, read_shard_files, write_shard_file
from mainstem.store.format import read_format
from mainstem.store.layout import Layout

DEFAULTS: dict[str, tuple[Type, Any, Any]] = {
    "whole": (Type("int"), -7, -7),
    "real": (Type("float"), 3, 3.0),
    "endless": (Type("float"), -math.inf, -math.inf),
    "flag": (Type("bool"), True, True),
    "text": (Type("str"), 'ä"', 'ä"'),
    "raw": (Type("bytes"), b"\0\xff", b"\0\xff"),
    "when": (Type("datetime"), 5, 5),
    "row": (Type("float", length=3), [0.1, 2, math.inf], [0.1, 2.0, math.inf]),
}
"""Name: type, declared default, what old rows hold."""

ENTRIES = (Field("amount", Type("int")),)
LOG = history_schema("Log", (Type("int"),), True, ENTRIES, (), 8)


def with_fields(table: TableSchema, *fields: Field) -> TableSchema:
    return replace(table, fields=(*fields, *table.fields))


def grown() -> tuple[TableSchema, ...]:
    """Both tables with fields of every type in front."""
    new = [Field(name, type_, default) for name, (type_, default, _) in DEFAULTS.items()]
    return tuple(with_fields(table, *new) for table in SCHEMAS)


def loaded(store: Store, schemas: tuple[TableSchema, ...]) -> dict[str, pa.Table]:
    state = State({s.name: s for s in schemas})
    for name, table in store.replay():
        state.apply(name, table)
    return state.export()


def test_a_new_field_of_every_type_has_its_default_in_old_rows(small: Path) -> None:
    """They come from a snapshot, the log and shard files; some are deleted."""
    with Store.open(small, SCHEMAS) as store:
        before = loaded(store, SCHEMAS)
    schemas = grown()
    with Store.open(small, schemas) as store:
        after = loaded(store, schemas)
        shard = list(read_shard_files(small, store.shard_files[7]))
    for table in SCHEMAS:
        assert before[table.name].num_rows
        assert after[table.name].select(before[table.name].column_names) == before[table.name]
    for name, (type_, _, wanted) in DEFAULTS.items():
        column = after["Visit"][name]
        values = column.cast(pa.int64()) if type_.base == "datetime" else column
        assert values.to_pylist() == [wanted] * 3
        assert set(shard[0][1].column_names) >= {name}


def test_old_rows_keep_the_default_of_the_day_they_were_taken_in(small: Path) -> None:
    score = Field("score", Type("int"), 5)
    Store.open(small, (with_fields(ACCOUNT, score), VISIT)).close()
    later = (with_fields(ACCOUNT, replace(score, default=9), Field("rank", Type("str"), "new")), VISIT)
    with Store.open(small, later) as store:
        row = {"score": [1], "rank": ["old"], "key": [9], "balance": [1], "owner": ["e"]}
        store.commit({"Account": pa.table(row)}, {})
        found = loaded(store, later)["Account"].select(["key", "score", "rank"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [(2, 5, "new"), (3, 5, "new"), (4, 5, "new"), (9, 1, "old")]
    with ms.open(small) as db:
        assert db.table("Account").select(["key", "score", "rank"]).to_pylist() == found


def test_a_new_table_is_taken_in(small: Path) -> None:
    extra = TableSchema("Extra", (Type("int"),), True, (Field("x", Type("int")),))
    with Store.open(small, [*SCHEMAS, extra]) as store:
        store.commit({"Extra": pa.table({"key": [1], "x": [2]})}, {})
    with ms.open(small) as db:
        assert (db.tables, db.get("Extra", 1)) == (["Account", "Extra", "Visit"], {"x": 2})
        assert db.get("Account", 3) == {"balance": 31, "owner": "c"}


def test_what_changes_nothing_rewrites_nothing(small: Path) -> None:
    before = (small / "FORMAT").stat().st_ino
    fields = (Field("owner", Type("str"), "nobody"), Field("balance", Type("int"), 7))
    Store.open(small, [VISIT, TableSchema("Account", ACCOUNT.key, True, fields, ("solvent",))]).close()
    assert (small / "FORMAT").stat().st_ino == before


def test_a_directory_of_an_older_format_is_taken_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(frame, "FORMAT_VERSION", 1)
        with Store.open(tmp_path, SCHEMAS) as store:
            store.commit({"Account": accounts([(1, 10, "a")])}, {})
    monkeypatch.setattr(frame, "FORMAT_VERSION", 7)
    assert read_format(Layout(tmp_path)).version == 1
    with Store.open(tmp_path, SCHEMAS) as store:
        assert loaded(store, SCHEMAS)["Account"].num_rows == 1
    assert read_format(Layout(tmp_path)).version == 7


def test_a_damaged_directory_stays_as_it_is(small: Path) -> None:
    segment = max((small / "log").iterdir())
    data = bytearray(segment.read_bytes())
    data[60] ^= 1
    segment.write_bytes(data)
    before = (small / "FORMAT").read_bytes()
    with pytest.raises(CorruptError):
        Store.open(small, grown())
    assert (small / "FORMAT").read_bytes() == before


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([ACCOUNT, LOG], ["table Visit is in the directory, not in the program", "declare it again"]),
        (
            [ACCOUNT, LOG, replace(VISIT, key=(Type("int"),), scalar_key=True)],
            ["table Visit: its key is (str, int) in the directory, int in the program", "keys can't change"],
        ),
        (
            [ACCOUNT, LOG, replace(VISIT, fields=(Field("count", Type("float")),))],
            ["table Visit: field count is int in the directory, float in the program", "declare it as int"],
        ),
        (
            [ACCOUNT, LOG, replace(VISIT, fields=(Field("times", Type("int"), 0),))],
            ["field count is int in the directory, missing in the program", "if times is its new name, keep the old"],
        ),
        (
            [with_fields(ACCOUNT, Field("ids", Type("int", length=3))), LOG, VISIT],
            ["Account: field ids is missing in the directory, Array[int, 3] in the program", "ids = [0, 0, 0]"],
        ),
        (
            [ACCOUNT, history_schema("Log", LOG.key, True, ENTRIES, (), 9), VISIT],
            ["history Log keeps 8 entries in the directory, 9 in the program", "keep=8"],
        ),
        (
            [ACCOUNT, history_schema("Log", LOG.key, True, (*ENTRIES, Field("kind", Type("str"))), (), 8), VISIT],
            ["entries have amount: int in the directory, amount: int, kind: str in the program", "another name"],
        ),
        (
            [ACCOUNT, replace(LOG, fields=ENTRIES), VISIT],
            ["table Log is a history in the directory, a plain table in the program", "another name"],
        ),
    ],
)
def test_other_changes_are_refused_with_the_reason_and_the_remedy(
    given: list[TableSchema], told: list[str], tmp_path: Path
) -> None:
    Store.open(tmp_path, [*SCHEMAS, LOG]).close()
    before = (tmp_path / "FORMAT").read_bytes()
    with pytest.raises(StoreError) as caught:
        Store.open(tmp_path, given)
    for text in (*told, str(tmp_path), "mainstem export", "initial="):
        assert text in str(caught.value)
    assert (tmp_path / "FORMAT").read_bytes() == before


def test_an_array_of_another_length_is_refused(tmp_path: Path) -> None:
    Store.open(tmp_path, [with_fields(ACCOUNT, Field("ids", Type("int", length=3)))]).close()
    with pytest.raises(StoreError, match=r"field ids is Array\[int, 3\] in the directory, Array\[int, 4\] in the prog"):
        Store.open(tmp_path, [with_fields(ACCOUNT, Field("ids", Type("int", length=4), [0] * 4))])


def test_readers_that_were_open_see_the_new_field_when_they_look_again(small: Path) -> None:
    with ms.open(small) as following, ms.open(small, follow=False) as staying:
        old = following.get("Account", 3)
        with Store.open(small, (with_fields(ACCOUNT, Field("score", Type("int"), 5)), VISIT)) as store:
            row = {"score": [1], "key": [9], "balance": [1], "owner": ["e"]}
            store.commit({"Account": pa.table(row)}, {})
            assert following.get("Account", 3) == {"score": 5, **(old or {})}
            assert following.get("Account", 9) == {"score": 1, "balance": 1, "owner": "e"}
            assert (staying.get("Account", 3), staying.get("Account", 9)) == (old, None)
            staying.refresh()
            assert staying.get("Account", 9) == {"score": 1, "balance": 1, "owner": "e"}


def test_a_task_writes_rows_of_today(small: Path) -> None:
    with Store.open(small, (ACCOUNT, with_fields(VISIT, Field("last", Type("int"), -1)))) as store:
        with pytest.raises(StoreError, match="table Visit has the columns"):
            write_shard_file(small, 7, "old", {"Visit": visits([("x", 1, 1)])}, base=False)
        rows = visits([("x", 1, 9)]).append_column("last", pa.array([4]))
        store.commit({}, {}, [write_shard_file(small, 7, "new", {"Visit": rows}, base=False)])
    with ms.open(small) as db:
        assert db.get("Visit", ("x", 1)) == {"last": 4, "count": 9}
        assert db.get("Visit", ("y", 1)) == {"last": -1, "count": 1}


def bank(version: int) -> App:
    """Version 2 has a field and a table more, and uses them."""
    app = ms.App("bank")

    @app.event
    class Transfer:
        source: int
        target: int
        amount: int

    if version == 1:

        @app.table(key=int)
        class Account:
            balance: int = 100

        @app.on(Transfer)
        def move(e):
            Account[e.source].balance -= e.amount
            Account[e.target].balance += 2 * e.amount

    else:

        @app.table(key=int)
        class Account:
            limit: int = 40
            balance: int = 100

        @app.table(key=int)
        class Seen:
            times: int = 0

        @app.on(Transfer)
        def move(e):
            ms.require(e.amount <= Account[e.source].limit, "over the limit")
            Account[e.source].limit -= 1
            Account[e.source].balance -= e.amount
            Account[e.target].balance += 2 * e.amount
            Seen[e.source].times += 1
            return {"left": Account[e.source].balance}

    return app


def transfers(first: int, count: int) -> pa.Table:
    rows = range(first, first + count)
    amounts = [(i * 13) % 60 for i in rows]
    return pa.table({"ts": list(rows), "source": [i % 7 for i in rows], "target": [i * 3 % 11 for i in rows],
                     "amount": amounts})  # fmt: skip


@pytest.mark.parametrize("engine", ["serial", "chains"])
def test_a_program_with_more_fields_goes_on_as_if_they_had_been_there(tmp_path: Path, engine: str) -> None:
    bank(1).run(transfers(0, 100), state=tmp_path / "state", batch=30, jit=False)
    with ms.open(tmp_path / "state") as db:
        old = db.table("Account")
    oracle = bank(2)
    start = {"Account": old.append_column("limit", pa.array([40] * old.num_rows))}
    wanted = oracle.run(transfers(100, 80), initial=start, engine="oracle")
    app = bank(2)
    result = app.run(transfers(100, 80), state=tmp_path / "state", batch=30, engine=engine, jit=False)
    assert result.digest == wanted.digest
    assert result.outputs["left"].to_pylist() == wanted.outputs["left"].to_pylist()
    assert result.outputs["seq"][0].as_py() == 100
    with ms.open(tmp_path / "state") as db:
        assert digest({t: db.table(t).select(app.state[t].column_names) for t in db.tables}) == wanted.digest
    with pytest.raises(StoreError, match=r"field limit is int in the directory, missing in the program"):
        bank(1).run(transfers(180, 1), state=tmp_path / "state")
