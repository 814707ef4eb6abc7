"""Transaction groups: what members see, what ends where, and what their transaction leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

import mainstem as ms
from mainstem.errors import UserCodeError
from mainstem.testing import Outcome, assert_same, load_program

HEAD = """
import mainstem as ms

app = ms.App("groups")


@app.event
class Move:
    src: int
    dst: int
    amount: int
    keys: list[int]


@app.table(key=int)
class Account:
    balance: int = 10
    moves: int = 0

    @ms.check
    def solvent(row):
        return row.balance >= 0


@app.table(key=int)
class Used:
    total: int = 0


@app.table(key=(int, int))
class Pair:
    count: int = 0

"""
ENGINES = ("serial", "mvlk", "components", "chains", "tpg")
# src, dst, amount, keys
MOVES = [
    (1, 2, 4, [1]), (1, 2, 4, []), (2, 1, -3, [2, 3, 1]), (1, 2, 9, [4]), (3, 3, 5, [3, 1, 2]), (2, 3, 11, [1, 2]),
    (3, 1, 2, [9]), (1, 3, 0, [1, 4]), (2, 1, 7, [5, 5, 5]), (3, 2, 12, [2]), (1, 1, 1, [7]), (2, 3, 3, [3]),
]  # fmt: skip


def program(body: str) -> ModuleType:
    return load_program(HEAD + body, "group_program")


def agreed(module: ModuleType, moves: Sequence[Any] = MOVES, **options: Any) -> list[dict[str, Any]]:
    """The oracle's outputs, which all engines give."""
    events = [module.Move(ts=t, src=s, dst=d, amount=a, keys=tuple(k)) for t, (s, d, a, k) in enumerate(moves)]
    result = module.app.run(events, engine="oracle", **options)
    expected = Outcome(result.outputs, dict(module.app.state))
    if not module.app.program.compiled:
        interpreted = module.app.run(events, **options)
        assert_same(expected, Outcome(interpreted.outputs, dict(module.app.state)))
        return result.outputs.to_pylist()
    for engine in ENGINES:
        for batch in (100, 3):
            actual = module.app.run(events, engine=engine, jit=False, threads=2, batch=batch, **options)
            assert_same(expected, Outcome(actual.outputs, dict(module.app.state)), context=f"{engine}, {batch}")
    return result.outputs.to_pylist()


def balances(module: ModuleType) -> dict[int, int]:
    table = module.app.state["Account"]
    return dict(zip(table["key"].to_pylist(), table["balance"].to_pylist(), strict=True))


TWO = """
with app.atomic(Move):

    @app.on(Move)
    def take(e):
        Account[e.src].balance -= e.amount
        return {"taken_from": Account[e.src].balance}

    @app.on(Move)
    def give(e):
        Account[e.dst].balance += e.amount
        ms.require(Account[e.src].balance < 12, "too rich")
        return {"left": Account[e.src].balance}
"""


def test_members_are_one_transaction_and_see_earlier_writes() -> None:
    module = program(TWO)
    assert module.app.program.compiled
    rows = agreed(module, [(1, 2, 4, []), (1, 1, 50, []), (1, 2, 7, []), (2, 3, 3, [])])
    assert [r["status"] for r in rows] == ["committed", "committed", "aborted", "committed"]
    # The second one takes 50 from an account of 6 and gives it back: the check looks at the end of the group only.
    assert rows[1]["taken_from"] == -44 and rows[1]["left"] == 6
    assert rows[2] == {"ts": 2, "seq": 2, "event": "Move", "status": "aborted",
                       "reason": "check Account.solvent failed", "taken_from": None, "left": None}  # fmt: skip
    assert rows[3]["left"] == 11


def test_an_abort_in_the_last_member_undoes_all() -> None:
    module = program(TWO)
    rows = agreed(module, [(1, 2, -5, [])])
    assert rows[0]["reason"] == "too rich" and balances(module) == {}


