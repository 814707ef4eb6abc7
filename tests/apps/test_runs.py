"""The apps on their own workloads: like the oracle, money conserved, and sensitive to order."""

from __future__ import annotations

import textwrap
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from mainstem.apps import bank, bidding, grep_sum, ledger, ledger_work, toll
from mainstem.apps.workloads import toll as toll_workload
from mainstem.apps.workloads.bidding import PRICE_MIN
from mainstem.apps.workloads.grep_sum import CHANCES
from mainstem.apps.workloads.ledger import ACCOUNTS
from mainstem.apps.workloads.ledger_work import BALANCE_MAX
from mainstem.testing.compare import Outcome, assert_same

ROWS = 50
# Few rows and many aborts: they conflict, run out of money and reach limits within a few thousand events.
STRESS = {
    ledger: {"accounts": ROWS, "abort": 0.2, "skew": 0.9},
    bank: {"accounts": ROWS, "abort": 0.2, "skew": 0.9},
    grep_sum: {"records": ROWS, "abort": 0.2, "skew": 0.9, "length": 3, "reads": 2, "turns": 2},
    bidding: {"items": ROWS, "abort": 0.2, "skew": 0.9, "length": 8, "turns": 2},
    toll: {"segments": ROWS, "vehicles": 200, "abort": 0.2, "skew": 0.9, "turns": 2},
    ledger_work: {"accounts": ROWS, "abort": 0.2, "skew": 0.9, "turns": 2},
}
# Other corners of the knobs, for the apps that have them.
CORNERS = [
    (grep_sum, {"length": 10, "reads": 3, "skew": 1.5, "abort": 0.0, "writes": 1.0}),
    (grep_sum, {"length": 1, "reads": 0, "skew": 0.0, "abort": 0.9, "turns": 0}),
    (grep_sum, {"length": 6, "reads": 3, "distinct": False, "abort": 0.5}),
    (bidding, {"length": 20, "skew": 1.5, "abort": 0.6, "turns": 0}),
    (bidding, {"bids": 0.0, "skew": 0.0, "abort": 0.0}),
    (toll, {"skew": 1.5, "abort": 0.9}),
    (toll, {"skew": 0.0, "abort": 0.0, "turns": 0}),
    (ledger_work, {"transfers": 1.0, "skew": 1.5, "abort": 0.9}),
    (ledger_work, {"transfers": 1.0, "skew": 1.5, "abort": 0.0, "distinct": False}),
    (ledger_work, {"transfers": 0.0, "skew": 0.0, "abort": 0.5, "turns": 0}),
]
# Every event writes; and all of them the same row.
ALL_WRITE = {module: {"abort": 0.0} for module in (bidding, toll, ledger_work)}
ALL_WRITE[grep_sum] = {"abort": 0.0, "writes": 1.0}
ONE_ROW = {
    grep_sum: {**ALL_WRITE[grep_sum], "records": 1, "distinct": False},
    bidding: {**ALL_WRITE[bidding], "items": 1, "length": 1},
    toll: {**ALL_WRITE[toll], "segments": 1},
    ledger_work: {**ALL_WRITE[ledger_work], "accounts": 1, "distinct": False},
}
EVERY = list(STRESS)
RECOMPUTED = [grep_sum, bidding, toll, ledger_work]


def run(module, events, rows=ROWS, **options) -> Outcome:
    result = module.app.run(events, initial=module.initial(rows), **options)
    return Outcome(result.outputs, dict(module.app.state))


def conserved(module, events, done: Outcome) -> bool:
    return module.conserved(module.initial(ROWS), events, done.outputs, done.state)


def reasons(outputs: pa.Table) -> Counter:
    return Counter(outputs["reason"].cast(pa.string()).to_pylist())


def with_one_more(table: pa.Table, column: str) -> pa.Table:
    """The table with 1 added to the first value of a column that is not null."""
    values = table[column].to_pylist()
    first = next(i for i, value in enumerate(values) if value is not None)
    values[first] += 1
    return table.set_column(table.column_names.index(column), column, pa.array(values))


