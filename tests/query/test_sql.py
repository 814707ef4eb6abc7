"""SQL that reads, and nothing else."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mainstem.errors import QueryError
from mainstem.query import open_db
from mainstem.query.shape import check_shape

WRITES = [
    "create table x as select 1",
    "create view v as select * from Account",
    "insert into Account values (9, 9, 'z')",
    "update Account set balance = 0",
    "delete from Account",
    "with x as (delete from Account returning *) select * from x",
    "with x as (insert into Account values (9, 9, 'z') returning *) select * from x",
    "select 1 as a into x",
    "drop view Account",
    "alter table Account add column x int",
    "merge into Account using Account a on false when not matched then insert",
    "copy Account to '{folder}/out.csv'",
    "copy (select 1) to '{folder}/out.parquet'",
    "export database '{folder}/out'",
    "attach '{folder}/out.db'",
    "attach '{folder}/out.db' as other",
    "detach memory",
    "install httpfs",
    "load httpfs",
    "update extensions",
    "set threads = 1",
    "set enable_external_access = true",
    "reset threads",
    "pragma database_list",
    "pragma enable_profiling",
    "use main",
    "call pragma_version()",
    "checkpoint",
    "vacuum",
    "begin",
    "prepare p as select 1",
    "explain analyze copy (select 1) to '{folder}/out.csv'",
    "select 1; select 2",
    "select 1; drop view Account",
    "",
    " ;",
    "-- nothing",
]

LEAKS = [
    "select * from read_csv('{file}')",
    "select * from read_text('{file}')",
    "select * from read_blob('{file}')",
    "select * from read_json('{file}')",
    "select * from read_parquet('{file}')",
    "select * from sniff_csv('{file}')",
    "select * from parquet_metadata('{file}')",
    "select * from '{file}'",
    "from '{file}'",
    "select * from glob('{folder}/*')",
    "select * from 'http://127.0.0.1:9/x.parquet'",
    "select * from read_csv('http://127.0.0.1:9/x.csv')",
    "select * from query('copy Account to ''{folder}/out.csv''')",
    "select * from query('select * from read_text(''{file}'')')",
    "select * from arrow_scan(1, 2, 3)",
    "select * from pandas_scan(1)",
    "select getenv('HOME')",
    "select * from db",
]


@pytest.mark.parametrize("query", WRITES)
def test_what_does_not_only_read_is_refused(small: Path, tmp_path: Path, query: str) -> None:
    with open_db(small) as db:
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(QueryError, match=r"queries only read|is refused|the query failed"):
            db.sql(query.format(folder=tmp_path))
        assert sorted(tmp_path.rglob("*")) == before
        assert db.sql("select count(*) n from Account").to_pylist() == [{"n": 3}]


@pytest.mark.parametrize("query", LEAKS)
def test_nothing_outside_of_the_tables_is_reached(small: Path, tmp_path: Path, query: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("the secret\n1\n")
    with open_db(small) as db, pytest.raises(QueryError, match="the query failed") as failure:
        db.sql(query.format(file=secret, folder=tmp_path))
    assert "the secret" not in str(failure.value)


def test_forms_that_read(small: Path) -> None:
    with open_db(small) as db:
        for query, rows in {
            "select count(*) from Account": 1,
            "with a as (select * from account) select * from a": 3,
            "values (1), (2)": 2,
            "from Account where balance > 20": 2,
            "describe Account": 3,
            "show tables": 2,
            "summarize Account": 3,
            "select * from query_table('Account')": 3,
            "select * from query('select * from Account')": 3,
            "pivot Account on owner in ('b', 'c') using sum(balance)": 3,
            "select 1 -- ; drop view Account": 1,
            "select * from Account a, Visit v where a.key = v.count": 2,
        }.items():
            assert db.sql(query).num_rows == rows, query


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("select " + "(" * 5000, "brackets within brackets"),
        ("select '" + ")" * 201 + "', " + "[" * 201, "brackets within brackets"),
        ("select E'\\'" + "(" * 201 + "'", "brackets within brackets"),
        ("select a" + ".a" * 300, "a name of more than 200 parts"),
        ('select a' + '."b,c"' * 300, "a name of more than 200 parts"),
    ],
)  # fmt: skip
def test_what_would_take_too_long_to_read_is_refused(query: str, told: str) -> None:
    with pytest.raises(QueryError, match=told):
        check_shape(query)


def test_long_queries_of_a_usual_shape_are_read(small: Path) -> None:
    pairs = ", ".join(f"({n}, '({n}')" for n in range(2000))
    with open_db(small) as db:
        assert db.sql(f"select count(*) n from (values {pairs}) t")["n"].to_pylist() == [2000]
        assert db.sql("select " + " + ".join(["Account.key"] * 500) + " as n from Account limit 1").num_rows == 1


def test_no_two_columns_of_an_answer_have_the_same_name(small: Path) -> None:
    with open_db(small) as db:
        assert db.sql("select 1 as a, 2 as a, 3 as A, 4 as a_1").column_names == ["a", "a_1", "A_2", "a_1_1"]


def test_settings_stay(small: Path) -> None:
    """Nothing is spilled to a folder, and nothing is fetched."""
    with open_db(small) as db:
        names = ("temp_directory", "enable_external_access", "lock_configuration", "autoload_known_extensions")
        answer = db.sql("select " + ", ".join(f"current_setting('{name}')::varchar as {name}" for name in names))
        assert answer.to_pylist() == [dict(zip(names, ("", "false", "true", "false"), strict=True))]


def test_a_table_that_is_not_named_plainly_is_refused_rather_than_empty(small: Path) -> None:
    with open_db(small) as db, pytest.raises(QueryError, match="the query does not name it"):
        db.sql("select * from query_table('Acc' || 'ount')")


def test_parameters(small: Path) -> None:
    with open_db(small) as db:
        assert db.sql("select key from Account where balance > ? and owner < ?", [20, "d"]).to_pylist() == [{"key": 3}]
        assert db.sql("select key from Account where owner = $who", {"who": "b"}).to_pylist() == [{"key": 2}]
        assert db.sql("select key from Account where owner = ?", ["' or 1=1 --"]).num_rows == 0
        for params in ([], [1, 2], {"x": 1}, [object()], ["\ud800"], [10**60]):
            with pytest.raises(QueryError, match="the query failed"):
                db.sql("select key from Account where balance > ?", params)
        assert db.sql("select key from Account where balance > ?", [39]).to_pylist() == [{"key": 4}]


def test_text_that_is_no_text(small: Path) -> None:
    with open_db(small) as db:
        for query in ("select '\ud800'", "select 1\0"):
            with pytest.raises(QueryError):
                db.sql(query)
        with pytest.raises(QueryError, match="a query is text, not int"):
            db.sql(5)  # type: ignore[arg-type]


def test_a_query_that_takes_too_long_is_stopped(small: Path) -> None:
    endless = "select count(*) from range(100000000000) a, Account"
    with open_db(small) as db:
        with pytest.raises(QueryError, match=r"took longer than 0.1 s and was stopped"):
            db.sql(endless, timeout=0.1)
        assert db.sql("select count(*) n from Account", timeout=60).to_pylist() == [{"n": 3}]
        stopper = threading.Timer(0.2, db.interrupt)
        stopper.start()
        with pytest.raises(QueryError, match="the query was stopped"):
            db.sql(endless)
        stopper.join()
        assert db.sql("select count(*) n from Account").to_pylist() == [{"n": 3}]


def test_threads_see_whole_versions(small: Path) -> None:
    wrong: list[object] = []

    def ask() -> None:
        for _ in range(20):
            found = db.sql("select sum(balance)::int s, count(*) n from Account", timeout=60).to_pylist()
            if found != [{"s": 91, "n": 3}]:
                wrong.append(found)

    with open_db(small) as db:
        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_nothing_is_left_in_the_current_folder(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with open_db(small) as db:
        db.sql("select a.range, b.range from range(1000) a, range(1000) b order by hash(a.range + b.range) limit 5")
    assert os.listdir(folder) == []


def test_scan(small: Path) -> None:
    with open_db(small) as db:
        assert db.scan("account") == db.table("Account")
        assert db.scan("Account", "balance > 20").to_pylist() == [
            {"key": 3, "balance": 31, "owner": "c"},
            {"key": 4, "balance": 40, "owner": "d"},
        ]
        assert db.scan("Account", columns=["owner"], limit=2).to_pylist() == [{"owner": "b"}, {"owner": "c"}]
        ordered = db.scan("Account", "key < ? -- few", params=[4], columns=["key"], order_by="balance desc", limit=1)
        assert ordered.to_pylist() == [{"key": 3}]
        assert db.scan("Visit", "key_0 = 'x'").to_pylist() == [{"key_0": "x", "key_1": 1, "count": 2}]
        assert db.scan("Account", limit=0).num_rows == 0
        for wrong, message in (
            ({"columns": ["nothing"]}, "table Account has no column 'nothing'\n  it has: key, balance, owner"),
            ({"columns": []}, "pass a list of names"),
            ({"columns": "key"}, "pass a list of names"),
            ({"limit": -1}, "limit=-1"),
            ({"limit": True}, "limit=True"),
            ({"where": "nothing > 1"}, "the query failed"),
            ({"where": "1=1); drop view Account; select (1"}, "queries only read"),
        ):
            with pytest.raises(QueryError, match=message):
                db.scan("Account", **wrong)