def test_without_a_group_the_same_functions_are_two_transactions() -> None:
    module = program(TWO.replace("with app.atomic(Move):", "if True:"))
    rows = agreed(module, [(1, 2, -5, [])])
    assert [(r["function"], r["status"]) for r in rows] == [("take", "committed"), ("give", "aborted")]
    assert balances(module) == {1: 15}


RETURNS = """
LIMIT = 3

@app.on(Move)
def first(e):
    x = Used[e.src].total
    if e.amount < 0:
        return {"why": "negative"}
    if x > LIMIT:
        if e.amount > 4:
            Used[e.src].total = 0
            return
        x = x - 1
    else:
        for k in e.keys:
            if k == e.dst:
                return {"hit": k}
            if Account[k].moves > 1:
                Used[e.dst].total += 100
                return {"hit": -k}
            Account[k].moves += 1
    Used[e.src].total += x + e.amount
    return {"first": x + 0.5, "why": None}

@app.on(Move)
def second(event):
    x = 0
    while x < 4:
        x += 1
        if Used[event.src].total % 7 == x + 4:
            break
        if (Used[event.src].total + event.amount) % 4 == x - 1:
            return {"second": x > 2}
    Account[event.dst].moves += x

@app.on(Move)
def third(e):
    if e.amount == 0:
        ms.abort("nothing")
    return {"third": Used[e.src].total}

app.transaction(first, second, third, name="moved")
"""


def test_a_return_ends_its_own_function_only() -> None:
    module = program(RETURNS)
    (function,) = module.app.program.functions
    assert (function.name, function.members) == ("moved", ("first", "second", "third"))
    rows = agreed(module)
    committed = [r for r in rows if r["status"] == "committed"]
    assert all(r["third"] is not None for r in committed)
    assert {r["why"] for r in rows} == {None, "negative"} and len({r["hit"] for r in rows}) > 2
    assert {r["second"] for r in rows} == {None, False, True}
    assert [r["reason"] for r in rows].count("nothing") == 1


def test_columns_that_every_return_gives_are_not_nullable() -> None:
    module = program(TWO)
    assert not module.app.program.nullable_outputs
    module = program(RETURNS)
    assert module.app.program.nullable_outputs == {"why", "hit", "first", "second"}


def test_compiled() -> None:
    module = program(RETURNS)
    events = [module.Move(ts=t, src=s, dst=d, amount=a, keys=tuple(k)) for t, (s, d, a, k) in enumerate(MOVES * 5)]
    result = module.app.run(events, engine="oracle")
    expected = Outcome(result.outputs, dict(module.app.state))
    actual = module.app.run(events, engine="serial", jit=True)
    assert_same(expected, Outcome(actual.outputs, dict(module.app.state)))


KEYS = """
LIMIT = 3

@app.on(Move)
def one(e):
    key = (e.src, e.dst)
    Pair[key].count += 1
    if Account[e.src].balance < 8:
        return
    k = e.amount % 3
    if e.amount > 10:
        return {"one": k}
    k = k + 1
    Used[k].total += 1

def other_limit():
    LIMIT = 5

    @app.on(Move)
    def two(event):
        key = (event.dst, event.src)
        Pair[key].count += 10
        Account[event.src + LIMIT].moves += 1
        k = event.amount % 2
        Used[k].total += 1000
        for k in event.keys:
            if Used[k].total > 3000:
                return
            Used[k].total += 5
        return {"two": Account[event.src + LIMIT].moves}

    return two

@app.on(Move)
def three(e):
    Account[e.src + LIMIT].moves += 100

app.transaction(one, other_limit(), three)
"""


def test_names_are_those_of_each_function() -> None:
    """Locals, tuples, constants and the event itself may be called alike, or not, in members."""
    module = program(KEYS)
    assert module.app.program.compiled
    sites = [site.text for site in module.app.program.functions[0].sites]
    assert sites.count("Pair[key]") == 2 and sum("LIMIT" in text for text in sites) == 2
    agreed(module)
    pairs = module.app.state["Pair"].to_pylist()
    assert {"key_0": 3, "key_1": 3, "count": 11} in pairs and {"key_0": 9, "key_1": 9, "count": 0} not in pairs