@pytest.mark.parametrize("module", EVERY)
class TestEveryApp:
    @pytest.mark.parametrize("seed", range(3))
    def test_compiled_and_oracle_agree(self, module, seed):
        events = module.generate(2_000, seed=seed, **STRESS[module])
        assert_same(run(module, events, engine="oracle"), run(module, events))

    @pytest.mark.parametrize("engine", ["serial", "oracle"])
    def test_the_check_holds(self, module, engine):
        events = module.generate(2_000, **STRESS[module])
        assert conserved(module, events, run(module, events, engine=engine))

    def test_the_check_sees_a_wrong_value(self, module):
        events = module.generate(1_000, **STRESS[module])
        done = run(module, events)
        table = list(done.state)[-1]
        field = done.state[table].column_names[-1]
        if module is bank:
            table, field = "Account", "balance"
        forged = {**done.state, table: with_one_more(done.state[table], field)}
        assert not conserved(module, events, Outcome(done.outputs, forged))

    def test_another_order_ends_in_another_state(self, module):
        events = module.generate(2_000, **STRESS[module])
        shuffled = events.take(np.random.default_rng(0).permutation(2_000)).set_column(0, "ts", events["ts"])
        assert run(module, events).state != run(module, shuffled).state

    def test_the_use_shown_in_the_docstring_runs(self, module):
        shown = [line for line in module.__doc__.splitlines() if line.startswith("    ")]
        exec(textwrap.dedent("\n".join(shown)), scope := {})
        assert scope["result"].stats.events == 100_000

    def test_batches_do_not_matter(self, module):
        events = module.generate(2_000, **STRESS[module])
        assert_same(run(module, events), run(module, events, batch=97))


@pytest.mark.parametrize(("module", "knobs"), CORNERS)
def test_corners_of_the_knobs(module, knobs):
    events = module.generate(1_000, **{**STRESS[module], **knobs})
    done = run(module, events)
    assert_same(run(module, events, engine="oracle"), done)
    assert conserved(module, events, done)


@pytest.mark.parametrize("module", RECOMPUTED)
class TestRecomputed:
    """Checks that go through the events once more see more than totals."""

    @pytest.mark.parametrize("abort", [0.0, 0.01, 0.3, 0.6, 0.9])
    @pytest.mark.parametrize("skew", [0.0, 1.2])
    def test_the_share_asked_for_aborts(self, module, abort, skew):
        events = module.generate(20_000, abort=abort, skew=skew)
        result = module.app.run(events, initial=module.initial())
        assert result.stats.aborted / 20_000 == pytest.approx(abort, abs=0.3 * abort if abort < 0.1 else 0.02)

    def test_every_field_and_every_output_counts(self, module):
        events = module.generate(1_000, **STRESS[module])
        done = run(module, events)
        for name, table in done.state.items():
            for field in (column for column in table.column_names if not column.startswith("key")):
                forged = {**done.state, name: with_one_more(table, field)}
                assert not conserved(module, events, Outcome(done.outputs, forged)), f"{name}.{field}"
        for column, _ in module.app.program.outputs:
            forged = with_one_more(done.outputs, column)
            assert not conserved(module, events, Outcome(forged, done.state)), column

    def test_two_neighbours_swapped(self, module):
        events = module.generate(60, **{**STRESS[module], **ONE_ROW[module]})
        wrong = 0
        for i in range(0, 60, 2):
            order = np.arange(60)
            order[[i, i + 1]] = i + 1, i
            swapped = events.take(order).set_column(0, "ts", events["ts"])
            wrong += not conserved(module, events, run(module, swapped))
        assert wrong >= 25  # two neighbours may be equal

    def test_a_lost_update(self, module):
        events = module.generate(1_000, **{**STRESS[module], **ALL_WRITE[module]})
        without_the_last = run(module, events.slice(0, 999)).state
        done = run(module, events)
        assert conserved(module, events, done)
        assert not conserved(module, events, Outcome(done.outputs, without_the_last))

    def test_the_work_changes_what_is_stored(self, module):
        knobs = {key: value for key, value in STRESS[module].items() if key != "turns"}
        states = [run(module, module.generate(500, turns=turns, **knobs)).state for turns in (0, 1, 2)]
        assert states[0] != states[1] != states[2]

    def test_a_wrong_decision(self, module):
        events = module.generate(1_000, **STRESS[module])
        done = run(module, events)
        status = done.outputs["status"].cast(pa.string()).to_pylist()
        status[status.index("aborted")] = "committed"
        column = done.outputs.column_names.index("status")
        forged = done.outputs.set_column(column, "status", pa.array(status))
        assert not conserved(module, events, Outcome(forged, done.state))


