"""How functions are split into parts: hand-written ones exactly, generated ones by what must hold for all."""

from __future__ import annotations

import ast

import pytest
from parts_programs import Shape, kinds, reasons, shapes, shapes_of, split, split_function
from parts_support import lowered

from mainstem.apps import ledger
from mainstem.lang import emit, ir
from mainstem.lang.flow import Flow
from mainstem.lang.frame import Uncompilable
from mainstem.lang.parts import Part, decompose
from mainstem.testing import generate_program, load_program

PROGRAMS, CHUNK = 300, 100


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
    assert shapes_of("y = T[e.a].y\nT[e.a].x += 1\nreturn {'y': heavy(y)}") == [
        Shape(read=("T[e.a]",)),
        Shape(("T[e.a]",)),
    ]


def test_names_of_one_row_are_one_site() -> None:
    text = "p = T[e.a]\nq = p\np.x += 1\nq.y = T[e.a].x\nU[e.b].x += 1"
    assert shapes_of(text) == [Shape(("U[e.b]",)), Shape(("T[e.a]",))]


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
        Shape(("T[e.a]",), read=("U[e.c]",)),
        Shape(("T[e.b]",), private=("T[e.a]",), read=("U[e.c]",)),
    ]


def test_a_row_whose_making_another_row_needs_is_made_with_it() -> None:
    assert shapes_of("T[e.a].x += 1\nT[e.b].x = T[e.a].x\nU[e.c].x = 1") == [
        Shape(("U[e.c]",)),
        Shape(("T[e.a]", "T[e.b]")),
    ]


def test_another_field_of_a_stored_row_is_read_as_it_was() -> None:
    assert shapes_of("T[e.a].x = e.c\nT[e.b].x = T[e.a].y") == [
        Shape(("T[e.a]",)),
        Shape(("T[e.b]",), read=("T[e.a]",)),
    ]


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
    _, parts = split("T[heavy(e.a)].x += 1\nU[heavy(e.b)].x += 1\nreturn {'out': e.c}")
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
    body, parts = split("T[e.a].x = 1\nms.require(e.a > 0, 'a')\nU[e.b].x = T[e.c].x\nreturn {'out': T[e.c].y}")
    assert shapes(body, parts) == [Shape(("U[e.b]",), read=("T[e.c]",)), Shape(("T[e.a]",))]
    assert [reasons(p) for p in parts] == [["e.a > 0*"], []]


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