def test_the_same_key_is_one_site() -> None:
    """Else a group that reads what it wrote would never be split into parts."""
    take, give = TWO.split("def give")
    module = program(take + "def give" + give.replace("(e)", "(event)").replace("e.", "event."))
    assert len(module.app.program.functions[0].sites) == 2
    agreed(module)


HISTORY = """
@app.history(key=int, keep=4)
class Seen:
    amount: int

with app.atomic(Move, name="seen"):

    @app.on(Move)
    def remember(e):
        Seen[e.src].append(amount=e.amount)
        if Seen[e.src].count(last=3) > 2:
            return {"often": True}

    @app.on(Move)
    def judge(e):
        ms.require(Seen[e.src].sum("amount", last=4) < 20, "too much")
        Used[e.dst].total = Seen[e.src].count(last=10)
"""


def test_histories_in_a_group() -> None:
    module = program(HISTORY)
    rows = agreed(module, [(1, 2, 9, []), (1, 2, 9, []), (1, 2, 9, []), (1, 3, 1, []), (1, 3, 1, [])])
    assert [r["reason"] for r in rows] == [None, None, "too much", None, None]
    # The third one was undone with its entry; of the last window two are left beside the own one.
    assert [r["often"] for r in rows] == [None, None, None, None, None]
    assert module.app.state["Used"].to_pylist() == [{"key": 2, "total": 2}, {"key": 3, "total": 4}]


def test_a_group_stands_at_the_place_of_its_first_function() -> None:
    body = """
@app.on(Move)
def a(e):
    Used[0].total = Used[0].total * 10 + 1

@app.on(Move)
def b(e):
    Used[0].total = Used[0].total * 10 + 2

@app.on(Move)
def c(e):
    Used[0].total = Used[0].total * 10 + 3
    return {"digits": Used[0].total}

app.transaction(c, a)
"""
    module = program(body)
    rows = agreed(module, [(1, 2, 0, [])])
    assert [(r["function"], r["digits"]) for r in rows] == [("a+c", 13), ("b", None)]
    assert module.app.state["Used"]["total"].to_pylist() == [132]


def test_interpreted_groups() -> None:
    body = TWO.replace("Account[e.src].balance -= e.amount", "Account[e.src].balance -= sum([e.amount])")
    module = program(body)
    assert not module.app.program.compiled
    rows = agreed(module, [(1, 2, 4, []), (1, 1, 50, []), (1, 2, 7, []), (2, 3, 3, [])])
    assert [r["status"] for r in rows] == ["committed", "committed", "aborted", "committed"]
    text = module.app.explain()
    assert "take+give on Move" in text and "one transaction of take, give" in text


def test_a_column_that_only_the_run_shows_to_be_returned_twice() -> None:
    """What is returned can't be read from the source of an interpreted program."""
    module = program("""
with app.atomic(Move):

    @app.on(Move)
    def one(e):
        return {"left": sorted([e.amount])[0]}

    @app.on(Move)
    def two(e):
        made = {"left": 1}
        return made
""")
    event = module.Move(ts=1, src=1, dst=2, amount=3, keys=())
    with pytest.raises(UserCodeError, match="one and two both return the column 'left'"):
        module.app.run([event])


def test_too_many_early_returns_run_interpreted() -> None:
    guards = "\n".join(f"        if e.amount == {n}:\n            return" for n in range(80))
    module = program(f"""
with app.atomic(Move):

    @app.on(Move)
    def guarded(e):
{guards}
        Used[e.src].total += 1

    @app.on(Move)
    def counted(e):
        Used[e.dst].total += 100
""")
    assert "so many early returns" in module.app.program.why_interpreted[0]
    agreed(module)


def test_explain_shows_groups() -> None:
    text = program(RETURNS).app.explain()
    assert "moved(Move)" in text and "one transaction of first, second, third" in text