class TestLedger:
    def test_about_the_share_asked_for_aborts_and_for_every_reason(self):
        events = ledger.generate(100_000, abort=0.02)
        seen = reasons(run(ledger, events, rows=ACCOUNTS).outputs)
        assert set(seen) == {None, "amounts must be positive", "insufficient funds", "insufficient units"}
        assert seen[None] / 100_000 == pytest.approx(0.98, abs=0.005)
        assert seen["insufficient funds"] / 100_000 == pytest.approx(0.005, abs=0.002)

    def test_a_transfer_says_what_is_left(self):
        Deposit, Transfer = ledger.Deposit, ledger.Transfer
        result = ledger.app.run(
            [
                Deposit(ts=1, account=1, asset=1, amount=10, units=5),
                Transfer(ts=2, account=1, asset=1, to_account=2, to_asset=2, amount=4, units=5),
                Transfer(ts=3, account=1, asset=1, to_account=2, to_asset=2, amount=4, units=5),
                Transfer(ts=4, account=1, asset=2, to_account=1, to_asset=2, amount=6, units=1),
                Transfer(ts=5, account=1, asset=2, to_account=1, to_asset=2, amount=7, units=1),
            ]
        )
        assert result.outputs["left"].to_pylist() == [None, 6, None, 6, None]
        assert result.outputs["reason"].to_pylist() == [None, None, "insufficient units", None, "insufficient funds"]
        assert ledger.app.state["Account"].to_pydict() == {"key": [1, 2], "balance": [6, 4]}
        assert ledger.app.state["Asset"].to_pydict() == {"key": [1, 2], "units": [0, 5]}


class TestBank:
    def test_every_reason_occurs(self):
        assert set(reasons(run(bank, bank.generate(5_000, **STRESS[bank])).outputs)) == {
            None,
            "amount must be positive",
            "check Account.solvent failed",
            "check History.within_limit failed",
        }

    def test_a_request_that_can_not_be_booked_leaves_no_history(self):
        Deposit, Withdrawal = bank.Deposit, bank.Withdrawal
        bank.app.run([Deposit(ts=0, account=1, amount=10), Withdrawal(ts=1, account=1, amount=11)])
        assert bank.app.state["History"].to_pydict() == {"key": [1], "month": [0], "moved": [10]}
        assert bank.app.state["Account"].to_pydict() == {"key": [1], "balance": [10]}

    def test_the_limit_holds_per_month(self):
        Deposit = bank.Deposit
        half = bank.LIMIT // 2
        days = [0, 1, 2, 30]
        result = bank.app.run([Deposit(ts=day * 24 * 3600, account=1, amount=half) for day in days])
        assert result.outputs["balance"].to_pylist() == [half, 2 * half, None, 3 * half]

    def test_a_transfer_counts_for_both_sides(self):
        Deposit, Transfer = bank.Deposit, bank.Transfer
        result = bank.app.run(
            [
                Deposit(ts=0, account=1, amount=bank.LIMIT - 5),
                Deposit(ts=0, account=2, amount=50),
                Transfer(ts=1, account=2, to_account=1, amount=6),
                Transfer(ts=2, account=2, to_account=1, amount=5),
            ]
        )
        assert result.outputs["reason"].to_pylist()[2:] == ["check History.within_limit failed", None]
        assert bank.app.state["History"]["moved"].to_pylist() == [bank.LIMIT, 55]


