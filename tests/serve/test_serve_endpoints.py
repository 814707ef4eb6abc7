"""What every endpoint answers, in JSON and in Arrow, for right and for wrong requests."""

from __future__ import annotations

import datetime
from urllib.parse import quote

import pyarrow as pa
import pytest
from serve_support import ACCOUNT, ACCOUNTS, NOON, TOTAL, Client

ARROW = "application/vnd.apache.arrow.stream"


def test_status(client: Client) -> None:
    answer = client.get("/v1/status")
    assert answer.json == {
        "epoch": 3,
        "ts": 30,
        "seq": 7,
        "tables": {"Account": ACCOUNTS, "Blob": 2, "Moment": 1, "Visit": 4},
    }
    assert answer.epoch == 3


def test_tables(client: Client) -> None:
    tables = {table.pop("name"): table for table in client.get("/v1/tables").json["tables"]}
    assert sorted(tables) == ["Account", "Blob", "Moment", "Visit"]
    assert tables["Visit"] == {
        "key": [{"name": "key_0", "type": "str"}, {"name": "key_1", "type": "int"}],
        "fields": [{"name": "count", "type": "int"}],
    }
    assert tables["Moment"]["fields"][2] == {"name": "pair", "type": "Array[float, 2]"}


@pytest.mark.parametrize(
    ("path", "row"),
    [
        ("Account/rows/0", {"key": 0, "balance": 80, "owner": "ann"}),
        ("account/rows/+1", {"key": 1, "balance": 120, "owner": "ann"}),
        ("Visit/rows/north/7", {"key_0": "north", "key_1": 7, "count": 1}),
        ("Visit/rows/a%2Fb%20c%25/-1", {"key_0": "a/b c%", "key_1": -1, "count": 2}),
        ("Visit/rows//0", {"key_0": "", "key_1": 0, "count": 3}),
        ("Visit/rows/Z%C3%BCrich/1", {"key_0": "Zürich", "key_1": 1, "count": 4}),
        ("Blob/rows/%00%ff%2f", {"key": "AP8v", "data": "AQI=", "weight": "NaN"}),
        ("Blob/rows/x", {"key": "eA==", "data": "", "weight": "-Infinity"}),
        (
            "Moment/rows/2026-01-31T13:00:00%2B01:00",
            {"key": NOON.isoformat(), "open": True, "until": NOON.isoformat(), "pair": [0.5, -0.5]},
        ),
    ],
)
def test_a_row_by_its_key(client: Client, path: str, row: dict[str, object]) -> None:
    answer = client.get(f"/v1/tables/{path}")
    assert (answer.status, answer.epoch, answer.json) == (200, 3, row)


def test_a_row_as_arrow(client: Client) -> None:
    table = client.get("/v1/tables/Account/rows/0", accept=ARROW).arrow
    assert table.schema.equals(ACCOUNT.arrow)
    assert table.to_pylist() == [{"key": 0, "balance": 80, "owner": "ann"}]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("Account/rows/99", 404, "Account has no row with the key 99"),
        ("Nothing/rows/1", 404, "no table 'Nothing'; there are: Account, Blob, Moment, Visit"),
        ("Account/rows/1/2", 400, "a key of Account is rows/{int}, found 2 part(s)"),
        ("Visit/rows/north", 400, "rows/{str}/{int}"),
        ("Account/rows/1_0", 400, "64-bit integer, found '1_0'"),
        ("Account/rows/9223372036854775808", 400, "64-bit integer"),
        ("Account/rows/%EF%BC%91", 400, "64-bit integer"),
        ("Visit/rows/%ff/1", 400, "Visit.key_0 is not UTF-8"),
        ("Visit/rows/%f/1", 400, "without two hexadecimal digits"),
        ("Moment/rows/noon", 400, "a time like"),
        ("Account/rows/1?batches=1", 400, "unknown parameter 'batches'; there are: batch, ts"),
        ("Account/rows/1?batch=1&batch=2", 400, "given twice"),
        ("Account/rows/1?batch=1&ts=2", 400, "not both"),
        ("Account/rows/1?batch=-1", 400, "at least 0"),
        ("Account/rows/1?batch=1e3", 400, "whole number"),
        ("Account/rows", 404, "no such endpoint"),
        ("Account", 404, "no such endpoint"),
    ],
)
def test_wrong_rows(client: Client, path: str, status: int, words: str) -> None:
    answer = client.get(f"/v1/tables/{path}")
    assert answer.status == status
    assert words in answer.detail


