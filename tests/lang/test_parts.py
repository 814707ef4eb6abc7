"""How functions are split into parts: hand-written ones exactly, generated ones by what must hold for all."""

from __future__ import annotations

import ast
import textwrap
from typing import Any, NamedTuple

import pytest
from parts_support import lowered

from mainstem.apps import ledger
from mainstem.lang import emit, ir
from mainstem.lang.flow import Flow
from mainstem.lang.frame import Uncompilable
from mainstem.lang.parts import Part, decompose, describe
from mainstem.testing import generate_program, load_program

PROGRAMS, CHUNK = 300, 100

HEAD = """
import mainstem as ms

app = ms.App("hand")


@app.event
class Ev:
    a: int
    b: int
    c: int
    flag: bool
    keys: list[int]
    sources: list[int]
    limit: int | None


@app.table(key=int)
class T:
    x: int = 0
    y: int = 0
    cells: ms.Array[int, 3] = (0, 0, 0)


@app.table(key=int)
class U:
    x: int = 0


@app.table(key=int)
class Checked:
    x: int = 0

    @ms.check
    def positive(row):
        return row.x >= 0


def heavy(value):
    return value * 3 + 1


@app.on(Ev)
def f(e):
"""


class Shape(NamedTuple):
    """A part as a reader sees it."""

    owned: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    turns: bool = False


def split(text: str) -> tuple[emit.Body, tuple[Part, ...]]:
    module = load_program(HEAD + textwrap.indent(textwrap.dedent(text), "    "))
    return split_function(module.app, 0)


def split_function(app: Any, number: int) -> tuple[emit.Body, tuple[Part, ...]]:
    builder, bodies = lowered(app)
    body = bodies[number]
    before = repr(body.block)
    parts = decompose(body, set(builder.checks), Flow(body.block))
    assert repr(body.block) == before, "the body was changed"
    assert [p.answers for p in parts] == [True, *[False] * (len(parts) - 1)][: len(parts)]
    return body, parts


