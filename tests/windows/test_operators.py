"""The operators of the literature: whatever the timing, they give the windows of the definition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from operators_support import EVENT, defined, inputs_of, stalls, window

import mainstem as ms
from mainstem.engine.kernels.control import LINE, STOP
from mainstem.errors import InputError, ProgramError
from mainstem.team import STOP_WORD
from mainstem.windows import timed
from mainstem.windows.choice import WHOLE_INPUTS
from mainstem.windows.operators import OPERATORS, Timing, aggregate, choice, prepare, run, running
from mainstem.windows.operators.sliced import aggregate_slices
from mainstem.windows.values import lent
from mainstem.windows.window import window_of


@pytest.mark.parametrize("operator", OPERATORS)
class TestLikeTheDefinition:
    def test_threads_that_race_for_the_same_windows(self, operator: str):
        """Few keys, long windows, results beyond one buffer, and pools that run dry."""
        random = np.random.default_rng(5)
        tables = []
        for _ in range(6):
            ts = np.cumsum(random.integers(0, 2, 20_000))
            values = {"meter": random.integers(0, 3, 20_000), "wh": random.integers(-9, 9, 20_000)}
            tables.append(pa.table({"ts": ts} | values))
        shape = window(40, 1, n=ms.count(), total=ms.sum("wh"), high=ms.max("wh"))
        found = aggregate(shape, tables, operator)
        assert found.equals(aggregate(shape, tables, "mq"))
        joined = pa.concat_tables(tables)
        # Every event is in `size / advance` windows, and nothing is in one twice.
        assert found["n"].to_numpy().sum() == 40 * joined.num_rows
        assert found["total"].to_numpy().sum() == 40 * joined["wh"].to_numpy().sum()

    def test_no_events(self, operator: str):
        nothing = inputs_of(np.random.default_rng(0), 1, 0, 1)
        assert aggregate(window(), nothing * 3, operator).num_rows == 0

    def test_far_apart_and_far_out(self, operator: str):
        table = pa.table({"ts": [-(2**62), 0, 2**62], "meter": [1, 1, 1]})
        found = aggregate(window(10, 5, n=ms.count()), [table, table.slice(1, 1)], operator).to_pylist()
        assert [(row["start"] + 10 * (row["start"] < 0), row["n"]) for row in found if -20 < row["start"] < 20] == [
            (5, 2), (0, 2)
        ]  # fmt: skip
        assert len(found) == 6

    def test_windows_with_gaps(self, operator: str):
        table = pa.table({"ts": list(range(20)), "meter": [0] * 20})
        found = aggregate(window(2, 7, n=ms.count()), [table], operator)
        assert found.select(["start", "n"]).to_pylist() == [{"start": s, "n": 2} for s in (0, 7, 14)]

    def test_other_events_only_let_time_pass(self, operator: str):
        table = pa.table({"ts": [1, 2, 3], "event": ["Reading", "Outage", "Reading"], "meter": [7, None, 8]})
        found = aggregate(window(10, 10, n=ms.count()), [table], operator)
        assert found.select(["meter", "n"]).to_pylist() == [{"meter": 7, "n": 1}, {"meter": 8, "n": 1}]

    def test_a_thread_that_fails_ends_the_run(self, operator: str, monkeypatch: pytest.MonkeyPatch):
        start = OPERATORS[operator].start

        def failing(*given):
            closing, (_, *others) = start(*given)
            return closing, [lambda: 1 / 0, *others]

        monkeypatch.setitem(running.OPERATORS, operator, running.Operator(failing, True))
        with pytest.raises(ZeroDivisionError):
            aggregate(window(n=ms.count()), inputs_of(np.random.default_rng(1), 4, 90, 3), operator)


class TestPanesOverTables:
    def test_rows_are_chosen_bit_by_bit(self):
        """Conditions that begin within a byte, in several chunks, with nulls; inputs of more than one piece."""
        random = np.random.default_rng(9)
        for rows, offset in ((1, 0), (31, 3), (33, 7), (64, 0), (70_000, 5), (140_001, 33)):
            ts, ok = np.cumsum(random.integers(0, 2, rows + offset)), random.random(rows + offset) < 0.1
            given = pa.table({"ts": ts, "meter": ts % 7, "ok": pa.array(ok, mask=random.random(rows + offset) < 0.1)})
            cut = given.slice(offset)
            wanted = cut.filter(pc.fill_null(cut["ok"], False))
            for table in (cut, pa.concat_tables([cut.slice(0, rows // 3), cut.slice(rows // 3)])):
                found = aggregate(window(5, 5, where="ok", n=ms.count()), [table], threads=2)
                assert found.equals(aggregate(window(5, 5, n=ms.count()), [wanted], "mq")), (rows, offset)

    @pytest.mark.parametrize("keys", [range(4_500), range(0, 4_500, 7), range(0, 4_500, 190), [5, 4_499]])
    def test_keys_that_stand_close_and_far_apart(self, keys: Sequence[int]):
        """All keys of a range first, then fewer and fewer: full words, crowded groups of words, few words."""
        random = np.random.default_rng(len(keys))
        several = [random.choice(keys, max(1, len(keys) // shrunk)) for shrunk in (1, 2, 10, 100, 1_000)]
        meter = np.concatenate([keys, *several, [0, 4_500]])
        table = pa.table({"ts": np.arange(len(meter)) * 60 // len(meter), "meter": meter, "wh": meter % 11})
        for aggregates in ({"n": ms.count()}, {"n": ms.count(), "wh": ms.first("wh")}):
            found = aggregate(window(12, 2, **aggregates), [table])
            assert found.equals(aggregate(window(12, 2, **aggregates), [table], "mq"))

    def test_rows_in_portions_of_any_size(self, monkeypatch: pytest.MonkeyPatch):
        shapes = [window(20, 2, n=ms.count()), window(20, 2, ("zone",), place=ms.first("zone"), low=ms.min("wh"))]
        inputs = inputs_of(np.random.default_rng(4), 5, 90, 40)
        wanted = [defined(shape, inputs) for shape in shapes]
        assert min(map(len, wanted)) > 90
        for rows in (*range(1, 30), *range(30, 900, 29)):
            monkeypatch.setattr(timed, "ROWS_ROOM", rows)
            for shape, windows in zip(shapes, wanted, strict=True):
                assert aggregate_slices(shape, inputs, 1, 1).to_pylist() == windows, rows

    def test_memory_of_results_is_used_again_when_they_are_gone(self):
        block = lent(2, 1_000)
        block[:], address, shown = 7, block.ctypes.data, pa.array(block[1])
        del block
        others = [lent(2, 1_000) for _ in range(20)]
        assert all(other.ctypes.data != address for other in others)
        for other in others:
            other[:] = 8
        assert shown.to_numpy().tolist() == [7] * 1_000
        del shown
        assert lent(2, 900).ctypes.data == address
        assert lent(2, 499).ctypes.data != address  # much less than there is

    @pytest.mark.parametrize("operator", ["panes", "auto"])
    def test_what_needs_the_order_is_merged(self, operator: str):
        aggregates = {
            "total": ms.sum("price"), "low": ms.min("price"), "kinds": ms.distinct("zone"),
            "folded": ms.fold(lambda so_far, wh: so_far * 31 + wh, 7, "wh"),
        }  # fmt: skip
        for seed in range(8):
            inputs = inputs_of(np.random.default_rng(seed), 1 + seed, 60, 5)
            shape = window(20, 6, ("zone",) if seed % 2 else ("meter",), "ok" if seed % 3 == 0 else None, **aggregates)
            assert aggregate(shape, inputs, operator).to_pylist() == defined(shape, inputs)

    def test_windows_of_events_are_merged(self):
        table = pa.table({"ts": [1, 2, 3, 4], "meter": [7, 7, 8, 7]})
        shape = window_of(EVENT, 0, "usage", 2, 1, ("meter",), "events", None, {"n": ms.count()})
        found = aggregate(shape, [table, table.slice(3)]).to_pylist()
        assert [(row["meter"], row["start"], row["end"]) for row in found] == [(7, 1, 2), (7, 2, 4), (7, 4, 4)]

    def test_sums_are_checked_window_by_window(self):
        table = pa.table({"ts": [1, 2, 3], "meter": [0, 0, 0], "wh": [2**62, -(2**62), 2**62]})
        shape = window(3, 3, total=ms.sum("wh"))
        assert aggregate(shape, [table])["total"].to_pylist() == [0, 2**62]
        with pytest.raises(InputError, match=r"sum\('wh'\) of window usage that starts at 0 is 9223372036854775808"):
            aggregate(shape, [table, table.slice(0, 1), table.slice(0, 1)])

    def test_other_events_and_missing_values(self):
        table = pa.table({"ts": [1, 2, 3], "event": ["Reading", "Outage", "Reading"], "meter": [7, None, 8]})
        found = aggregate(window(10, 10, n=ms.count()), [table])
        assert found.select(["meter", "n"]).to_pylist() == [{"meter": 7, "n": 1}, {"meter": 8, "n": 1}]
        with pytest.raises(InputError, match="row 1 of input 0 has no 'meter'"):
            aggregate(window(10, 10, n=ms.count()), [table.drop_columns("event")])

    def test_inputs_are_checked(self):
        good, bad = pa.table({"ts": [1], "meter": [0]}), pa.table({"ts": [2, 9, 4], "meter": [0, 0, 0]})
        with pytest.raises(InputError, match="row 2 of input 1 has ts 4, after one with ts 9"):
            aggregate(window(n=ms.count()), [good, bad])
        with pytest.raises(InputError, match=r"has ts 4611686018427387905, and window usage takes ts from"):
            aggregate(window(n=ms.count()), [pa.table({"ts": [2**62 + 1], "meter": [0]})])
        with pytest.raises(InputError, match="window usage has no input"):
            aggregate(window(), [])

    def test_no_events_and_far_out(self):
        nothing = inputs_of(np.random.default_rng(0), 1, 0, 1)
        assert aggregate(window(), nothing * 3).num_rows == 0
        table = pa.table({"ts": [-(2**62), 0, 2**62], "meter": [-(2**63), 1, 2**63 - 1]})
        assert aggregate(window(10, 5, n=ms.count()), [table]).equals(
            aggregate(window(10, 5, n=ms.count()), [table], "mq")
        )

    def test_the_choice_says_why(self):
        assert choice(window()) == choice(window(), "panes")
        assert choice(window())[0] == "panes" and "no merge" in choice(window())[1]
        assert "x=sum('price') of window usage is of floats" in choice(window(x=ms.sum("price")))[1]
        assert choice(window(), "wiml") == ("wiml", "it was asked for")


class TestRefusals:
    @pytest.mark.parametrize("aggregates", [{"first": ms.first("wh")}, {"last": ms.last("ok")}])
    def test_order_needs_order(self, aggregates):
        with pytest.raises(ProgramError, match=r"'wiml' can't be used: .*depends on the order of events"):
            aggregate(window(**aggregates), [], "wiml")

    @pytest.mark.parametrize("operator", OPERATORS)
    @pytest.mark.parametrize("given", [ms.sum("price"), ms.distinct("wh"), ms.fold(lambda a, b: a + b, 0, "wh")])
    def test_what_does_not_fit_into_one_number(self, operator: str, given):
        with pytest.raises(ProgramError, match=rf"'{operator}' can't be used: x=.*\n.*operator=\"panes\""):
            aggregate(window(x=given), [], operator)

    def test_an_unknown_operator(self):
        with pytest.raises(ProgramError, match=r"no operator 'tea'\n.*mq, mq_lf, tuml_sc, tuml_mc, wiml, panes, auto"):
            aggregate(window(), [], "tea")

    def test_an_unsorted_input_is_named(self):
        good = pa.table({"ts": [1, 5], "meter": [0, 0]})
        bad = pa.table({"ts": [2, 9, 4], "meter": [0, 0, 0]})
        with pytest.raises(InputError, match="row 2 of input 1 has ts 4, after one with ts 9"):
            aggregate(window(n=ms.count()), [good, bad], "mq")

    def test_a_missing_column_is_named(self):
        with pytest.raises(InputError, match="input 0 of window usage has no column 'meter'"):
            aggregate(window(n=ms.count()), [pa.table({"ts": [1]})], "wiml")

    def test_sums_beyond_64_bits(self):
        table = pa.table({"ts": [1, 2], "meter": [0, 0], "wh": [2**62, 2**62]})
        with pytest.raises(InputError, match="sums of 'wh' in window usage may need more than 64 bits"):
            aggregate(window(total=ms.sum("wh")), [table], "wiml")


def test_winsets_close_after_their_events_have_come():
    random = np.random.default_rng(3)
    inputs = [table for table in inputs_of(random, 8, 100, 4) if table.num_rows]
    timing = Timing(stalls(random, inputs))
    prepared = prepare(window(20, 5), inputs)
    run(prepared, "wiml", timing=timing)
    ts = prepared.events.ts
    for number, closed in zip(timing.number, timing.closed, strict=True):
        inside = (ts >= number * 5) & (ts < number * 5 + 20)
        assert closed >= timing.due[inside].max()


def test_teams_and_strategies_stop_by_the_same_word():
    assert STOP_WORD == STOP * LINE


def test_names_of_operators_are_known_without_their_code():
    assert tuple(OPERATORS) == WHOLE_INPUTS
