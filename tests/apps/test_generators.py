"""What the workload generators promise: order, shares, skew, prefixes, and the same log in memory and on disk."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mainstem.apps import APPS, bank, bidding, grep_sum, ledger, ledger_work, load, toll
from mainstem.apps.workloads.common import CHUNK_ROWS, ZipfKeys, temptations
from mainstem.apps.workloads.ledger import ACCOUNTS
from mainstem.errors import InputError, ProgramError

EVERY = [ledger, bank, grep_sum, bidding, toll, ledger_work]
WITH_WORK = [grep_sum, bidding, toll, ledger_work]
MONEY = [ledger, bank]
SEVERAL_CHUNKS = 2 * CHUNK_ROWS + 1234


def share(mask: pa.ChunkedArray) -> float:
    return pc.mean(mask.cast(pa.int8())).as_py()


def is_kind(table: pa.Table, name: str) -> pa.ChunkedArray:
    return pc.equal(table["event"].cast(pa.string()), name)


@pytest.mark.parametrize("module", EVERY)
class TestEveryGenerator:
    def test_timestamps_rise_with_ties(self, module):
        steps = np.diff(module.generate(SEVERAL_CHUNKS)["ts"].to_numpy())
        assert steps.min() == 0
        assert steps.max() > 0

    def test_rows_and_columns_fit_the_event_types(self, module):
        table = module.generate(5_000)
        assert table.num_rows == 5_000
        for event in module.app.program.events:
            rows = table.filter(is_kind(table, event.name))
            assert rows.num_rows > 0
            for field in event.fields:
                assert rows[field.name].type == field.type.arrow
                assert rows[field.name].null_count == 0

    def test_a_seed_decides_everything(self, module):
        assert module.generate(1_000, seed=1).equals(module.generate(1_000, seed=1))
        assert not module.generate(1_000, seed=1).equals(module.generate(1_000, seed=2))

    def test_a_shorter_log_is_a_prefix(self, module):
        longer = module.generate(SEVERAL_CHUNKS)
        assert module.generate(CHUNK_ROWS + 7).equals(longer.slice(0, CHUNK_ROWS + 7))

    def test_no_events(self, module):
        assert module.generate(0).num_rows == 0
        assert module.generate(0).schema == module.generate(10).schema

    def test_a_share_outside_0_to_1_is_an_error_that_names_it(self, module):
        with pytest.raises(InputError, match=r"abort=1\.5 is not a share"):
            module.generate(10, abort=1.5)

    def test_the_start_is_not_uniform(self, module):
        for table in module.initial(100).values():
            assert len(set(zip(*(column.to_pylist() for column in table.columns[1:]), strict=True))) == 100

    def test_a_written_log_has_the_generated_rows(self, module, tmp_path):
        seen = []
        files = module.write_log(tmp_path / "log", SEVERAL_CHUNKS, files=3, row_group=20_000, progress=seen.append)
        assert [path.name for path in files] == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
        table = pa.concat_tables([pq.read_table(path) for path in files])
        assert table.cast(module.generate(1).schema).equals(module.generate(SEVERAL_CHUNKS))
        assert seen == sorted(seen)
        assert seen[-1] == SEVERAL_CHUNKS
        first = pq.read_metadata(files[0])
        assert max(first.row_group(i).num_rows for i in range(first.num_row_groups)) == 20_000

    def test_a_log_may_have_more_files_than_events(self, module, tmp_path):
        files = module.write_log(tmp_path / "log", 2, files=3)
        assert [pq.read_metadata(path).num_rows for path in files] == [0, 1, 1]


@pytest.mark.parametrize("module", MONEY)
class TestMoney:
    def test_transfers_have_their_share(self, module):
        for wanted in (0.0, 0.3, 1.0):
            table = module.generate(20_000, transfers=wanted)
            assert share(is_kind(table, "Transfer")) == pytest.approx(wanted, abs=0.02)

    def test_half_of_the_aborts_are_malformed_amounts(self, module):
        assert share(pc.less_equal(module.generate(50_000, abort=0.2)["amount"], 0)) == pytest.approx(0.1, abs=0.01)
        assert share(pc.less_equal(module.generate(50_000, abort=0.0)["amount"], 0)) == 0


@pytest.mark.parametrize("module", WITH_WORK)
class TestWork:
    def test_turns_go_with_every_event_that_writes(self, module):
        table = module.generate(1_000, turns=17)
        assert set(table["work"].drop_null().to_pylist()) == {17}
        assert set(module.generate(1_000)["work"].drop_null().to_pylist()) == {0}

    def test_cost_becomes_turns(self, module):
        (cheap,), (dear,) = (set(module.generate(10, cost=c)["work"].drop_null().to_pylist()) for c in (1.0, 10.0))
        assert cheap > 0
        assert dear == pytest.approx(10 * cheap, abs=10)

    def test_nothing_else_depends_on_it(self, module):
        costly, free = module.generate(1_000, turns=17), module.generate(1_000)
        assert costly.drop_columns("work").equals(free.drop_columns("work"))

    def test_a_log_takes_the_same_knobs(self, module, tmp_path):
        (file,) = module.write_log(tmp_path, 500, files=1, skew=1.0, turns=3, seed=4)
        made = module.generate(500, skew=1.0, turns=3, seed=4)
        assert pq.read_table(file).cast(made.schema).equals(made)

    def test_an_unknown_knob_of_a_log_is_an_error_that_lists_the_known(self, module, tmp_path):
        with pytest.raises(InputError, match=r"no knob 'speed'.*skew, .*seed"):
            module.write_log(tmp_path, 10, speed=3)


class TestGrepSum:
    def test_writes_have_their_share(self):
        for wanted in (0.0, 0.3, 1.0):
            table = grep_sum.generate(20_000, writes=wanted)
            assert share(is_kind(table, "Write")) == pytest.approx(wanted, abs=0.02)

    @pytest.mark.parametrize(("length", "reads", "skew"), [(1, 0, 0.0), (4, 2, 0.6), (10, 10, 1.5)])
    def test_every_event_has_its_keys_and_sources_all_different(self, length, reads, skew):
        for row in grep_sum.generate(500, length=length, reads=reads, skew=skew).to_pylist():
            sources = row["sources"] if row["event"] == "Write" else []
            assert len(row["keys"]) == length
            assert len(sources) == (length * reads if row["event"] == "Write" else 0)
            assert len({row["guard"], *row["keys"], *sources}) == 1 + length + len(sources)

    def test_records_may_repeat_when_asked_for(self):
        rows = grep_sum.generate(200, records=5, length=6, reads=2, distinct=False).to_pylist()
        assert all(len(set(row["keys"])) < 6 for row in rows)

    def test_more_keys_than_records_is_an_error_that_says_so(self):
        with pytest.raises(InputError, match="can't have 31 different keys out of 30"):
            grep_sum.generate(10, records=30, length=10, reads=2)

    @pytest.mark.parametrize("knobs", [{"length": 0}, {"reads": -1}])
    def test_a_length_that_makes_no_sense_is_an_error(self, knobs):
        with pytest.raises(InputError, match="length="):
            grep_sum.generate(10, **knobs)


class TestBidding:
    def test_six_bids_for_each_alter_and_each_top(self):
        table = bidding.generate(50_000)
        for kind, wanted in (("Bid", 0.75), ("Alter", 0.125), ("Top", 0.125)):
            assert share(is_kind(table, kind)) == pytest.approx(wanted, abs=0.01)

    def test_lists_have_different_items_and_a_price_for_each(self):
        for row in bidding.generate(2_000, abort=0.0, skew=1.5, length=7).to_pylist():
            if row["event"] != "Bid":
                assert len(set(row["items"])) == len(row["items"]) == 7
            if row["event"] == "Alter":
                assert len(row["prices"]) == 7

    def test_an_empty_list_is_an_error(self):
        with pytest.raises(InputError, match="length=0"):
            bidding.generate(10, length=0)


class TestToll:
    def test_two_regions_share_the_stream(self):
        table = toll.two_regions(20_001, segments=10, skew=(1.2, 0.0), abort=(0.8, 0.0), turns=3)
        assert np.diff(table["ts"].to_numpy()).min() >= 0
        segment = table["segment"].to_numpy()
        counts = np.bincount(segment, minlength=20)
        assert counts.size == 20
        assert (counts[:10].sum(), counts[10:].sum()) == (10_000, 10_001)
        assert counts[:10].max() > 3_000
        assert counts[10:].max() < 1_500
        # Mixed, not one after the other.
        assert 4_500 < (segment[:10_000] < 10).sum() < 5_500
        absurd = table["speed"].to_numpy() == 1_000
        assert absurd[segment < 10].sum() > 0
        assert absurd[segment >= 10].sum() == 0


class TestLedgerWork:
    def test_nothing_is_transferred_to_where_it_comes_from(self):
        table = ledger_work.generate(20_000, transfers=1.0, skew=1.5)
        assert not pc.any(pc.equal(table["account"], table["to_account"])).as_py()
        assert not pc.any(pc.equal(table["asset"], table["to_asset"])).as_py()

    def test_unless_it_may(self):
        table = ledger_work.generate(20_000, transfers=1.0, skew=1.5, distinct=False)
        assert pc.any(pc.equal(table["account"], table["to_account"])).as_py()


class TestTemptations:
    @pytest.mark.parametrize("abort", [0.0, 0.01, 0.3, 0.5, 0.9, 1.0])
    def test_all_that_must_and_half_of_the_coins_make_the_share(self, abort):
        must, coin = temptations(np.random.default_rng(0), 100_000, abort)
        assert not (must & coin).any()
        assert must.mean() + coin.mean() / 2 == pytest.approx(abort, abs=0.005)
        assert coin.mean() <= (~must & ~coin).mean() * 2 + 0.005

    def test_coins_can_be_rare(self):
        must, coin = temptations(np.random.default_rng(0), 100_000, 0.5, coins_max=0.1)
        assert coin.mean() == pytest.approx(0.1, abs=0.005)
        assert must.mean() == pytest.approx(0.45, abs=0.005)


class TestZipf:
    def test_keys_follow_the_skew(self):
        keys = ZipfKeys(1_000, 1.0, seed=3)
        drawn = np.bincount(keys.draw(np.random.default_rng(0), 200_000), minlength=1_000)
        by_popularity = np.argsort(-keys.share)
        # Weights r ** -1: the second key comes half as often as the first, the fourth a quarter.
        first, second, _, fourth = drawn[by_popularity[:4]]
        assert second / first == pytest.approx(1 / 2, rel=0.1)
        assert fourth / first == pytest.approx(1 / 4, rel=0.1)

    def test_without_skew_all_keys_are_alike(self):
        drawn = np.bincount(ZipfKeys(100, 0.0, seed=3).draw(np.random.default_rng(0), 100_000), minlength=100)
        assert drawn.min() > 800
        assert drawn.max() < 1_200

    def test_popular_keys_are_scattered(self):
        top = np.sort(np.argsort(-ZipfKeys(10_000, 0.6, seed=0).share)[:10])
        assert np.diff(top).max() > 100

    def test_sets_of_different_keys_follow_the_skew_too(self):
        keys = ZipfKeys(1_000, 1.0, seed=3)
        sets = keys.draw_sets(np.random.default_rng(0), 20_000, 3)
        assert (np.sort(sets, axis=1)[:, 1:] != np.sort(sets, axis=1)[:, :-1]).all()
        first, second = np.bincount(sets[:, 0], minlength=1_000)[np.argsort(-keys.share)[:2]]
        assert second / first == pytest.approx(1 / 2, rel=0.1)

    def test_a_set_may_hold_all_keys(self):
        sets = ZipfKeys(20, 1.5, seed=0).draw_sets(np.random.default_rng(0), 50, 20)
        assert (np.sort(sets, axis=1) == np.arange(20)).all()

    def test_a_skewed_ledger_hits_its_popular_accounts(self):
        table = ledger.generate(100_000, skew=1.2)
        counts = np.sort(np.bincount(table["account"].to_numpy(), minlength=ACCOUNTS))[::-1]
        assert counts[:100].sum() > 0.5 * table.num_rows


class TestRegistry:
    def test_every_app_has_the_same_face(self):
        for name in APPS:
            module = load(name)
            assert module.app.name == name
            for function in ("generate", "write_log", "initial", "conserved"):
                assert callable(getattr(module, function))

    def test_an_unknown_app_is_an_error_that_lists_the_known(self):
        with pytest.raises(ProgramError, match=r"no app called 'casino'[\s\S]*bank, bidding, comments, fraud"):
            load("casino")
