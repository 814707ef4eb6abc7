"""`result.why(seq)`: the condition and the values behind a decision, and the transactions it depended on.

The second half compares what it says on generated programs with what the serial run shows.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import programs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mainstem as ms
from mainstem.engine.interpret import Interpreter
from mainstem.gate import open_events
from mainstem.testing import generate_case
from mainstem.why import Condition, Dependency, Outcome, Read
from mainstem.why.report import ABORTED, NOT_REACHED, OVERWRITES, READS, UNCHANGED

shop = ms.App("shop")
LIMIT = 50


@shop.event
class Sale:
    item: str
    count: int
    force: bool = False


@shop.event
class Rename:
    item: str
    name: str


@shop.event
class Note:
    text: str


@shop.table(key=str)
class Item:
    stock: int = 10
    sold: int = 0
    name: str = ""
    closed: bool = False

    @ms.check
    def counted(row):
        return row.stock >= 0 and row.stock + row.sold == 10


@shop.table(key=(str, int))
class Hour:
    sold: int = 0


@shop.on(Sale)
def sell(e):
    item = Item[e.item]
    rest = item.stock - e.count
    ms.require(e.count < LIMIT and (rest >= 0 or e.force), "not enough")
    if item.closed:
        if e.count > 1:
            pass
        else:
            ms.abort("closed")
    item.stock = rest
    item.sold += e.count
    item.sold + 100 // (e.count + 2)


@shop.on(Sale)
def by_hour(e):
    ms.require(e.item in Item, "unknown item")
    Hour[e.item, e.ts // 10].sold += e.count


@shop.on(Rename)
def rename(e):
    if e.name == "closed":
        Item[e.item].closed = True
    elif e.name == "gone":
        del Item[e.item]
    elif e.name != "":
        Item[e.item].name = e.name


def line_of(function: Callable[..., Any], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def why(*events: Any, seq: int = -1, **options: Any) -> ms.Why:
    """Why the last of these events, or another one, did what it did."""
    result = shop.run(list(events), **{"jit": False, "engine": "serial", **options})
    return result.why(len(events) - 1 if seq < 0 else seq)


def sale(ts: int, count: int, item: str = "pen", **more: Any) -> Any:
    return Sale(ts=ts, item=item, count=count, **more)


def test_a_requirement_is_named_with_its_place_and_operands() -> None:
    found = why(sale(0, 4), sale(3, 7))
    assert (found.seq, found.event, found.ts, found.batch, found.first) == (1, "Sale", 3, 0, 0)
    assert found.values == {"item": "pen", "count": 7, "force": False}
    assert [(f.function, f.status, f.reason) for f in found.functions] == [
        ("sell", "aborted", "not enough"),
        ("by_hour", "committed", None),
    ]
    sold, counted = found.functions
    assert sold.condition == Condition(
        "require",
        "e.count < LIMIT and (rest >= 0 or e.force)",
        __file__,
        line_of(sell, "not enough"),
        {"e.count": 7, "LIMIT": LIMIT, "rest": -1, "e.force": False},
    )
    assert sold.reads == (Read("Item", "pen", True, {"stock": 6}),)
    assert sold.depends_on == (Dependency(0, "sell", "Item", "pen", READS, True),)
    assert counted.condition is None
    assert counted.reads == (Read("Item", "pen", True, {}), Read("Hour", ("pen", 0), True, {"sold": 4}))
    # The first function of the same event could have sold more pens, so it had to be decided before.
    assert counted.depends_on == (
        Dependency(0, "sell", "Item", "pen", READS, True),
        Dependency(0, "by_hour", "Hour", ("pen", 0), READS, True),
        Dependency(1, "sell", "Item", "pen", ABORTED, False),
    )


def test_a_check_is_named_with_what_it_read() -> None:
    condition = why(sale(0, 12, force=True)).functions[0].condition
    expected = "row.stock >= 0 and row.stock + row.sold == 10"
    line = line_of(shop.spec.tables[0].checks[0], "return")
    assert condition == Condition("check", expected, __file__, line, {"row.stock": -2})


def test_an_abort_is_named_by_the_tests_around_it() -> None:
    condition = why(Rename(ts=0, item="pen", name="closed"), sale(1, 1)).functions[0].condition
    assert condition is not None and condition.kind == "abort"
    assert (condition.text, condition.line) == ("item.closed and (not e.count > 1)", line_of(sell, "ms.abort"))
    assert condition.values == {"item.closed": True, "e.count": 1}


def test_a_failed_computation_is_named_by_its_statement() -> None:
    condition = why(sale(0, -2)).functions[0].condition
    text, values = "item.sold + 100 // (e.count + 2)", {"item.sold": -2, "e.count": -2}
    assert condition == Condition("statement", text, __file__, line_of(sell, text), values)


def test_rows_that_are_missing_show_their_defaults() -> None:
    sold, counted = why(Rename(ts=0, item="pen", name="gone"), sale(1, 11)).functions
    assert sold.reads == (Read("Item", "pen", False, {"stock": 10}),)
    assert counted.reason == "unknown item"
    assert counted.condition is not None and counted.condition.values == {"e.item in Item": False}
    assert counted.reads == (Read("Item", "pen", False, {}),)


def test_every_kind_of_dependency() -> None:
    pens = (sale(0, 1), Rename(ts=1, item="pen", name=""), Rename(ts=2, item="pen", name="gone"))
    last = sale(3, 2)
    assert why(*pens[:2], last).functions[0].depends_on == (
        Dependency(0, "sell", "Item", "pen", READS, True),
        Dependency(1, "rename", "Item", "pen", UNCHANGED, True),
    )
    assert [(d.seq, d.how) for d in why(*pens).functions[0].depends_on] == [(0, OVERWRITES), (1, UNCHANGED)]
    assert why(pens[0], pens[1]).functions[0].depends_on == (Dependency(0, "sell", "Item", "pen", NOT_REACHED, True),)
    assert why(sale(0, 1), sale(1, 99), last).functions[0].depends_on == (
        Dependency(0, "sell", "Item", "pen", READS, True),
        Dependency(1, "sell", "Item", "pen", ABORTED, False),
    )
    assert why(sale(0, 1), sale(1, 1, "cup")).functions[0].depends_on == ()


@pytest.mark.parametrize(("idle", "sure"), [(1, True), (20, True), (80, False)])
def test_the_writer_is_found_behind_many_that_wrote_nothing(idle: int, sure: bool) -> None:
    events = [sale(0, 1), *(Rename(ts=1, item="pen", name="") for _ in range(idle)), sale(2, 1)]
    found = why(*events).functions[0].depends_on
    writer = (Dependency(0, "sell", "Item", "pen", READS, True),) if sure else ()
    assert found == (*writer, Dependency(idle, "rename", "Item", "pen", UNCHANGED, True))


def test_only_the_same_batch_counts() -> None:
    events = [sale(ts, 1) for ts in range(6)]
    found = why(*events, seq=3, batch=3)
    assert (found.batch, found.first, found.functions[0].depends_on) == (1, 3, ())
    assert found.functions[0].reads == (Read("Item", "pen", True, {"stock": 7, "closed": False, "sold": 3}),)
    assert [d.seq for d in why(*events, seq=4, batch=3).functions[0].depends_on] == [3]


def test_the_text_says_it_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = str(why(sale(0, 4), sale(3, 7)))
    assert (
        text
        == f"""event 1: Sale(ts=3, item='pen', count=7, force=False)
