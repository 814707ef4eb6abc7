"""`export` and `restore`: what goes out comes back, and a program goes on from there."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tools_support import SCHEMAS, bank, transfers

import mainstem as ms
from mainstem import tools
from mainstem.errors import CorruptError, InputError, QueryError
from mainstem.schema import Field, TableSchema, Type
from mainstem.state import State, TableState, digest
from mainstem.store import QUERIES, Store, pending, write_shard_file
from mainstem.store.partitions import SHARDS

WIDE = TableSchema(
    "Wide", (Type("str"), Type("bytes"), Type("datetime")), False,
    (*(Field(base, Type(base)) for base in ("int", "float", "bool", "str", "bytes", "datetime")),
     *(Field(f"{base}s", Type(base, length=2)) for base in ("int", "float", "bool"))),
)  # fmt: skip
TEXTS = ["", "null", "NaN", 'a "quoted" word', "two\nlines", "a,b", "ä€", " "]


def wide_rows() -> pa.Table:
    """A row for every text and every special number."""
    floats = [0.1, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308, 1 / 3]
    rows = [
        {"key_0": text, "key_1": bytes([n, 0, 255]), "key_2": n, "int": (-1) ** n * 2**62, "float": value,
         "bool": n % 2 == 0, "str": text, "bytes": text.encode(), "datetime": n * 10**15 + 1,
         "ints": [n, -(2**63)], "floats": [value, -value], "bools": [True, False]}
        for n, (text, value) in enumerate(zip(TEXTS, floats, strict=True))
    ]  # fmt: skip
    state = State({"Wide": WIDE})
    state.apply("Wide", pa.Table.from_pylist(rows, schema=WIDE.arrow))
    return state.export()["Wide"]


def state_of(path: Path) -> dict[str, pa.Table]:
    with ms.open(path) as db:
        return {name: db.table(name) for name in db.tables}


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_every_type_makes_the_round_trip(tmp_path: Path, form: str) -> None:
    rows = wide_rows()
    with Store.open(tmp_path / "state", [WIDE]) as store:
        store.commit({"Wide": rows}, {"seq": 8, "ts": 80})
    made = tools.export(tmp_path / "state", tmp_path / "out", format=form)
    assert (made.epoch, made.seq, made.ts, made.rows) == (1, 8, 80, {"Wide": 8})
    back = tools.restore(tmp_path / "out", tmp_path / "again")
    again = state_of(tmp_path / "again")["Wide"]
    assert back.digest == made.digest == digest({"Wide": again})
    differing = [n for n in rows.column_names if digest({"": rows.select([n])}) != digest({"": again.select([n])})]
    assert differing == ([] if form == "parquet" else ["floats"]), "the sign of a NaN"
    assert str(again["floats"].to_pylist()) == str(rows["floats"].to_pylist())


def test_the_manifest_tells_what_the_files_are(directory: Path, tmp_path: Path) -> None:
    made = tools.export(directory, tmp_path / "out")
    told = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (told["epoch"], told["seq"], told["ts"], told["digest"]) == (made.epoch, made.seq, made.ts, made.digest)
    assert told["digest"] == digest(state_of(directory))
    assert told["tables"]["Visit"]["rows"] == state_of(directory)["Visit"].num_rows
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"Account.parquet", "Visit.parquet", "manifest.json"}


def test_an_empty_state_makes_the_round_trip(tmp_path: Path) -> None:
    Store.open(tmp_path / "state", [WIDE, *SCHEMAS]).close()
    for form in ("parquet", "csv"):
        tools.export(tmp_path / "state", tmp_path / form, format=form)
        tools.restore(tmp_path / form, tmp_path / f"{form}-again")
        assert digest(state_of(tmp_path / f"{form}-again")) == digest(state_of(tmp_path / "state"))


def test_some_tables_of_an_earlier_version(directory: Path, tmp_path: Path) -> None:
    with ms.open(directory) as db, db.as_of(batch=20) as old:
        wanted = old.table("Account")
    for number, asked in enumerate(({"as_of_batch": 20}, {"as_of_ts": 120})):
        made = tools.export(directory, tmp_path / f"out{number}", tables=["account"], **asked)
        assert (made.epoch, made.ts, list(made.rows)) == (20, 120, ["Account"])
        assert pq.read_table(tmp_path / f"out{number}" / "Account.parquet").equals(wanted)
    with pytest.raises(QueryError, match="keeps the versions after epoch 9 to 23, not 3"):
        tools.export(directory, tmp_path / "old", as_of_batch=3)
    with pytest.raises(QueryError, match="unknown table Nothing"):
        tools.export(directory, tmp_path / "old", tables=["Nothing"])
    assert not (tmp_path / "old").exists()


def test_large_tables_are_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstem.tools.exporting.ROWS_AT_ONCE", 10)
    with Store.open(tmp_path / "state", SCHEMAS) as store:
        keys = list(range(35))
        rows = pa.table({"key": keys, "balance": keys, "owner": [str(k) for k in keys]})
        store.commit({"Account": rows}, {})
    told: list[int] = []
    for form in ("parquet", "csv"):
        made = tools.export(tmp_path / "state", tmp_path / form, tables=["Account"], format=form, progress=told.append)
        assert tools.restore(tmp_path / form, tmp_path / f"{form}-again").digest == made.digest
    assert told == [10, 10, 10, 5] * 2
    assert pq.ParquetFile(tmp_path / "parquet" / "Account.parquet").num_row_groups == 4


def test_an_export_that_fails_leaves_nothing(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = TableState.export

    def failing(table: TableState) -> pa.Table:
        if table.schema.name == "Visit":
            raise MemoryError("no more")
        return real(table)

    monkeypatch.setattr(TableState, "export", failing)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(MemoryError):
        tools.export(directory, tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("action", [tools.export, tools.restore])
def test_what_is_there_is_never_overwritten(directory: Path, tmp_path: Path, action: object) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("precious")
    for target in (tmp_path / "full", tmp_path / "full" / "mine", directory):
        with pytest.raises(InputError, match="exists and is not empty"):
            action(directory, target)
    assert (tmp_path / "full" / "mine").read_text() == "precious"
    (tmp_path / "empty").mkdir()
    action(directory, tmp_path / "empty")
    assert any((tmp_path / "empty").iterdir())


def test_a_changed_file_is_refused(directory: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    tools.export(directory, out, format="csv")
    text = (out / "Account.csv").read_text()
    (out / "Account.csv").write_text(text.replace("1001", "1002", 1))
    with pytest.raises(CorruptError, match=r"Account\.csv does not hold the rows that were exported(.|\n)*--initial"):
        tools.restore(out, tmp_path / "again")
    (out / "Account.csv").unlink()
    with pytest.raises(CorruptError, match=r"Account\.csv can't be read"):
        tools.restore(out, tmp_path / "again")
    (out / "manifest.json").write_text("{")
    with pytest.raises(CorruptError, match=r"manifest\.json can't be read"):
        tools.restore(out, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"epoch": "7"}, "epoch is '7'"),
        ({"tables": []}, "'list' object"),
        ({"tables": {"Account": {}}}, "'schema' is missing"),
        ({"meta": None}, "meta is None"),
        ({"meta": {"seq": "many"}}, "seq is 'many'"),
        ({"meta": {"carried": []}}, "list indices"),
        ({"meta": {"carried": {"files": [{"name": "../x"}]}}}, "events that wait is '../x'"),
        ({"manifest": "1"}, "manifest is '1'"),
    ],
)
def test_a_damaged_manifest_is_refused(directory: Path, tmp_path: Path, change: dict[str, Any], told: str) -> None:
    manifest = tmp_path / "out" / "manifest.json"
    tools.export(directory, tmp_path / "out")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **change}))
    with pytest.raises(CorruptError, match=rf"manifest\.json can't be read: .*{told}"):
        tools.restore(tmp_path / "out", tmp_path / "again")


def test_what_restore_does_not_take(directory: Path, tmp_path: Path) -> None:
    tools.export(directory, tmp_path / "out")
    with pytest.raises(InputError, match="is an export of one version"):
        tools.restore(tmp_path / "out", tmp_path / "again", as_of_batch=3)
    told = json.loads((tmp_path / "out" / "manifest.json").read_text())
    (tmp_path / "out" / "manifest.json").write_text(json.dumps({**told, "manifest": 99}))
    with pytest.raises(InputError, match="is of version 99"):
        tools.restore(tmp_path / "out", tmp_path / "again")
    (tmp_path / "out" / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"no manifest\.json\n.*--initial"):
        tools.restore(tmp_path / "out", tmp_path / "again")


@pytest.mark.parametrize("through", ["export", "directory"])
def test_a_run_goes_on_from_a_restored_state(tmp_path: Path, through: str) -> None:
    """At the end it is where a run that was never interrupted is: same rows, same numbers of events."""
    events = transfers(0, 200)
    wanted = bank().run(events, engine="oracle")
    bank().run(events.slice(0, 130), state=tmp_path / "state", batch=30, jit=False)
    if through == "export":
        tools.export(tmp_path / "state", tmp_path / "saved", as_of_batch=3)
        tools.restore(tmp_path / "saved", tmp_path / "again")
    else:
        tools.restore(tmp_path / "state", tmp_path / "again", as_of_batch=3)
    found = tools.inspect(tmp_path / "again")
    assert (found.seq, found.ts) == (90, 89)
    result = bank().run(events, state=tmp_path / "again", resume=True, batch=30, jit=False)
    assert result.digest == wanted.digest
    assert result.outputs["seq"].to_pylist() == list(range(90, 200))
    assert result.outputs["left"].to_pylist() == wanted.outputs["left"].to_pylist()[90:]
    with pytest.raises(InputError, match="is committed up to ts 199"):
        bank().run(transfers(150, 1), state=tmp_path / "again", jit=False)
    with ms.open(tmp_path / "state") as db:
        assert db.meta["seq"] == 130, "the source stays as it is"


def test_live_queries_go_along_and_files_of_the_other_do_not(tmp_path: Path) -> None:
    rows = {"Visit": pa.table({"key_0": ["a"], "key_1": [1], "count": [3]})}
    with Store.open(tmp_path / "state", SCHEMAS) as store:
        files = [write_shard_file(store.path, 0, "one", rows, base=True)]
        meta = {"seq": 5, "ts": 9, QUERIES: {"q": 3}, SHARDS: 1, "emitted": ["x"], **pending(tmp_path, [])}
        store.commit({}, meta, files)
    made = tools.restore(tmp_path / "state", tmp_path / "again")
    assert made.rows == {"Account": 0, "Visit": 1}
    with Store.open(tmp_path / "again", SCHEMAS) as store:
        assert store.meta == {"seq": 5, "ts": 9, QUERIES: {"q": 3}}
        assert store.shard_files == {}
    assert digest(state_of(tmp_path / "again")) == digest(state_of(tmp_path / "state"))


def test_a_field_that_was_taken_in_later_goes_along(directory: Path, tmp_path: Path) -> None:
    """Rows of the export have it; whoever opens the restored directory needs no default for it."""
    score = Field("score", Type("int"), 5)
    wider = (TableSchema("Account", SCHEMAS[0].key, True, (*SCHEMAS[0].fields, score)), SCHEMAS[1])
    Store.open(directory, wider).close()
    tools.export(directory, tmp_path / "out")
    tools.restore(tmp_path / "out", tmp_path / "again")
    assert set(state_of(tmp_path / "again")["Account"]["score"].to_pylist()) == {5}
    Store.open(tmp_path / "again", wider).close()