def test_variants_keep_groups() -> None:
    module = program(RETURNS)
    loose, tight = ms.variants(module.app, LIMIT=[1000, -1])
    events = [module.Move(ts=t, src=s, dst=d, amount=a, keys=tuple(k)) for t, (s, d, a, k) in enumerate(MOVES)]
    outcomes = []
    for app in (loose, tight):
        assert app.program.functions[0].members == ("first", "second", "third")
        result = app.run(events, engine="oracle")
        expected = Outcome(result.outputs, dict(app.state))
        actual = app.run(events, jit=False)
        assert_same(expected, Outcome(actual.outputs, dict(app.state)))
        outcomes.append(result.outputs)
    assert not outcomes[0].equals(outcomes[1])


def test_groups_may_share_tables_in_event_order_or_when_nobody_writes() -> None:
    shared = """
with app.atomic(Move, isolation="LEVEL"):
    @app.on(Move)
    def pay(e):
        ms.require(Account[e.src].balance > LOW, "poor")
        Used[e.src].total += 1

with app.atomic(Move):
    @app.on(Move)
    def look(e):
        return {"balance": Account[e.src].balance}
"""
    for level in ("PL4", "PL2"):
        module = program("LOW = 3\n" + shared.replace("LEVEL", level))
        assert [f.isolation for f in module.app.program.functions] == [level, "PL4"]
    writing = shared.replace("return {", "Account[e.src].moves = 1\n        return {")
    module = program("LOW = 3\n" + writing.replace("LEVEL", "PL2"))
    with pytest.raises(ms.ProgramError, match=r"table Account is changed or read by 'pay' \(PL2\) and 'look' \(PL4\)"):
        module.app.explain()
    events = [module.Move(ts=1, src=1, dst=2, amount=3, keys=())]
    with pytest.raises(ms.ProgramError, match=r"'pay' \(PL2\) and 'look' \(PL4\)"):
        module.app.run(events, jit=False)
    assert module.app.run(events, jit=False, isolation="PL4").stats.committed == 2
    ordered = program("LOW = 3\n" + writing.replace("LEVEL", "PL4")).app
    with pytest.raises(ms.ProgramError, match=r"'pay' \(PL2\) and 'look' \(PL2\)"):
        ordered.run(events, jit=False, isolation="PL2", protocol="lock")


def test_levels_of_groups() -> None:
    app = ms.App("levels", isolation="PL3", protocol="lock")

    @app.event
    class Step:
        k: int

    @app.table(key=int)
    class Cell:
        n: int = 0

    @app.on(Step)
    def a(e):  # type: ignore[no-untyped-def]
        Cell[e.k].n += 1  # type: ignore[index]

    @app.on(Step)
    def b(e):  # type: ignore[no-untyped-def]
        return {"k": e.k}

    app.transaction(a, isolation="PL2")
    app.transaction(b, protocol="timestamp")
    assert [(f.name, f.isolation, f.protocol) for f in app.program.functions] == [
        ("a", "PL2", "lock"), ("b", "PL3", "timestamp"),
    ]  # fmt: skip


def test_a_group_that_fails_while_it_is_declared_leaves_none_behind() -> None:
    app = program("").app
    broken = "with app.atomic(Move):\n    app.on(Move)(shown)\n    1 / 0\n"
    scope = {"app": app, "Move": "Move", "shown": agreed}
    with pytest.raises(ZeroDivisionError):
        exec(broken, scope)
    assert [b.group for b in app.spec.functions] == [None]
    with app.atomic("Move", name="after"):
        app.on("Move")(balances)
    assert [b.group for b in app.spec.functions] == [None, "after"]


def test_user_errors_name_the_group() -> None:
    module = program(TWO.replace("Account[e.dst].balance += e.amount", "Account[e.dst].balance += {}[e.src]"))
    with pytest.raises(UserCodeError, match=r"function take\+give failed on"):
        module.app.run([module.Move(ts=1, src=7, dst=2, amount=3, keys=())])
