"""The payment rules: as listed, like the oracle, features of their moment, and fraud that was planted."""

from __future__ import annotations

import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mainstem.apps import fraud
from mainstem.apps.workloads.fraud import CHUNK_ROWS, COUNTRIES, DELAY_MAX, FEATURES
from mainstem.errors import InputError
from mainstem.testing.compare import Outcome, assert_same

SMALL = {"cards": 40, "merchants": 10, "fraud": 0.05}
SEVERAL_CHUNKS = 20 * CHUNK_ROWS + 123


def run(events, **options) -> Outcome:
    result = fraud.app.run(events, initial=fraud.initial(), **options)
    return Outcome(result.outputs, dict(fraud.app.state))


def paid(*payments, country="DE") -> pa.Table:
    """Outputs of payments (ts, card, merchant, amount)."""
    events = [
        fraud.Payment(ts=ts, payment=i, card=card, merchant=merchant, amount=amount, country=country)
        for i, (ts, card, merchant, amount) in enumerate(payments)
    ]
    return run(events).outputs


class TestRules:
    def test_features_do_not_know_the_payment_itself(self):
        (first,) = paid((5, 1, 2, 700)).select([*FEATURES, "declined"]).to_pylist()
        assert first == {
            **dict.fromkeys(("card_payments", "card_chargebacks", "merchant_payments", "merchant_chargebacks"), 0),
            "amount": 700,
            "velocity": 0.0,
            "usual": 0.0,
            "moved": False,
            "declined": False,
        }

    def test_the_window_slides(self):
        times = [100, 900, 1_250, 1_750, 3_500]
        found = paid(*((ts, 1, 2, 700) for ts in times))["velocity"].to_pylist()
        # Two in the first window; of these three quarters, then a quarter is in sight; then nothing.
        assert found == pytest.approx([0, 1, 2 * 0.75, 1 + 2 * 0.25, 0])

    def test_what_is_usual_follows_the_card(self):
        found = paid((1, 1, 2, 1_000), (2, 1, 2, 2_000), (3, 1, 2, 1_000), (4, 9, 2, 5))["usual"].to_pylist()
        assert found == pytest.approx([0, 1_000, 1_200, 0])

    def test_one_suspicion_is_not_enough_and_two_are(self):
        often = [(ts, 1, 2, 1_000) for ts in range(5)]
        assert paid(*often, (5, 1, 2, 3_900))["declined"].to_pylist() == [False] * 6
        assert paid(*often, (5, 1, 2, 4_100))["declined"].to_pylist() == [False] * 5 + [True]
        assert paid(often[0], (5_000, 1, 2, 4_100))["declined"].to_pylist() == [False, False]

    def test_chargebacks_make_a_merchant_risky_from_then_on(self):
        honest = [(ts, 100 + ts, 2, 1_000) for ts in range(30)]
        events = [
            fraud.Payment(ts=ts, payment=ts, card=card, merchant=2, amount=amount, country="DE")
            for ts, card, _, amount in [*honest, (40, 100, 2, 9_000), (60, 101, 2, 9_000)]
        ]
        events.insert(31, fraud.Chargeback(ts=50, payment=0, card=100, merchant=2, amount=1_000))
        outputs = run(events).outputs
        assert outputs["declined"].to_pylist()[30:] == [False, None, True]
        assert outputs["merchant_chargebacks"].to_pylist()[30:] == [0, None, 1]


