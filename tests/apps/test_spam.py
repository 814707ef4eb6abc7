"""The spam rules: as listed, like the oracle, and on a network that looks as promised."""

from __future__ import annotations

import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mainstem.apps import spam
from mainstem.apps.workloads import spam as workload
from mainstem.apps.workloads.common import CHUNK_ROWS
from mainstem.errors import InputError
from mainstem.testing.compare import Outcome, assert_same

SEVERAL_CHUNKS = CHUNK_ROWS + 1234
SMALL = {"users": 60}  # so few that every sender and address is met often
BOTH = [spam.app, spam.app_without_scan]


def run(app, events, **options) -> Outcome:
    result = app.run(events, initial=spam.initial(), **options)
    return Outcome(result.outputs, dict(app.state))


def table(*rows) -> pa.Table:
    """Rows of ("friends", a, b) and ("message", sender, recipient, ip, content)."""
    columns: dict[str, list] = {name: [] for name in ("ts", "event", "a", "b", "sender", "recipient", "ip", "content")}
    for ts, (kind, *values) in enumerate(rows):
        fields = ("a", "b") if kind == "friends" else ("sender", "recipient", "ip", "content")
        given = dict(zip(fields, values, strict=True))
        event = "Friendship" if kind == "friends" else "Message"
        for name, column in columns.items():
            column.append({"ts": ts, "event": event, **given}.get(name))
    types = {"event": pa.string(), "content": pa.string()}
    return pa.table({name: pa.array(values, types.get(name, pa.int64())) for name, values in columns.items()})


def is_message(events: pa.Table) -> pa.ChunkedArray:
    return pc.equal(events["event"].cast(pa.string()), "Message")


class TestTheRule:
    def test_strangers_and_addresses_make_spam(self):
        events = table(("message", 1, 2, 7, "write to a@b.example"))
        assert run(spam.app, events).outputs["spam"].to_pylist() == [True]

    @pytest.mark.parametrize(
        ("before", "spam_wanted"),
        [
            ([], True),
            ([("friends", 1, 2)], False),  # a friend
            ([("friends", 2, 1)], True),  # the pair is ordered
            ([("message", 3, 4, 7, "hello")] * 4, False),  # one of five from this address: not more than a fifth
            ([("message", 3, 4, 7, "hello")] * 3, True),
            ([("message", 3, 4, 8, "hello")] * 9, True),  # another address
        ],
    )
    def test_what_came_before_decides(self, before, spam_wanted):
        events = table(*before, ("message", 1, 2, 7, "write to a@b.example"))
        assert run(spam.app, events).outputs["spam"].to_pylist()[-1] is spam_wanted

    def test_a_later_friendship_does_not_help(self):
        message = ("message", 1, 2, 7, "a@b.example")
        assert run(spam.app, table(message, ("friends", 1, 2))).outputs["spam"].to_pylist() == [True, None]

    def test_twice_as_many_strangers_are_allowed(self):
        friendly = [("friends", 1, 2), ("message", 1, 2, 7, "a@b.example")]
        strange = ("message", 1, 3, 7, "a@b.example")
        found = run(spam.app, table(*friendly, strange, strange, strange)).outputs["spam"].to_pylist()
        assert found == [None, False, False, False, True]

    def test_the_numbers_are_used_by_name(self, monkeypatch):
        monkeypatch.setattr(spam, "SPAM_SHARE", 1.0)
        events = spam.generate(2_000, **SMALL)
        assert pc.sum(spam.build().run(events).outputs["spam"]).as_py() == 0
        assert pc.sum(spam.app.run(events).outputs["spam"]).as_py() > 0


