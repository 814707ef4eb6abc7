"""The alternatives for the spam log: the exact ones find what the engine finds, the approximate one does not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mainstem.apps import spam
from mainstem.bench import spam_answers, spam_loop, spam_plain
from mainstem.bench.spam_answers import answer, error_against, open_log
from mainstem.errors import InputError

EVENTS = 12_000
KNOBS = {"users": 300, "seed": 3}  # so few that the counts of a sender change often


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spam") / "log"
    spam.write_log(folder, EVENTS, files=3, row_group=1_500, **KNOBS)
    return folder


@pytest.fixture(scope="module")
def truth(log, tmp_path_factory):
    """Where the engine's own outputs are."""
    out = tmp_path_factory.mktemp("truth") / "out"
    spam.app.run(str(log), out=out)
    return out


@pytest.fixture(scope="module")
def wanted(truth):
    return answer("app.run", 1.0, EVENTS, truth)


def same(found, wanted) -> bool:
    return [found.events, found.messages, found.spam, found.digest] == [
        wanted.events,
        wanted.messages,
        wanted.spam,
        wanted.digest,
    ]


def test_the_log_is_one_that_can_be_judged_wrong(wanted):
    assert wanted.messages > EVENTS / 2
    assert wanted.spam > 100


class TestOnSpark:
    @pytest.mark.parametrize("alternative", spam_plain.EXACT_ON_SPARK, ids=lambda f: f.__name__)
    def test_exact_ones_find_what_the_engine_finds(self, spark, log, wanted, tmp_path, alternative):
        assert same(alternative(spark, log, tmp_path / "out"), wanted)

    def test_windows_carry_their_state_from_batch_to_batch(self, spark, log, wanted, tmp_path):
        assert same(spam_plain.sql_windows(spark, log, tmp_path / "out", scan=False, batch=6_000), wanted)

    def test_micro_batches_are_wrong(self, spark, log, truth, wanted, tmp_path):
        found = spam_plain.micro_batches(spark, log, tmp_path / "out", batch=6_000)
        assert found.messages == wanted.messages
        assert found.digest != wanted.digest
        error = error_against(truth, tmp_path / "out")
        assert (error.spam_true, error.spam_found) == (wanted.spam, found.spam)
        assert 0 < error.wrong < 0.5


@pytest.mark.parametrize(("batch", "spam_wanted"), [(1, 1), (2, 2)])
def test_micro_batches_are_as_wrong_as_their_batches_are_large(spark, tmp_path, batch, spam_wanted):
    # Only the second message has an address: the first is spam by what came after it.
    columns = {"ts": [0, 1], "sender": [1, 1], "recipient": [2, 3], "ip": [7, 7], "has_email": [False, True]}
    events = pa.table({**columns, "event": ["Message"] * 2, **dict.fromkeys("ab", pa.nulls(2, pa.int64()))})
    (tmp_path / "log").mkdir()
    pq.write_table(events, tmp_path / "log" / "part-0.parquet")
    found = spam_plain.micro_batches(spark, tmp_path / "log", tmp_path / "out", scan=False, batch=batch)
    assert (found.messages, found.spam) == (2, spam_wanted)


def test_session_options_are_put_back(spark, log, tmp_path):
    names = ["spark.sql.autoBroadcastJoinThreshold", "spark.sql.shuffle.partitions"]
    before = [spark.conf.get(name) for name in names]
    spam_plain.single_batch(spark, log, tmp_path / "out", scan=False)
    assert [spark.conf.get(name) for name in names] == before


@pytest.mark.parametrize("alternative", spam_plain.ONE_CORE, ids=lambda f: f.__name__)
def test_single_core_runs_find_what_the_engine_finds(log, wanted, tmp_path, alternative):
    assert same(alternative(log, tmp_path / "out"), wanted)


def test_the_hand_written_loop_grows_its_state(tmp_path):
    events = spam.generate(70_000, users=70_000)
    (tmp_path / "log").mkdir()
    pq.write_table(events, tmp_path / "log" / "part-0.parquet")
    assert spam_loop.replay(tmp_path / "log", tmp_path / "out", scan=False) == 70_000
    spam.app_without_scan.run(events, out=tmp_path / "truth")
    assert error_against(tmp_path / "truth", tmp_path / "out").wrong == 0


def test_a_failing_single_core_run_says_why(tmp_path):
    with pytest.raises(InputError, match="holds no events"):
        spam_plain.serial_loop(tmp_path, tmp_path / "out")


class TestAnswers:
    def write(self, folder, seq, flags):
        folder.mkdir()
        pq.write_table(pa.table({"seq": pa.array(seq), "spam": pa.array(flags, pa.bool_())}), folder / "a.parquet")
        return folder

    def test_an_error_counts_spam_and_wrong_verdicts(self, tmp_path):
        truth = self.write(tmp_path / "truth", [0, 1, 2, 3, 4], [True, True, False, None, False])
        found = self.write(tmp_path / "found", [4, 2, 1, 0], [True, True, False, True])
        error = error_against(truth, found)
        assert (error.spam_true, error.spam_found, error.wrong) == (2, 3, 0.75)
        assert error.relative == 0.5

    def test_other_messages_are_an_error(self, tmp_path):
        truth = self.write(tmp_path / "truth", [0, 1], [True, True])
        found = self.write(tmp_path / "found", [0, 2], [True, True])
        with pytest.raises(InputError, match="judge different messages"):
            error_against(truth, found)

    @pytest.mark.parametrize(("seq", "flags"), [([0, 1], [True, True]), ([0, 2], [True, False]), ([0], [True])])
    def test_any_change_shows_in_the_digest(self, tmp_path, seq, flags):
        wanted = answer("a", 1.0, 2, self.write(tmp_path / "a", [0, 1], [True, False]))
        other = answer("b", 1.0, 2, self.write(tmp_path / "b", seq, flags))
        assert wanted.digest != other.digest

    def test_batches_cover_the_log_once(self, log):
        opened = open_log(log)
        spans = opened.ranges(1_000)
        assert len(spans) == EVENTS // 1_000
        ts = pq.read_table(log)["ts"].to_numpy()
        counts = [int(((ts >= low) & (ts < high)).sum()) for low, high in spans]
        assert sum(counts) == EVENTS
        assert np.allclose(counts, 1_000, rtol=0.2)

    def test_a_log_out_of_order_is_refused(self, tmp_path):
        spam.write_log(tmp_path, 1_000, files=2, **KNOBS)
        (tmp_path / "part-00000.parquet").rename(tmp_path / "part-00009.parquet")
        with pytest.raises(InputError, match="do not follow each other"):
            open_log(tmp_path)

    def test_old_verdicts_are_not_mixed_with_new_ones(self, log, tmp_path):
        self.write(tmp_path / "out", [0], [True])
        with pytest.raises(InputError, match="is not empty"):
            spam_plain.serial_loop(log, tmp_path / "out")

    def test_events_per_second(self):
        assert spam_answers.Answer("x", 0.5, 10, 8, 1, "").events_per_second == 20