def test_earlier_versions(client: Client) -> None:
    def balance(version: str) -> tuple[int, int]:
        answer = client.get(f"/v1/tables/Account/rows/0{version}")
        return answer.epoch, answer.json["balance"]

    assert [balance(f"?batch={batch}") for batch in (1, 2, 3, 1)] == [(1, 100), (2, 90), (3, 80), (1, 100)]
    assert [balance(f"?ts={ts}") for ts in (10, 19, 25, 99)] == [(1, 100), (1, 100), (2, 90), (3, 80)]
    answer = client.post("/v1/sql?batch=2", {"query": "select max(balance) m from account"})
    assert (answer.epoch, answer.json["rows"]) == (2, [{"m": 110}])
    answer = client.get("/v1/tables/Account/scan?ts=15&where=balance%3C%3E100")
    assert (answer.epoch, answer.json["rows"]) == (1, [])


@pytest.mark.parametrize("version", ["batch=4", "batch=9223372036854775807"])
def test_versions_that_do_not_exist(client: Client, version: str, folder: object) -> None:
    answer = client.get(f"/v1/tables/Account/rows/0?{version}")
    assert answer.status == 404
    assert "keeps the versions after epoch 0 to 3" in answer.detail
    assert str(folder) not in answer.detail


def test_scan(client: Client) -> None:
    answer = client.get(f"/v1/tables/Account/scan?where={quote('balance > 90 and key < 5')}&columns=balance,key")
    assert answer.json == {
        "epoch": 3,
        "truncated": False,
        "columns": [{"name": "balance", "type": "int64"}, {"name": "key", "type": "int64"}],
        "rows": [{"balance": 120, "key": 1}] + [{"balance": 100, "key": key} for key in (2, 3, 4)],
    }
    body = {"where": "balance > 90 and key < 5", "columns": ["balance", "key"]}
    assert client.post("/v1/tables/Account/scan", body).json == answer.json


def test_scan_as_arrow(client: Client) -> None:
    answer = client.get("/v1/tables/Moment/scan", accept=f"application/json;q=0.5, {ARROW}")
    assert answer.arrow.to_pylist() == [{"key": NOON, "open": True, "until": NOON, "pair": [0.5, -0.5]}]
    assert answer.headers["mainstem-truncated"] == "false"
    preferred = client.get("/v1/tables/Moment/scan", accept=f"application/json, {ARROW};q=0.5")
    assert preferred.headers["content-type"] == "application/json"


def test_rows_are_cut_off_and_the_answer_says_so(client: Client) -> None:
    for path, keys in (("scan", 15), ("scan?limit=3", 3), ("scan?limit=1000", 15)):
        answer = client.get(f"/v1/tables/Account/{path}")
        assert [row["key"] for row in answer.json["rows"]] == list(range(keys))
        assert answer.json["truncated"] is True
        assert answer.headers["mainstem-truncated"] == "true"
    answer = client.post("/v1/sql", {"query": "select * from range(100000000000)", "limit": 2}, accept=ARROW)
    assert answer.arrow["range"].to_pylist() == [0, 1]
    assert answer.headers["mainstem-truncated"] == "true"
    assert client.get("/v1/tables/Account/scan?limit=0").json["rows"] == []


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("?limit=-1", 400, "limit is a whole number, at least 0; found '-1'"),
        ("?limit=many", 400, "limit"),
        ("?columns=balance,nothing", 422, "no column 'nothing'"),
        ("?where=balance%20%3E", 422, "the query failed"),
        ("?where=nothing=1", 422, "nothing"),
        ("?where=%00", 422, ""),
        ("?order=1", 400, "unknown parameter 'order'"),
    ],
)
def test_wrong_scans(client: Client, path: str, status: int, words: str) -> None:
    answer = client.get(f"/v1/tables/Account/scan{path}")
    assert (answer.status, words in answer.detail) == (status, True), answer.detail


def test_sql(client: Client) -> None:
    assert client.sql("select sum(balance) s, count(*) n from Account").json["rows"] == [{"s": TOTAL, "n": ACCOUNTS}]
    joined = "select v.count from Account a join Visit v on v.key_1 = a.key where a.key = $key"
    assert client.sql(joined, {"key": 7}).json["rows"] == [{"count": 1}]
    values = client.sql("select ? as text, ? as number, ? as flag, ? as nothing", ["é", 1.5, True, None])
    assert values.json["rows"] == [{"text": "é", "number": 1.5, "flag": True, "nothing": None}]


def test_values_that_json_has_no_form_for(client: Client) -> None:
    query = """select 1e308 * 10 as big, 'nan'::float as nan, 12.25::decimal(9, 2) as price, 2::hugeint ** 100 as power,
        'x'::blob as blob, date '2026-01-31' as day, time '12:00:01' as clock, interval 1 day as span,
        [1, 2] as list, {'a': 'nan'::float} as struct, map {'k': 1} as map,
        '00000000-0000-0000-0000-000000000001'::uuid as id, timestamptz '2026-01-31 12:00:00+00' as zoned"""
    answer = client.sql(query)
    assert answer.status == 200, answer.body
    row = answer.json["rows"][0]
    assert row["nan"] == "NaN" and row["struct"] == {"a": "NaN"}
    assert row["price"] == 12.25 and row["blob"] == "eA==" and row["day"] == "2026-01-31"
    assert row["clock"] == "12:00:01" and row["list"] == [1, 2] and row["map"] == [["k", 1]]
    assert datetime.datetime.fromisoformat(row["zoned"]) == NOON.replace(tzinfo=datetime.UTC)