class TestScan:
    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("a@b.example", True),
            ("mail first.last+tag@mail.co.uk, please", True),
            ("ünï @ann x@y.zz", True),
            ("", False),
            ("no address", False),
            ("@ann", False),
            ("me@localhost", False),
            ("tea @ 4.30", False),
            ("a@b.c", False),
        ],
    )
    def test_addresses_are_found(self, text, wanted):
        assert spam.has_email(pa.array(["", text, "no"])).to_pylist() == [False, wanted, False]

    def test_it_equals_the_pattern_on_every_text(self):
        content = spam.generate(20_000)["content"].combine_chunks()
        wanted = pc.match_substring_regex(content, spam.EMAIL).fill_null(False)
        assert spam.has_email(content).equals(wanted)
        assert spam.has_email(content.slice(777, 5_000)).equals(wanted.slice(777, 5_000))

    def test_no_texts(self):
        assert spam.has_email(pa.array([], pa.string())).to_pylist() == []
        assert spam.has_email(pa.array([None, None], pa.string())).to_pylist() == [False, False]


class TestRuns:
    @pytest.mark.parametrize("app", BOTH, ids=lambda app: app.name)
    @pytest.mark.parametrize("seed", range(2))
    def test_compiled_and_oracle_agree(self, app, seed):
        events = spam.generate(2_000, seed=seed, **SMALL)
        assert_same(run(app, events, engine="oracle"), run(app, events))

    def test_with_and_without_the_scan_is_the_same(self):
        events = spam.generate(2_000, **SMALL)
        assert_same(run(spam.app, events), run(spam.app_without_scan, events))

    def test_without_the_scan_no_text_is_needed(self):
        events = spam.generate(500, **SMALL)
        assert_same(run(spam.app, events), run(spam.app_without_scan, events.drop(["content"])))

    @pytest.mark.parametrize("engine", ["serial", "oracle"])
    def test_the_check_holds(self, engine):
        events = spam.generate(3_000, **SMALL)
        done = run(spam.app, events, engine=engine)
        assert spam.conserved(spam.initial(), events, done.outputs, done.state)

    @pytest.mark.parametrize(("name", "field"), [("Sender", "to_others"), ("Origin", "emails"), ("Friends", "yes")])
    def test_the_check_sees_a_wrong_value(self, name, field):
        events = spam.generate(1_000, **SMALL)
        done = run(spam.app, events)
        wrong = done.state[name][field].to_pylist()
        wrong[-1] = not wrong[-1] if field == "yes" else wrong[-1] + 1
        place = done.state[name].column_names.index(field)
        forged = {**done.state, name: done.state[name].set_column(place, field, pa.array(wrong))}
        assert not spam.conserved(spam.initial(), events, done.outputs, forged)

    def test_the_check_sees_a_wrong_verdict(self):
        events = spam.generate(1_000, **SMALL)
        done = run(spam.app, events)
        place = done.outputs.column_names.index("spam")
        forged = done.outputs.set_column(place, "spam", pc.invert(done.outputs["spam"]))
        assert not spam.conserved(spam.initial(), events, forged, done.state)

    def test_the_use_shown_in_the_docstring_runs(self):
        shown = [line for line in spam.__doc__.splitlines() if line.startswith("    ")]
        exec(textwrap.dedent("\n".join(shown)), scope := {})
        assert scope["result"].stats.events == 100_000


