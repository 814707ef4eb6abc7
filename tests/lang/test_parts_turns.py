"""How loops are split: turns that are vertices, and loops that stay whole."""

from __future__ import annotations

import textwrap

import pytest
from parts_programs import Shape, kinds, reasons, shapes, shapes_of, split

from mainstem.lang import ir
from mainstem.lang.parts import describe

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


def turn_shapes(turn: str, after: str = "", before: str = "") -> list[Shape]:
    """Parts of `for i, k in enumerate(e.keys)` with `n` set to 0 before it."""
    return shapes_of(f"{before}\nn = 0\nfor i, k in enumerate(e.keys):\n{textwrap.indent(turn, '    ')}\n{after}")


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
    found = turn_shapes(turn, before="U[e.b].x += 1")
    assert len(found) == 2 and not any(shape.turns for shape in found)


def test_a_turn_that_ends_early_ends_the_part() -> None:
    _, parts = split("for k in e.keys:\n    if k > 3:\n        continue\n    T[k].x += 1\nreturn {'out': 1}")
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
    # The counter may overflow: that is decided on its own.
    assert shapes_of(f"n = 0\n{bounded}\nT[e.a].x = 1\nT[e.b].x = 2") == [
        Shape(),
        Shape(("T[e.a]",)),
        Shape(("T[e.b]",)),
    ]