def shapes(body: emit.Body, parts: tuple[Part, ...]) -> list[Shape]:
    def texts(sites: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(body.sites[i].text for i in sites)

    return [Shape(texts(p.owned), texts(p.private), texts(p.read), p.turns) for p in parts]


def shapes_of(text: str) -> list[Shape]:
    return shapes(*split(text))


def kinds(part: Part, *wanted: type[ir.Statement]) -> int:
    return sum(isinstance(s, wanted) for s in ir.walk(part.block))


def reasons(part: Part) -> list[str]:
    """The conditions of the aborts that a part holds, those that are precise with a star."""
    return [
        s.expected + "*" * (n in part.precise) for n, s in enumerate(ir.walk(part.block)) if isinstance(s, ir.AbortIf)
    ]


# -- rows that are known from the start ----------------------------------------------------------------------------


def test_a_deposit_is_two_parts_and_no_part_only_answers() -> None:
    body, parts = split_function(ledger.app, 0)
    assert shapes(body, parts) == [Shape(("Account[e.account]",)), Shape(("Asset[e.asset]",))]
    assert all(reasons(p) == ["e.amount > 0 and e.units > 0*"] for p in parts)


def test_a_transfer_decides_where_it_answers() -> None:
    body, parts = split_function(ledger.app, 1)
    assert shapes(body, parts) == [
        Shape(("Account[e.account]",), read=("Asset[e.asset]",)),
        Shape(("Asset[e.asset]",)),
        Shape(("Account[e.to_account]",)),
        Shape(("Asset[e.to_asset]",)),
    ]
    assert [len(reasons(p)) for p in parts] == [3, 1, 1, 1]
    assert all(reason.endswith("*") for p in parts for reason in reasons(p))
    assert kinds(parts[0], ir.Return) == 1


def test_one_written_row_is_no_split() -> None:
    assert shapes_of("T[e.a].x += 1\nreturn {'x': T[e.a].x}") == []
    assert shapes_of("return {'x': T[e.a].x}") == []


def test_an_answer_that_reads_other_rows_is_a_part_of_its_own() -> None:
    assert shapes_of("T[e.a].x += 1\nreturn {'x': U[e.b].x}") == [Shape(read=("U[e.b]",)), Shape(("T[e.a]",))]


def test_an_answer_that_costs_is_a_part_of_its_own() -> None:
    assert shapes_of("y = T[e.a].y\nT[e.a].x += 1\nreturn {'y': heavy(y)}") == [Shape(read=("T[e.a]",)), Shape(("T[e.a]",))]


def test_names_of_one_row_are_one_site() -> None:
    text = "p = T[e.a]\nq = p\np.x += 1\nq.y = T[e.a].x\nU[e.b].x += 1"
    assert shapes_of(text) == [Shape(("T[e.a]",)), Shape(("U[e.b]",))] or shapes_of(text) == [
        Shape(("U[e.b]",)),
        Shape(("T[e.a]",)),
    ]


def test_both_arms_of_a_branch() -> None:
    text = """
        if U[e.c].x > 0:
            T[e.a].x = 1
        else:
            T[e.a].x = 2
            T[e.b].x = 3
    """
    body, parts = split(text)
    assert shapes(body, parts) == [Shape(("T[e.b]",), read=("U[e.c]",)), Shape(("T[e.a]",), read=("U[e.c]",))]
    (branch,) = [s for s in parts[1].block if isinstance(s, ir.If)]
    assert len(branch.then) == 2 and len(branch.otherwise) == 2  # resolve and store
    (branch,) = [s for s in parts[0].block if isinstance(s, ir.If)]
    assert not branch.then


def test_a_return_before_a_store_decides_about_it() -> None:
    text = """
        T[e.a].x += 1
        if U[e.c].x > 0:
            return {'early': T[e.a].y}
        T[e.b].x += 1
    """
    body, parts = split(text)
    assert shapes(body, parts) == [
        Shape(read=("T[e.a]", "U[e.c]")),
        Shape(("T[e.a]",)),
        Shape(("T[e.b]",), read=("U[e.c]",)),
    ]
    assert kinds(parts[1], ir.Return) == 0
    (left,) = [s for s in ir.walk(parts[2].block) if isinstance(s, ir.Return)]
    assert left.number == 0 and left.columns == ()


def test_returns_in_the_other_arm_do_not_matter() -> None:
    text = """
        if e.flag:
            return {'out': T[e.a].x}
        else:
            U[e.b].x = 1
            T[e.c].x = 2
    """
    assert all(kinds(p, ir.Return) == 0 for p in split(text)[1][1:])


def test_a_row_read_again_is_a_private_copy() -> None:
    text = """
        T[e.a].x = U[e.c].x
        T[e.b].x = T[e.a].x + 1
        T[e.a].x = e.b
        return {'out': 1}
    """
    assert shapes_of(text) == [
        Shape(("T[e.b]",), ("T[e.a]",), ("U[e.c]",)),
        Shape(("T[e.a]",), read=("U[e.c]",)),
    ]


def test_a_row_whose_making_another_row_needs_is_made_with_it() -> None:
    assert shapes_of("T[e.a].x += 1\nT[e.b].x = T[e.a].x\nU[e.c].x = 1") == [
        Shape(("U[e.c]",)),
        Shape(("T[e.a]", "T[e.b]")),
    ]


def test_another_field_of_a_stored_row_is_read_as_it_was() -> None:
    assert shapes_of("T[e.a].x = e.c\nT[e.b].x = T[e.a].y") == [Shape(("T[e.a]",)), Shape(("T[e.b]",), read=("T[e.a]",))]


def test_a_deleted_row_is_seen_in_every_field_and_as_missing() -> None:
    for seen in ("T[e.a].y", "int(e.a in T)", "T[e.a].cells[2]"):
        body, parts = split(f"del T[e.a]\nU[e.b].x = {seen}\nU[e.c].x = 1")
        assert Shape(("T[e.a]", "U[e.b]")) in shapes(body, parts), seen


def test_a_store_to_one_cell_leaves_the_others() -> None:
    text = "T[e.a].cells[0] = 1\nT[e.a].cells[1] = 2\nU[e.b].x = T[e.a].cells[e.c % 3]\nU[e.c].x = 1"
    assert Shape(("T[e.a]", "U[e.b]")) in shapes_of(text)


def test_locals_are_followed_to_the_assignment_that_is_read() -> None:
    text = """
        n = T[e.a].x
        T[e.a].y = n
        n = U[e.b].x
        U[e.b].x = n + 1
    """
    assert shapes_of(text) == [Shape(("T[e.a]",)), Shape(("U[e.b]",))]


def test_keys_are_not_computed_again() -> None:
    body, parts = split("T[heavy(e.a)].x += 1\nU[heavy(e.b)].x += 1\nreturn {'out': e.c}")
    assert len(parts) == 3  # the calls may abort, so they are where it is decided
    assert [kinds(p, ir.Checked) for p in parts] == [2, 1, 1]
    assert all(s.key == () for p in parts for s in ir.walk(p.block) if isinstance(s, ir.Resolve))


# -- work that must not be done twice ------------------------------------------------------------------------------


def test_rows_that_need_one_call_of_a_helper_are_made_together() -> None:
    text = "n = heavy(T[e.c].x)\nT[e.a].x = n\nT[e.b].x = n\nU[e.a].x = 1"
    assert shapes_of(text) == [Shape(("U[e.a]",)), Shape(("T[e.a]", "T[e.b]"), read=("T[e.c]",))]
    assert shapes_of("n = heavy(T[e.c].x)\nT[e.a].x = n\nT[e.b].x = n\nreturn {'out': n}") == []


def test_rows_that_need_one_loop_are_made_together() -> None:
    text = """
        n = 0
        for k in e.keys:
            n += k
        T[e.a].x = n
        T[e.b].x = n + 1
        U[e.c].x = 1
    """
    assert shapes_of(text) == [Shape(("U[e.c]",)), Shape(("T[e.a]", "T[e.b]"))]


# -- aborts --------------------------------------------------------------------------------------------------------


def test_an_abort_that_state_decides_is_where_it_is_decided_only() -> None:
    text = """
        if T[e.a].x > 5:
            ms.abort("full")
        T[e.b].x = 1
        U[e.c].x = 2
        return {'out': T[e.a].y}
    """
    body, parts = split(text)
    assert shapes(body, parts) == [Shape(read=("T[e.a]",)), Shape(("T[e.b]",)), Shape(("U[e.c]",))]
    assert [kinds(p, ir.AbortIf) for p in parts] == [1, 0, 0]


def test_an_abort_beside_kept_statements_is_kept() -> None:
    text = """
        if T[e.a].x > 5:
            ms.require(e.b > 0, "b")
            U[e.b].x = 1
        T[e.c].x = 2
    """
    for part in split(text)[1]:
        assert len(reasons(part)) == (1 if part.answers or part.read else 0)


def test_a_guard_after_all_that_a_part_does_is_left_out() -> None:
    _, parts = split("T[e.a].x = 1\nU[e.b].x = T[e.c].x\nms.require(e.a > 0, 'a')\nreturn {'out': T[e.c].y}")
    assert [len(reasons(p)) for p in parts] == [1, 0] or [len(reasons(p)) for p in parts] == [1, 0, 0]


def test_an_abort_is_precise_when_nothing_unknown_can_come_before_it() -> None:
    text = """
        ms.require(e.a > 0, "first")
        n = U[e.b].x + 1
        U[e.b].x = n
        ms.require(e.b > 0, "second")
        T[e.a].x = 1
        return {'out': T[e.c].x}
    """
    body, parts = split(text)
    found = {tuple(body.sites[i].text for i in p.owned): reasons(p) for p in parts}
    assert found[("T[e.a]",)] == ["e.a > 0*", "e.b > 0"]  # the sum is not in this part
    assert found[("U[e.b]",)] == ["e.a > 0*"]
    assert found[()] == ["e.a > 0*", "e.b > 0"]


def test_only_parts_that_can_fail_may_abort() -> None:
    _, parts = split("Checked[e.a].x = e.b\nT[e.c].x = e.b\nreturn {'out': 1}")
    assert sorted(p.may_abort for p in parts) == [False, True]


def test_a_name_that_an_abort_keeps_from_being_unset() -> None:
    text = """
        if e.flag:
            n = T[e.a].x
        else:
            if U[e.c].x > 3:
                ms.abort("left")
            else:
                ms.abort("right")
        T[e.b].x = n
        U[e.a].x = 1
    """
    assert shapes_of(text) == []


# -- loops ---------------------------------------------------------------------------------------------------------

TURNS = """
    ms.require(U[e.c].x >= 0, "refused")
    reads = len(e.sources) // len(e.keys)
    for i in range(len(e.keys)):
        total = 0
        for j in range(i * reads, (i + 1) * reads):
            total += T[e.sources[j]].x
        row = T[e.keys[i]]
        row.x = heavy(row.x + total)
"""


def test_turns_that_have_nothing_to_do_with_each_other_are_vertices() -> None:
    body, parts = split(TURNS)
    assert shapes(body, parts) == [
        Shape(read=("U[e.c]",)),
        Shape(("T[e.keys[i]]",), read=("T[e.sources[j]]",), turns=True),
    ]
    (turn,) = [s for s in parts[1].block if isinstance(s, ir.Turn)]
    assert turn.start.text == "0" and turn.step == 1
    assert kinds(parts[1], ir.For) == 1  # the inner one
    # There may be no key at all: the division by their number is decided on its own.
    assert [s.call for s in ir.walk(parts[0].block) if isinstance(s, ir.Checked)] == ["floordiv"]
    assert describe(parts, body).splitlines() == [
        "part 1 (answers) reads U[e.c]",
        "part 2 (per turn) writes T[e.keys[i]], reads T[e.sources[j]]",
    ]


def turn_shapes(turn: str, after: str = "") -> list[Shape]:
    """Parts of `for i, k in enumerate(e.keys)` with `n` set to 0 before it."""
    return shapes_of(f"n = 0\nfor i, k in enumerate(e.keys):\n{textwrap.indent(textwrap.dedent(turn), '    ')}\n{after}")


def test_the_answer_reads_all_turns() -> None:
    assert turn_shapes("n += T[k].x\nT[k].x = i", "return {'n': n}") == [
        Shape(read=("T[k]",)),
        Shape(("T[k]",), turns=True),
    ]


def test_an_answer_that_does_the_work_of_all_turns_owns_them() -> None:
    assert turn_shapes("T[k].x += i\nn += T[k].x", "return {'n': n}") == []


def test_two_tables_in_one_loop_are_two_parts() -> None:
    assert turn_shapes("T[k].x += 1\nU[k].x += 2") == [
        Shape(),
        Shape(("T[k]",), turns=True),
        Shape(("U[k]",), turns=True),
    ]
    assert turn_shapes("v = heavy(i)\nT[k].x = v\nU[k].x = v") == [Shape(), Shape(("T[k]", "U[k]"), turns=True)]


@pytest.mark.parametrize(
    "turn",
    [
        "n += i\nT[k].x = n",  # an accumulator
        "if k > 3:\n    n = k\nT[k].x = n",  # perhaps an earlier turn's value
        "T[k].x = 1\nif k > 3:\n    break",
        "if k > 3:\n    return {'out': 1}\nT[k].x = 1",
        "T[e.a].y += k\nT[k].x = T[e.a].y",  # the same row in all turns
        "T[e.a].cells[i % 3] = k\nT[k].x = T[e.a].cells[0]",
        "for s in e.sources:\n    T[s].x += i",  # not another row in each turn
    ],
)
def test_turns_that_depend_on_each_other_stay_a_loop(turn: str) -> None:
    found = turn_shapes(turn, "U[e.b].x += 1")
    assert len(found) == 2 and not any(shape.turns for shape in found)


def test_a_turn_that_ends_early_ends_the_part() -> None:
    body, parts = split("for k in e.keys:\n    if k > 3:\n        continue\n    T[k].x += 1\nreturn {'out': 1}")
    assert [p.turns for p in parts] == [False, True]
    assert kinds(parts[1], ir.Continue) == 0 and kinds(parts[1], ir.Return) == 1


def test_a_break_of_an_inner_loop_does_not_matter() -> None:
    assert turn_shapes("T[k].x = int(k in e.sources)")[1] == Shape(("T[k]",), turns=True)


def test_many_rows_may_be_written_in_one_turn() -> None:
    assert turn_shapes("for s in e.sources:\n    T[k * 10 + s].x += i")[1] == Shape(("T[k * 10 + s]",), turns=True)


def test_rows_differ_between_turns_only_where_turns_are_vertices() -> None:
    # U[k % 3] is no vertex per turn, so an earlier turn may have stored the row that T[k] is made from.
    assert turn_shapes("T[k].x += U[k % 3].x\nn += i\nU[k % 3].x = n") == []


def test_aborts_of_a_turn_are_not_precise() -> None:
    # Another turn may fail before it for the other reason.
    _, parts = split("for k in e.keys:\n    ms.require(k > 0, 'a')\n    ms.require(k < 9, 'b')\n    T[k].x = 1")
    assert [reasons(p) for p in parts] == [["k > 0*", "k < 9*"], ["k > 0", "k < 9"]]


def test_work_before_the_loop_is_not_done_in_each_turn() -> None:
    assert not any(s.turns for s in shapes_of("v = heavy(e.a)\nfor k in e.keys:\n    T[k].x = v\nU[e.b].x = 1"))


@pytest.mark.parametrize(
    "loop",
    ["for i in range(U[e.c].x):\n    n += 1", "while n < 9 and U[e.c].x > n:\n    n += 1"],
)
def test_loops_that_state_bounds_are_not_split(loop: str) -> None:
    assert shapes_of(f"n = 0\n{loop}\nT[e.a].x = 1\nT[e.b].x = 2") == []
    bounded = loop.replace("U[e.c].x", "e.c")
    assert len(shapes_of(f"n = 0\n{bounded}\nT[e.a].x = 1\nT[e.b].x = 2")) == 2


# -- generated programs --------------------------------------------------------------------------------------------


def check_parts(body: emit.Body, parts: tuple[Part, ...]) -> None:
    statements = [s for p in parts for s in ir.walk(p.block)]
    written = {s.site for s in ir.walk(body.block) if isinstance(s, ir.Store | ir.Delete)}
    assert len(parts) >= 2 and sorted(i for p in parts for i in p.owned) == sorted(written)
    for kind in (ir.AbortIf, ir.Checked, ir.Store, ir.Delete):
        kept = {id(s) for s in statements if isinstance(s, kind)}
        assert kept == {id(s) for s in ir.walk(body.block) if isinstance(s, kind)}
    returned = [s for s in ir.walk(parts[0].block) if isinstance(s, ir.Return) and s.number]
    assert returned == [s for s in ir.walk(body.block) if isinstance(s, ir.Return) and s.number]
    for part in parts:
        check_part(body, part)


def check_part(body: emit.Body, part: Part) -> None:
    stored = {s.site for s in ir.walk(part.block) if isinstance(s, ir.Store | ir.Delete)}
    loaded = {s.site for s in ir.walk(part.block) if isinstance(s, ir.Load | ir.Exists)}
    assert stored == {*part.owned, *part.private} and loaded - stored == set(part.read)
    assert not set(part.owned) & set(part.private)
    assert sum(isinstance(s, ir.Turn) for s in part.block) == sum(isinstance(s, ir.Turn) for s in ir.walk(part.block))
    assert part.turns == any(isinstance(s, ir.Turn) for s in part.block)
    for i in part.owned:
        whole = [s for s in ir.walk(body.block) if isinstance(s, ir.Store | ir.Delete) and s.site == i]
        assert [s for s in ir.walk(part.block) if isinstance(s, ir.Store | ir.Delete) and s.site == i] == whole
    check_names(body, part)


def check_names(body: emit.Body, part: Part) -> None:
    """No local is read above all its assignments, by the texts of the generated code too."""
    local = {name for s in ir.walk(body.block) for name in ir.defines(s)}
    assigned: set[str] = set()
    for s in ir.walk(part.block):
        texts = [s.text] if isinstance(s, ir.Let) else []
        used = {n.id for text in texts for n in ast.walk(ast.parse(text, mode="eval")) if isinstance(n, ast.Name)}
        if not isinstance(s, ir.While):  # its condition is read after its head
            assert {*used, *ir.operands(s)} & local <= assigned
        assigned.update(ir.defines(s))


@pytest.mark.parametrize("start", range(0, PROGRAMS, CHUNK))
def test_generated_programs_split_into_complete_parts(start: int) -> None:
    functions = split_ones = 0
    for seed in range(start, start + CHUNK):
        try:
            builder, bodies = lowered(load_program(generate_program(seed)).app)
        except Uncompilable:
            continue
        for body in bodies:
            parts = decompose(body, set(builder.checks), Flow(body.block))
            functions += 1
            if parts:
                split_ones += 1
                check_parts(body, parts)
    assert split_ones > 0.4 * functions, f"only {split_ones} of {functions} functions split"