in batch 0, which begins with event 0

sell aborted: not enough
  required e.count < LIMIT and (rest >= 0 or e.force)
    {__file__}:{line_of(sell, "not enough")}
    e.count was 7
    LIMIT was 50
    rest was -1
    e.force was False
  before it
    Item['pen']: stock = 6
  depends on, in its batch
    event 0, sell, committed: Item['pen'], reads what it wrote

by_hour committed
  before it
    Item['pen']: there
    Hour['pen', 0]: sold = 4
  depends on, in its batch
    event 0, sell, committed: Item['pen'], reads what it wrote
    event 0, by_hour, committed: Hour['pen', 0], reads what it wrote
    event 1, sell, aborted: Item['pen'], it could have written the row, but aborted"""
    )
    monkeypatch.chdir(Path(__file__).parent)
    unknown = str(why(sale(0, 77)))
    assert f"\n    {Path(__file__).name}:{line_of(sell, 'not enough')}\n" in unknown
    assert "Item['pen']: not there, so stock = 10" in unknown
    assert str(why(Note(ts=0, text="hello"))).endswith("no function is bound to it")


ENGINES = [{"engine": "oracle"}, {"engine": "mvlk"}, {"engine": "tpg", "threads": 2}, {"engine": "components"}]


@pytest.mark.parametrize("options", ENGINES, ids=lambda options: options["engine"])
def test_every_engine_can_be_asked(options: dict[str, Any]) -> None:
    events = (sale(0, 4), sale(1, 3), sale(3, 7))
    assert why(*events, **options) == why(*events)


def test_every_form_of_input_that_can_be_read_again(tmp_path: Path) -> None:
    table = programs.events(200)
    pq.write_table(table, tmp_path / "log.parquet")
    objects = [programs.Transfer(**row) for row in table.to_pylist()]
    forms: list[Any] = [table, objects, tmp_path / "log.parquet", [table.slice(0, 90), table.slice(90)]]
    forms += [{programs.Transfer: table}, table.to_batches()[0]]
    options: dict[str, Any] = {"initial": programs.initial(), "batch": 40, "jit": False, "engine": "serial"}
    answers = [programs.app.run(form, **options).why(150) for form in forms]
    assert all(answer == answers[0] for answer in answers)
    result = programs.app.run(table, **options, out=tmp_path / "out")
    assert result.why(150) == answers[0]


def test_unsorted_and_rejected_events_are_counted_as_in_the_run() -> None:
    rows = [{"ts": ts, "src": 1, "dst": 2, "amount": 1 + ts} for ts in (3, 1, 2, 0, 7, 5, 0, 6, 4)]
    rows[2]["src"] = None
    options: dict[str, Any] = {"unsorted": "batch", "on_bad": "reject", "batch": 4, "jit": False, "engine": "serial"}
    result = programs.app.run(pa.Table.from_pylist(rows), initial=programs.initial(), **options)
    for row in result.outputs.to_pylist():
        assert result.why(row["seq"]).ts == row["ts"] == result.why(row["seq"]).values["amount"] - 1


words = ms.App("words")


@words.event
class Message:
    text: str


@words.table(key=str)
class Word:
    count: int = 0


@words.on(Message)
def split(e):
    for word in e.text.lower().split():
        ms.require(len(word) < 6, "long word")
        Word[word].count += 1


def test_interpreted_programs_can_be_asked() -> None:
    texts = ["a b", "B c", "a longest", "c b x"]
    result = words.run([Message(ts=i, text=text) for i, text in enumerate(texts)], batch=3)
    assert result.stats.engines == ("interpreted",)
    assert result.why(1).functions[0].depends_on == (Dependency(0, "split", "Word", "b", READS, True),)
    found = result.why(2).functions[0]
    assert found.reads == (Read("Word", "a", True, {"count": 1}),)
    assert found.condition == Condition(
        "require", "len(word) < 6", __file__, line_of(split, "long word"), {"word": "longest"}
    )
    assert result.why(3).functions[0].depends_on == ()
    assert [read.fields["count"] for read in result.why(3).functions[0].reads] == [1, 2, 0]


def test_what_can_not_be_asked_says_what_to_do(tmp_path: Path) -> None:
    table = programs.events(20)
    options: dict[str, Any] = {"initial": programs.initial(), "jit": False, "engine": "serial"}
    result = programs.app.run(table, **options)
    for seq in (20, -1):
        with pytest.raises(ms.MainstemError, match=rf"there is no event {seq}: the run had events 0 to 19"):
            result.why(seq)
    durable = programs.app.run(table, **options, state=tmp_path / "state")
    with pytest.raises(ms.MainstemError, match=r"had state=[^$]*run the same log without state="):
        durable.why(3)
    for once in (iter([programs.Transfer(ts=0, src=1, dst=2, amount=1)]), table.to_reader(), [table.to_reader()]):
        with pytest.raises(ms.MainstemError, match=r"can be read once\n  run with a list"):
            programs.app.run(once, **options).why(0)
    with pytest.raises(ms.MainstemError, match="does not know its log"):
        pickle.loads(pickle.dumps(result)).why(3)


def test_a_log_that_has_changed_is_noticed(tmp_path: Path) -> None:
    path, table = tmp_path / "log.parquet", programs.events(20)
    pq.write_table(table, path)
    result = programs.app.run(path, initial=programs.initial(), jit=False, engine="serial")
    pq.write_table(table.slice(0, 5), path)
    with pytest.raises(ms.MainstemError, match="event 7 is gone: the log had more events when it ran, now it has 5"):
        result.why(7)
    pq.write_table(table.set_column(3, "amount", pa.array([-1] * 20)), path)
    with pytest.raises(ms.MainstemError, match=r"it was committed, now it is aborted \(amount must be positive\)"):
        result.why(next(row["seq"] for row in result.outputs.to_pylist() if row["status"] == "committed"))


# -- generated programs -------------------------------------------------------------------------------------------

PROGRAMS, CHUNK, EVENTS = 25, 5, 24
BATCHES = (1, 5, 24)
Row = tuple[str, Any]


class Diary(Interpreter):
    """The oracle, with the state before each transaction and the rows that it changed."""

    def __init__(self, app: Any) -> None:
        super().__init__(app.spec, None)
        self.pages: list[tuple[dict[str, dict[Any, Any]], set[Row]]] = []

    def transaction(self, name: str, function: Callable[..., Any], event: SimpleNamespace) -> dict[str, Any]:
        before = {table: dict(rows) for table, rows in self.rows.items()}
        for keys in self.changed.values():
            keys.clear()
        done = super().transaction(name, function, event)
        self.pages.append((before, {(table, key) for table, keys in self.changed.items() for key in keys}))
        return done


def check_outcome(diary: Diary, at: int, first: int, outcome: Outcome, done: list[dict[str, Any]]) -> int:
    """Compares one transaction with the diary; gives the number of values that were traced to their writer."""
    before, _ = diary.pages[at]
    traced = 0
    for read in outcome.reads:
        record = before[read.table].get(read.key)
        assert read.exists == (record is not None)
        expected = record or diary.defaults[read.table]
        assert repr(read.fields) == repr({name: expected[name] for name in read.fields})
        writers = [j for j in range(first, at) if (read.table, read.key) in diary.pages[j][1]]
        named = [
            (d.seq, d.function) for d in outcome.depends_on if (d.table, d.key, d.how) == (read.table, read.key, READS)
        ]
        assert named == [(done[j]["seq"], done[j]["function"]) for j in writers[-1:]]
        traced += len(named)
    for d in outcome.depends_on:
        j = next(j for j, row in enumerate(done) if (row["seq"], row["function"]) == (d.seq, d.function))
        assert first <= j < at and d.committed == (done[j]["status"] == "committed")
        assert ((d.table, d.key) in diary.pages[j][1]) or d.how not in (READS, OVERWRITES)
        assert (d.how == ABORTED) == (not d.committed)
    return traced


def check_program(seed: int) -> int:
    case = generate_case(seed, n=EVENTS)
    app, events, batch = case.module.app, case.stream.tables(1), BATCHES[seed % len(BATCHES)]
    result = app.run(events, batch=batch, jit=False, engine="serial" if app.program.compiled else "auto")
    diary = Diary(app)
    stream, _ = open_events(events, app.program.events, derives=app.program.derives, columns=app.program.used_columns)
    done = [row for piece in stream for row in diary.run(piece, 0)]
    traced = 0
    for seq in range(0, EVENTS, 3):
        found = result.why(seq)
        own = [i for i, row in enumerate(done) if row["seq"] == seq]
        start = next(i for i, row in enumerate(done) if row["seq"] >= seq // batch * batch)
        assert [(f.function, f.status, f.reason) for f in found.functions] == [
            (done[i]["function"], done[i]["status"], done[i]["reason"]) for i in own
        ]
        for i, outcome in zip(own, found.functions, strict=True):
            assert (outcome.condition is not None) == (outcome.status == "aborted")
            traced += check_outcome(diary, i, start, outcome, done)
        assert str(found).startswith(f"event {seq}: ")
    return traced


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_why_agrees_with_the_serial_run(first: int) -> None:
    assert sum(check_program(seed) for seed in range(first, first + CHUNK)) > CHUNK
