"""Histories with exactly one anomaly each: what happened, which kind it is, and who takes part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mainstem.engine.history import History, HistoryBuilder


@dataclass(frozen=True)
class Planted:
    kind: str
    transactions: set[int]  # those that the witness must name
    says: str  # part of the witness
    history: History


Writer = Callable[[HistoryBuilder], None]
PLANTED: dict[str, Planted] = {}


def planted(kind: str, transactions: set[int], says: str) -> Callable[[Writer], Writer]:
    def enter(write: Writer) -> Writer:
        builder = History.build()
        write(builder)
        PLANTED[write.__name__] = Planted(kind, transactions, says, builder.done())
        return write

    return enter


@planted("G0", {0, 1}, "transaction 0 (a) wrote x before transaction 1 (b) wrote version 2 of it")
def two_rows_written_in_opposite_orders(h: HistoryBuilder) -> None:
    a, b = h.begin("a").write("x").write("y"), h.begin("b").write("x").write("y")
    a.install("x"), b.install("x"), b.install("y"), a.install("y")
    a.commit(), b.commit()


@planted("G0", {0, 1, 2}, "cycle of 3 transactions")
def three_rows_written_in_a_circle(h: HistoryBuilder) -> None:
    a, b, c = h.begin().write("x").write("z"), h.begin().write("x").write("y"), h.begin().write("y").write("z")
    a.install("x"), b.install("x"), b.install("y"), c.install("y"), c.install("z"), a.install("z")
    a.commit(), b.commit(), c.commit()


@planted("G1a", {0, 1}, "made by transaction 0 (a), which aborted")
def a_read_of_what_was_undone(h: HistoryBuilder) -> None:
    a, b = h.begin("a").write("x"), h.begin("b")
    b.read("x", of=a).write("y").commit()
    a.abort()


@planted("G1a", {0, 1}, "query")
def a_query_of_what_was_undone(h: HistoryBuilder) -> None:
    a, query = h.begin().write("x"), h.query()
    query.read("x", of=a).commit()
    a.abort()


@planted("G1b", {0, 1}, "an intermediate version of x, which transaction 0 (a) replaced itself")
def a_read_of_an_intermediate_version(h: HistoryBuilder) -> None:
    a, b = h.begin("a").write("x"), h.begin("b")
    b.read("x", of=a)
    a.write("x").commit()
    b.commit()


@planted("G1c", {0, 1}, "circular read")
def two_that_read_from_each_other(h: HistoryBuilder) -> None:
    a, b = h.begin().write("x"), h.begin().write("y")
    a.read("y", of=b), b.read("x", of=a)
    a.commit(), b.commit()


@planted("G1c", {0, 1}, "which transaction 0 (a) read")
def an_overwritten_one_that_read_from_its_successor(h: HistoryBuilder) -> None:
    a, b = h.begin("a").write("x"), h.begin("b").write("x").write("y")
    a.read("y", of=b).commit()
    b.commit()


@planted("G1c", {0, 1, 2}, "cycle of 3 transactions")
def three_that_read_from_each_other(h: HistoryBuilder) -> None:
    a, b, c = h.begin().write("x"), h.begin().write("y"), h.begin().write("z")
    a.read("z", of=c), b.read("x", of=a), c.read("y", of=b)
    a.commit(), b.commit(), c.commit()


@planted("G2", {0, 1}, "lost update")
def a_lost_update(h: HistoryBuilder) -> None:
    a, b = h.begin().read("x"), h.begin().read("x")
    a.write("x").commit()
    b.write("x").commit()


@planted("G2", {1, 2}, "transaction 2 (transaction) read version 1 of x, which transaction 1 (transaction) replaced")
def a_lost_update_of_a_later_version(h: HistoryBuilder) -> None:
    h.begin().read("x").write("x").commit()
    a, b = h.begin().read("x"), h.begin().read("x")
    a.write("x").commit()
    b.write("x").commit()


@planted("G2", {0, 1}, "write skew")
def a_write_skew(h: HistoryBuilder) -> None:
    a, b = h.begin().read("x").read("y"), h.begin().read("x").read("y")
    a.write("x").commit()
    b.write("y").commit()


@planted("G2", {0, 1}, "read skew")
def a_read_skew(h: HistoryBuilder) -> None:
    a, b = h.begin().read("x"), h.begin().write("x").write("y").commit()
    a.read("y", of=b).write("z").commit()


@planted("G2", {0, 1}, "read skew")
def one_row_read_twice_with_different_content(h: HistoryBuilder) -> None:
    a = h.begin().read("x")
    h.begin().write("x").commit()
    a.read("x").commit()


@planted("G2", {0, 1}, "query")
def a_query_that_saw_half_of_a_transaction(h: HistoryBuilder) -> None:
    transfer, query = h.begin("transfer").read("x").read("y").write("x").write("y"), h.query()
    transfer.install("x")
    query.read("x").read("y").commit()
    transfer.commit()


@planted("G2", {0, 1, 2}, "query")
def a_query_that_makes_the_order_of_others_visible(h: HistoryBuilder) -> None:
    withdrawal = h.begin("withdrawal").read("x").read("y")
    h.begin("deposit").read("y").write("y").commit()
    h.query().read("x").read("y").commit()
    withdrawal.write("x").commit()


@planted("G2", {0, 1, 2}, "cycle of 3 transactions")
def three_that_overwrote_what_the_next_one_read(h: HistoryBuilder) -> None:
    a, b, c = h.begin().read("x"), h.begin().read("y"), h.begin().read("z")
    a.write("y"), b.write("z"), c.write("x")
    a.commit(), b.commit(), c.commit()


@planted("G2", set(range(60)), "cycle of 60 transactions")
def sixty_of_which_the_last_missed_the_first(h: HistoryBuilder) -> None:
    last = h.begin(seq=59).read("first").write("last")
    h.begin(seq=0).write("first").write(0).commit()
    for number in range(1, 59):
        h.begin(seq=number).read(number - 1).write(number).commit()
    last.read(58).commit()


@planted("ORDER", {0, 1}, "transaction 1 (b) wrote x before transaction 0 (a) wrote version 2 of it")
def a_later_event_that_wrote_first(h: HistoryBuilder) -> None:
    a, b = h.begin("a").write("x"), h.begin("b").write("x")
    b.commit()
    a.commit()


@planted("ORDER", {0, 1}, "transaction 1 (b) wrote version 1 of x, which transaction 0 (a) read")
def an_earlier_event_that_read_from_a_later_one(h: HistoryBuilder) -> None:
    a, b = h.begin("a"), h.begin("b")
    b.write("x").commit()
    a.read("x").commit()


@planted("ORDER", {0, 1}, "transaction 1 (b) read version 0 of x, which transaction 0 (a) replaced")
def a_later_event_that_missed_an_earlier_one(h: HistoryBuilder) -> None:
    a, b = h.begin("a"), h.begin("b")
    b.read("x").commit()
    a.write("x").commit()


@planted("ORDER", {0, 1}, "against event order")
def transactions_listed_in_another_order_than_their_events(h: HistoryBuilder) -> None:
    h.begin(seq=7).write("x").commit()
    h.begin(seq=3).write("x").commit()


@planted("ORDER", {0, 1, 2}, "query")
def a_query_that_saw_an_event_but_not_an_earlier_one(h: HistoryBuilder) -> None:
    earlier = h.begin().write("x")
    h.begin().write("y").commit()
    h.query().read("x").read("y").commit()
    earlier.commit()


@planted("ATOMICITY", {0}, "transaction 0 (a) aborted, and installed version 1 of x")
def an_aborted_one_that_left_something_behind(h: HistoryBuilder) -> None:
    h.begin("a").write("x").write("y").install("x").abort()


@planted("ATOMICITY", {0}, "committed without y: 1 of the 2 rows that it wrote were installed")
def a_committed_one_of_which_half_is_missing(h: HistoryBuilder) -> None:
    h.begin("a").write("x").write("y").commit("x")


@planted("ATOMICITY", {0}, "installed an intermediate version of x, as version 1")
def an_intermediate_version_that_was_installed(h: HistoryBuilder) -> None:
    h.begin().write("x").install("x").write("x").commit()
