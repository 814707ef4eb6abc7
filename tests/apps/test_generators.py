"""What the workload generators promise: order, shares, skew, prefixes, and the same log in memory and on disk."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mainstem.apps import APPS, bank, ledger, load
from mainstem.apps.workloads.common import CHUNK_ROWS, ZipfKeys
from mainstem.apps.workloads.ledger import ACCOUNTS
from mainstem.errors import InputError, ProgramError

MODULES = [ledger, bank]
SEVERAL_CHUNKS = 2 * CHUNK_ROWS + 1234


def share(mask: pa.ChunkedArray) -> float:
    return pc.mean(mask.cast(pa.int8())).as_py()


@pytest.mark.parametrize("module", MODULES)
class TestEveryGenerator:
    def test_timestamps_rise_with_ties(self, module):
        steps = np.diff(module.generate(SEVERAL_CHUNKS)["ts"].to_numpy())
        assert steps.min() == 0
        assert steps.max() > 0

    def test_rows_and_columns_fit_the_event_types(self, module):
        table = module.generate(5_000)
        assert table.num_rows == 5_000
        for event in module.app.program.events:
            rows = table.filter(pc.equal(table["event"].cast(pa.string()), event.name))
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

    def test_transfers_have_their_share(self, module):
        for wanted in (0.0, 0.3, 1.0):
            table = module.generate(20_000, transfers=wanted)
            assert share(pc.equal(table["event"].cast(pa.string()), "Transfer")) == pytest.approx(wanted, abs=0.02)

    def test_half_of_the_aborts_are_malformed_amounts(self, module):
        assert share(pc.less_equal(module.generate(50_000, abort=0.2)["amount"], 0)) == pytest.approx(0.1, abs=0.01)
        assert share(pc.less_equal(module.generate(50_000, abort=0.0)["amount"], 0)) == 0

    def test_no_events(self, module):
        assert module.generate(0).num_rows == 0
        assert module.generate(0).schema == module.generate(10).schema

    def test_a_share_outside_0_to_1_is_an_error_that_names_it(self, module):
        with pytest.raises(InputError, match=r"abort=1\.5 is not a share"):
            module.generate(10, abort=1.5)

    def test_the_start_is_not_uniform(self, module):
        balances = module.initial(100)["Account"]["balance"].to_pylist()
        assert len(set(balances)) == 100

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
        with pytest.raises(ProgramError, match=r"no app called 'casino'[\s\S]*bank, ledger"):
            load("casino")
