"""The apps on their own workloads: like the oracle, money conserved, and sensitive to order."""

from __future__ import annotations

import textwrap
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from mainstem.apps import bank, ledger
from mainstem.apps.workloads.ledger import ACCOUNTS
from mainstem.testing.compare import Outcome, assert_same

MODULES = [ledger, bank]
# Few accounts and many aborts: rows conflict, run out of money and reach limits within a few thousand events.
STRESS = {"accounts": 50, "abort": 0.2, "skew": 0.9}


def run(module, events, accounts=50, **options) -> Outcome:
    result = module.app.run(events, initial=module.initial(accounts), **options)
    return Outcome(result.outputs, dict(module.app.state))


def reasons(outputs: pa.Table) -> Counter:
    return Counter(outputs["reason"].cast(pa.string()).to_pylist())


@pytest.mark.parametrize("module", MODULES)
class TestEveryApp:
    @pytest.mark.parametrize("seed", range(3))
    def test_compiled_and_oracle_agree(self, module, seed):
        events = module.generate(3_000, seed=seed, **STRESS)
        assert_same(run(module, events, engine="oracle"), run(module, events))

    @pytest.mark.parametrize("engine", ["serial", "oracle"])
    def test_money_is_conserved(self, module, engine):
        events = module.generate(3_000, **STRESS)
        done = run(module, events, engine=engine)
        assert module.conserved(module.initial(50), events, done.outputs, done.state)

    def test_the_check_of_conservation_can_fail(self, module):
        events = module.generate(1_000, **STRESS)
        done = run(module, events)
        balances = done.state["Account"]["balance"].to_numpy().copy()
        balances[0] += 1
        forged = {**done.state, "Account": done.state["Account"].set_column(1, "balance", pa.array(balances))}
        assert not module.conserved(module.initial(50), events, done.outputs, forged)

    def test_another_order_ends_in_another_state(self, module):
        events = module.generate(3_000, **STRESS)
        shuffled = events.take(np.random.default_rng(0).permutation(3_000)).set_column(0, "ts", events["ts"])
        assert run(module, events).state != run(module, shuffled).state

    def test_the_use_shown_in_the_docstring_runs(self, module):
        shown = [line for line in module.__doc__.splitlines() if line.startswith("    ")]
        exec(textwrap.dedent("\n".join(shown)), scope := {})
        assert scope["result"].stats.events == 100_000

    def test_batches_do_not_matter(self, module):
        events = module.generate(2_000, **STRESS)
        assert_same(run(module, events), run(module, events, batch=97))


class TestLedger:
    def test_about_the_share_asked_for_aborts_and_for_every_reason(self):
        events = ledger.generate(100_000, abort=0.02)
        seen = reasons(run(ledger, events, accounts=ACCOUNTS).outputs)
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
        assert set(reasons(run(bank, bank.generate(5_000, **STRESS)).outputs)) == {
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