class TestGrepSum:
    def test_new_values_and_sums(self):
        Write, Sum = grep_sum.Write, grep_sum.Sum
        one = {"guard": 9, "risk": 0, "amount": 5}
        result = grep_sum.app.run(
            [
                Write(ts=1, keys=[1, 2], sources=[], work=0, **one),
                Write(ts=2, keys=[1, 3], sources=[2, 1, 1, 2], work=0, **one),
                Sum(ts=3, keys=[1, 2, 3], **one),
            ]
        )
        # 5 and 5; then 3 * 5 + 5 + 5 + 5 from records 2 and 1, and 30 + 5 + 5 from the new record 1 and record 2.
        assert result.outputs["total"].to_pylist() == [None, None, 30 + 5 + 40]

    def test_the_guard_refuses_by_its_value(self):
        Write, Sum = grep_sum.Write, grep_sum.Sum
        start = {"Record": pa.table({"key": [7], "value": [CHANCES - 10]})}
        half = {"guard": 7, "risk": CHANCES // 2}
        result = grep_sum.app.run(
            [
                Sum(ts=1, keys=[7], amount=0, **half),
                Sum(ts=2, keys=[7], amount=10, **half),
                Write(ts=3, keys=[1], sources=[], amount=10, work=0, **half),
            ],
            initial=start,
        )
        assert result.outputs["reason"].to_pylist() == [None, "refused", "refused"]


class TestBidding:
    def test_a_bid_needs_the_price_and_the_quantity_of_that_moment(self):
        Bid, Alter, Top = bidding.Bid, bidding.Alter, bidding.Top
        bid = {"item": 1, "work": 0}
        start = {"Item": pa.table({"key": [1], "price": [10], "quantity": [5], "seal": [0]})}
        result = bidding.app.run(
            [
                Bid(ts=1, price=9, quantity=1, **bid),
                Bid(ts=2, price=12, quantity=3, **bid),
                Bid(ts=3, price=12, quantity=3, **bid),
                Top(ts=4, items=[1, 2], quantity=4, work=0),
                Alter(ts=5, items=[1, 2], prices=[13, 1], work=0),
                Bid(ts=6, price=12, quantity=3, **bid),
                Bid(ts=7, price=13, quantity=6, **bid),
                Alter(ts=8, items=[1, 2], prices=[2], work=0),
                Top(ts=9, items=[1, 2], quantity=0, work=0),
            ],
            initial=start,
        )
        assert result.outputs["price"].to_pylist() == [None, 10, None, None, None, None, 13, None, None]
        assert result.outputs["left"].to_pylist() == [None, 2, None, None, None, None, 0, None, None]
        assert [reason for reason in result.outputs["reason"].to_pylist() if reason] == [
            "price too low",
            "not enough left",
            "price too low",
            "every item needs a price",
            "quantity must be positive",
        ]
        assert bidding.app.state["Item"]["quantity"].to_pylist() == [0, 4]
        assert bidding.app.state["Item"]["price"].to_pylist() == [13, 1]

    def test_every_reason_occurs(self):
        assert set(reasons(run(bidding, bidding.generate(2_000, **STRESS[bidding])).outputs)) == {
            None,
            "price too low",
            "not enough left",
            "every item needs a price",
            "quantity must be positive",
        }

    def test_prices_at_the_start_are_those_that_bids_aim_at(self):
        price = bidding.initial()["Item"]["price"].to_numpy()
        assert (price.min(), price.max()) == (PRICE_MIN, 2 * PRICE_MIN - 1)


class TestToll:
    def test_vehicles_count_once_and_tolls_follow_the_speed(self):
        Report = toll.Report
        slow, fast = 40, 90
        start = {"Speed": pa.table({"key": [1, 2], "average": [1_000 * slow, 1_000 * fast], "seal": [0, 0]})}
        free = toll_workload.FREE_VEHICLES
        reports = [
            Report(ts=vehicle, segment=segment, vehicle=vehicle % (free + 2), speed=speed, work=0)
            for segment, speed in ((1, slow), (2, fast))
            for vehicle in range(free + 4)
        ]
        outputs = toll.app.run(sorted(reports, key=lambda r: r.ts), initial=start).outputs
        assert outputs["vehicles"].to_pylist()[::2] == [*range(1, free + 3), free + 2, free + 2]
        assert outputs["toll"].to_pylist()[::2] == [0] * free + [2, 8, 8, 8]
        assert set(outputs["toll"].to_pylist()[1::2]) == {0}

    def test_an_implausible_report_leaves_no_trace(self):
        start = toll.initial(1)
        report = toll.Report(ts=1, segment=0, vehicle=3, speed=91, work=5)
        result = toll.app.run([report], initial=start)
        assert result.outputs["reason"].to_pylist() == ["implausible speed"]
        assert toll.app.state["Speed"].equals(start["Speed"].cast(toll.app.state["Speed"].schema))
        assert toll.app.state["Vehicles"]["count"].to_pylist() == [0]
        assert toll.app.state["Seen"].num_rows == 0

    def test_the_average_is_a_running_one(self):
        Report = toll.Report
        toll.app.run([Report(ts=i, segment=0, vehicle=i, speed=68, work=0) for i in range(2)], initial=toll.initial(1))
        assert toll.app.state["Speed"]["average"].to_pylist() == [60_000 + 1_000 + 875]

    def test_two_regions_abort_as_asked(self):
        events = toll.two_regions(20_000, abort=(0.7, 0.02))
        result = toll.app.run(events, initial=toll.initial(200))
        aborted = result.outputs["reason"].is_valid().to_numpy()
        first = events["segment"].to_numpy() < 100
        assert aborted[first].mean() == pytest.approx(0.7, abs=0.02)
        assert aborted[~first].mean() == pytest.approx(0.02, abs=0.01)


class TestLedgerWork:
    def test_a_transfer_says_what_is_left_and_seals_both_sides(self):
        Deposit, Transfer = ledger_work.Deposit, ledger_work.Transfer
        result = ledger_work.app.run(
            [
                Deposit(ts=1, account=1, asset=1, amount=10, units=5, work=0),
                Transfer(ts=2, account=1, asset=1, to_account=2, to_asset=2, amount=4, units=5, work=0),
                Transfer(ts=3, account=1, asset=1, to_account=2, to_asset=2, amount=4, units=5, work=0),
                Transfer(ts=4, account=1, asset=2, to_account=2, to_asset=1, amount=7, units=1, work=0),
                Deposit(ts=5, account=1, asset=1, amount=BALANCE_MAX, units=5, work=0),
                Deposit(ts=6, account=1, asset=1, amount=1, units=0, work=0),
            ]
        )
        assert result.outputs["left"].to_pylist() == [None, 6, None, None, None, None]
        assert result.outputs["reason"].to_pylist()[2:] == [
            "insufficient units",
            "insufficient funds",
            "account is full",
            "amounts must be positive",
        ]
        assert ledger_work.app.state["Account"].to_pydict() == {"key": [1, 2], "balance": [6, 4], "seal": [34, 10]}
        assert ledger_work.app.state["Asset"].to_pydict() == {"key": [1, 2], "units": [0, 5], "seal": [20, 5]}

    def test_money_is_moved_and_never_made(self):
        events = ledger_work.generate(5_000, transfers=1.0, **STRESS[ledger_work])
        after = run(ledger_work, events).state
        for table, start in ledger_work.initial(ROWS).items():
            assert sum(after[table].column(1).to_pylist()) == sum(start.column(1).to_pylist())
            assert min(after[table].column(1).to_pylist()) >= 0