class TestRuns:
    @pytest.mark.parametrize("seed", range(2))
    def test_compiled_and_oracle_agree(self, seed):
        events = fraud.generate(6_000, seed=seed, **SMALL)
        assert_same(run(events, engine="oracle"), run(events))

    def test_nothing_aborts(self):
        assert set(run(fraud.generate(20_000)).outputs["status"].to_pylist()) == {"committed"}

    def test_the_check_holds_and_sees_a_lost_event(self):
        events = fraud.generate(6_000, **SMALL)
        done = run(events)
        assert fraud.conserved(fraud.initial(), events, done.outputs, done.state)
        lost = run(events.slice(0, 5_999)).state
        assert not fraud.conserved(fraud.initial(), events, done.outputs, lost)

    @pytest.mark.parametrize("feature", ["card_payments", "merchant_payments", "merchant_chargebacks"])
    def test_the_check_sees_a_feature_of_another_moment(self, feature):
        events = fraud.generate(6_000, **SMALL)
        done = run(events)
        later = pc.add(done.outputs[feature], pa.array(np.arange(6_000) == 5_000).cast(pa.int64()))
        forged = done.outputs.set_column(done.outputs.column_names.index(feature), feature, later)
        if done.outputs["payment"][5_000].as_py() is None:
            pytest.fail("row 5,000 should be a payment: choose another one")
        assert not fraud.conserved(fraud.initial(), events, forged, done.state)

    def test_a_prefix_gives_the_same_features(self):
        events = fraud.generate(8_000, **SMALL)
        whole, part = run(events).outputs, run(events.slice(0, 5_000)).outputs
        assert part.select(FEATURES).equals(whole.select(FEATURES).slice(0, 5_000).cast(part.select(FEATURES).schema))

    def test_a_training_set_has_a_label_per_payment(self):
        events = fraud.generate(SEVERAL_CHUNKS)
        table = fraud.training_set(events, run(events).outputs)
        assert table.column_names == ["ts", "payment", *FEATURES, "declined", "fraud"]
        assert all(column.null_count == 0 for column in table.columns)
        by_number = dict(zip(events["payment"].to_pylist(), events["fraud"].to_pylist(), strict=True))
        assert table.num_rows == pc.sum(events["fraud"].is_valid()).as_py()
        payments = events.filter(events["fraud"].is_valid())
        assert table["payment"].equals(payments["payment"])
        assert table["fraud"].equals(payments["fraud"])
        assert set(by_number) >= set(table["payment"].to_pylist())

    def test_the_rules_find_fraud(self):
        events = fraud.generate(200_000)
        table = fraud.training_set(events, run(events).outputs)
        label, declined = (table[name].to_numpy() for name in ("fraud", "declined"))
        assert declined[label].mean() > 0.3
        assert label[declined].mean() > 0.9

    def test_the_use_shown_in_the_docstring_runs(self):
        shown = [line for line in fraud.__doc__.splitlines() if line.startswith("    ")]
        exec(textwrap.dedent("\n".join(shown)), scope := {})
        assert scope["result"].stats.events == 100_000


class TestGenerator:
    def test_columns_fit_the_event_types(self):
        events = fraud.generate(SEVERAL_CHUNKS)
        for event in fraud.app.program.events:
            rows = events.filter(pc.equal(events["event"].cast(pa.string()), event.name))
            assert rows.num_rows > 0
            for field in event.fields:
                assert rows[field.name].type == field.type.arrow
                assert rows[field.name].null_count == 0

    def test_a_shorter_log_is_a_prefix_and_a_seed_decides(self):
        longer = fraud.generate(SEVERAL_CHUNKS)
        assert fraud.generate(CHUNK_ROWS + 7).equals(longer.slice(0, CHUNK_ROWS + 7))
        assert not fraud.generate(SEVERAL_CHUNKS, seed=1).equals(longer)

    def test_no_events(self):
        assert fraud.generate(0).num_rows == 0
        assert fraud.generate(0).schema == fraud.generate(10).schema

    def test_a_written_log_has_the_generated_rows(self, tmp_path):
        files = fraud.write_log(tmp_path / "log", SEVERAL_CHUNKS, files=2, row_group=20_000, cards=500)
        read = pa.concat_tables([pq.read_table(path) for path in files])
        assert read.cast(fraud.generate(1).schema).equals(fraud.generate(SEVERAL_CHUNKS, cards=500))

    def test_chargebacks_repeat_an_earlier_payment(self):
        events = fraud.generate(SEVERAL_CHUNKS)
        rows = events.select(["payment", "card", "merchant", "amount"])
        payments = {row["payment"]: row for row in rows.filter(events["fraud"].is_valid()).to_pylist()}
        is_chargeback = events["fraud"].is_null().to_numpy()
        chargebacks = rows.filter(pa.array(is_chargeback)).to_pylist()
        assert len({row["payment"] for row in chargebacks}) == len(chargebacks) > 50
        assert all(payments[row["payment"]] == row for row in chargebacks)
        # A payment's number is its place in the log.
        delays = np.flatnonzero(is_chargeback) - np.array([row["payment"] for row in chargebacks])
        assert delays.min() >= CHUNK_ROWS
        assert delays.max() < DELAY_MAX

    @pytest.mark.parametrize("share", [0.0, 0.005, 0.05])
    def test_fraud_has_its_share(self, share):
        label = fraud.generate(100_000, fraud=share)["fraud"].drop_null().to_numpy()
        assert label.mean() == pytest.approx(share, rel=0.3, abs=1e-9)

    def test_fraud_comes_in_bursts_of_large_amounts(self):
        events = fraud.generate(50_000)
        events = events.filter(events["fraud"].is_valid())
        label, amount, card = (events[name].to_numpy() for name in ("fraud", "amount", "card"))
        assert np.median(amount[label]) > 5 * np.median(amount[~label])
        _, used = np.unique(card[label], return_counts=True)
        assert np.median(used) >= 3
        assert set(pc.unique(events["country"]).to_pylist()) == set(COUNTRIES)

    def test_a_share_outside_0_to_1_is_an_error_that_names_it(self):
        with pytest.raises(InputError, match=r"fraud=1\.5 is not a share"):
            fraud.generate(10, fraud=1.5)