def test_years_that_python_has_no_dates_for(client: Client) -> None:
    answer = client.sql("select '290000-01-01'::timestamp as far, date '0044-03-15 (BC)' as ides, null::date as none")
    assert answer.json["rows"] == [{"far": "290000-01-01T00:00:00.000000", "ides": "-043-03-15", "none": None}]
    nested = client.sql("select ['290000-01-01'::timestamp] as far")
    assert nested.status == 422 and "cast it to text" in nested.detail
    assert client.sql("select ['290000-01-01'::timestamp] as far", accept=ARROW).status == 200


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "not JSON"),
        (b"{", 400, "not JSON"),
        (b"[]", 400, "a JSON object, found a list"),
        (b"7", 400, "found the number 7"),
        (b"\xff\xfe", 400, "not JSON"),
        (b"[" * 9000, 400, "not JSON"),
        (b'{"query": NaN}', 400, "NaN is not JSON"),
        (b'{"query": ' + b"9" * 5000 + b"}", 400, "not JSON"),
        (b"{}", 400, 'no "query"'),
        (b'{"query": 5}', 400, "query is text, found the number 5"),
        (b'{"query": "\\ud800"}', 400, "half a surrogate pair"),
        (b'{"query": "select 1", "params": "x"}', 400, "params is a list"),
        (b'{"query": "select ?", "params": [[1]]}', 400, "found a list"),
        (b'{"query": "select ?", "params": []}', 422, "parameter"),
        (b'{"query": "select $a", "params": {"b": 1}}', 422, ""),
        (b'{"query": "select ?", "params": [' + b"9" * 400 + b"]}", 422, ""),
        (b'{"query": "select 1", "limit": true}', 400, "limit"),
        (b'{"query": "select 1", "sql": 1}', 400, "unknown name 'sql'"),
        (b'{"query": ""}', 422, ""),
        (b'{"query": "selec 1"}', 422, "syntax error"),
        (b'{"query": "select 1; select 2"}', 422, "only read"),
        (b'{"query": "select * from nothing"}', 422, "nothing"),
        (b'{"query": "select 1/0::int, error(\'boom\')"}', 422, "boom"),
        (b'{"query": "select repeat(\'x\', 90000000)"}', 422, "more than 67,108,864 bytes"),
    ],
)
def test_wrong_sql(client: Client, body: bytes, status: int, words: str) -> None:
    answer = client.post("/v1/sql", body)
    assert (answer.status, words in answer.detail) == (status, True), answer.detail


def test_no_two_columns_have_the_same_name(client: Client) -> None:
    assert client.sql("select 1 as a, 2 as a").json["rows"] == [{"a": 1, "a_1": 2}]
    assert client.sql("select 1 as a, 2 as a", accept=ARROW).arrow.column_names == ["a", "a_1"]


def test_other_methods_are_refused_and_head_has_no_body(client: Client) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        answer = client.ask(method, "/v1/status", None)
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert client.get("/v1/sql").headers["allow"] == "POST"
    head, full = client.ask("HEAD", "/v1/status", None), client.get("/v1/status")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == full.headers["content-length"]
    assert client.ask("HEAD", "/v1/nothing", None).status == 404


def test_the_description_matches_the_endpoints(client: Client) -> None:
    document = client.get("/openapi.json").json
    assert document["openapi"].startswith("3.1")
    values = {"table": "Account", "key": "1"}
    for path, operations in document["paths"].items():
        assert set(operations) <= {"get", "post"}
        address = path.format(**values)
        assert client.ask("DELETE", address, None).status == 405
        for method, operation in operations.items():
            assert {"200", "400", "401", "429"} <= set(operation["responses"])
            query = "?seconds=0" if "watch" in path else ""
            body = b'{"query": "select 1"}' if path == "/v1/sql" else b"{}" if method == "post" else None
            assert client.ask(method.upper(), address + query, body).status == 200


def test_the_page_needs_nothing_from_elsewhere(client: Client) -> None:
    page = client.get("/")
    text = page.body.decode()
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "/v1/tables/{table}/scan" in text and "<script" not in text
    own = f"http://127.0.0.1:{client.port}/v1/status"
    assert own in text and "src=" not in text and "http" not in text.replace(own, "")


def test_arrow_answers_have_the_tables_types(client: Client) -> None:
    table = client.get("/v1/tables/Account/scan", accept=ARROW).arrow
    assert table.schema.types == [pa.int64(), pa.int64(), pa.string()]