class TestGenerator:
    def test_columns_fit_both_apps(self):
        events = spam.generate(5_000)
        for app in BOTH:
            for event in app.program.events:
                rows = events.filter(pc.equal(events["event"].cast(pa.string()), event.name))
                assert rows.num_rows > 0
                for field in event.fields:
                    assert rows[field.name].type == field.type.arrow
                    assert rows[field.name].null_count == 0

    def test_timestamps_rise_with_ties(self):
        steps = np.diff(spam.generate(SEVERAL_CHUNKS)["ts"].to_numpy())
        assert set(steps) == {0, 1, 2}

    def test_a_seed_decides_everything(self):
        assert spam.generate(1_000, seed=1).equals(spam.generate(1_000, seed=1))
        assert not spam.generate(1_000, seed=1).equals(spam.generate(1_000, seed=2))

    def test_a_shorter_log_is_a_prefix(self):
        assert spam.generate(CHUNK_ROWS + 7).equals(spam.generate(SEVERAL_CHUNKS).slice(0, CHUNK_ROWS + 7))

    def test_no_events(self):
        assert spam.generate(0).num_rows == 0
        assert spam.generate(0).schema == spam.generate(10).schema

    def test_a_written_log_has_the_generated_rows(self, tmp_path):
        files = spam.write_log(tmp_path / "log", SEVERAL_CHUNKS, files=2, row_group=20_000, alpha=1.5)
        read = pa.concat_tables([pq.read_table(path) for path in files])
        assert read.cast(spam.generate(1).schema).equals(spam.generate(SEVERAL_CHUNKS, alpha=1.5))
        assert pa.types.is_dictionary(pq.read_schema(files[0]).field("event").type)

    def test_has_email_is_what_a_scan_finds(self):
        events = spam.generate(20_000)
        messages = events.filter(is_message(events))
        assert spam.has_email(messages["content"].combine_chunks()).equals(messages["has_email"].combine_chunks())

    def test_an_event_has_about_125_bytes(self):
        events = spam.generate(SEVERAL_CHUNKS, users=1_000)  # long past the early friendships
        fields = {"Friendship": 3 * 8, "Message": 4 * 8 + 1}
        counts = {name: pc.sum(pc.equal(events["event"].cast(pa.string()), name)).as_py() for name in fields}
        texts = pc.sum(pc.binary_length(events["content"])).as_py()
        bytes_all = texts + sum(counts[name] * size for name, size in fields.items())
        assert bytes_all / events.num_rows == pytest.approx(125, rel=0.1)

    def test_ordinary_users_write_to_friends_and_spammers_to_anybody(self):
        events = spam.generate(200_000, users=1_000)
        done = run(spam.app_without_scan, events)
        counts = done.state["Sender"]
        by_spammer = counts["key"].to_numpy() >= 990
        friends, others = counts["to_friends"].to_numpy(), counts["to_others"].to_numpy()
        assert friends[~by_spammer].sum() > 2 * others[~by_spammer].sum()
        assert friends[by_spammer].sum() == 0
        verdicts = done.outputs["spam"].filter(is_message(events)).to_numpy(zero_copy_only=False)
        sender = events["sender"].filter(is_message(events)).to_numpy()
        assert verdicts[sender >= 990].mean() > 0.5
        assert verdicts[sender < 990].mean() < 0.05

    def test_friendships_fade(self):
        friendship = ~is_message(spam.generate(SEVERAL_CHUNKS, users=1_000)).to_numpy(zero_copy_only=False)
        assert friendship[:1_000].mean() == pytest.approx(workload.FRIENDSHIPS_FIRST, abs=0.06)
        assert friendship[-20_000:].mean() == pytest.approx(workload.FRIENDSHIPS_LAST, abs=0.02)

    def test_a_smaller_alpha_concentrates_senders(self):
        shares = []
        for alpha in (1.25, 1.5, 2.0, 3.0):
            sender = spam.generate(20_000, alpha=alpha)["sender"].drop_null().to_numpy()
            shares.append(np.bincount(sender).max() / sender.size)
        assert shares == sorted(shares, reverse=True)
        assert shares[0] > 0.5
        assert shares[-1] < 0.02

    @pytest.mark.parametrize(
        ("knobs", "message"),
        [
            ({"alpha": 1.0}, r"alpha=1\.0 is no exponent"),
            ({"spam": 1.5}, r"spam=1\.5 is not a share"),
            ({"spammers": -0.1}, r"spammers=-0\.1 is not a share"),
            ({"users": 2}, r"users=2 with spammers=0\.01 leaves 1 others"),
        ],
    )
    def test_impossible_knobs_are_errors_that_name_them(self, knobs, message):
        with pytest.raises(InputError, match=message):
            spam.generate(10, **knobs)


def test_counts_so_far_counts_per_key():
    key = np.array([5, 3, 5, 5, 3, 9])
    counted = np.array([True, True, False, True, True, False])
    assert workload.counts_so_far(key, counted).tolist() == [1, 1, 1, 2, 2, 0]
    assert workload.counts_so_far(key[:0], counted[:0]).tolist() == []
