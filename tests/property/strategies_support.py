"""What the tests of parallel strategies share: the strategies, the cases that they run on, and what these cover."""

from __future__ import annotations

import contextlib
import functools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from pauses import THREADS, pausing

from mainstem import engine
from mainstem.engine import interpret
from mainstem.engine import options as strategies
from mainstem.engine.auto import AutoExecutor
from mainstem.engine.kernels import load
from mainstem.engine.options import CHOICES, COLD, HOT
from mainstem.engine.strategies import RUNNERS, overlaps
from mainstem.gate import EventBatch, open_events
from mainstem.lang import Program
from mainstem.state import State
from mainstem.testing import Case, Outcome, assert_same, generate_program, load_program, streamed

Options = dict[str, Any]


def _tpg() -> dict[str, Options]:
    """All twelve combinations."""
    return {
        f"tpg {explore} {unit} {abort}": {"engine": "tpg", "explore": explore, "unit": unit, "abort": abort}
        for explore in CHOICES["explore"]
        for unit in CHOICES["unit"]
        for abort in CHOICES["abort"]
    }


WHOLE: dict[str, Options] = {name: {"engine": name} for name in ("inflight", "lock", "pat", "mvlk", "components")}
PARTS: dict[str, Options] = {
    **{f"chains {sharing}": {"engine": "chains", "sharing": sharing} for sharing in CHOICES["sharing"]},
    **_tpg(),
}
SAFE = {**WHOLE, **PARTS}
"""Every strategy that keeps the order, but for those that choose among these."""
CHOOSING = ("nested by functions", "nested by keys", "auto")
EVERY = (*SAFE, *CHOOSING)


def options_of(name: str, program: Program, seed: object) -> Options:
    """How `app.run` is told to use a strategy; nested ones draw what they are made of."""
    if name in SAFE:
        return dict(SAFE[name])
    if name == "auto":
        return {"engine": "auto"}
    draw = random.Random(f"{name} {seed}")
    inner = [{"engine": "serial"}, *SAFE.values()]
    if name == "nested by keys":
        return {"engine": "nested", "groups": {heat: draw.choice(inner) for heat in draw.sample((HOT, COLD), 2)}}
    functions = [f.name for f in program.functions]
    draw.shuffle(functions)
    middle = draw.randint(1, len(functions))
    groups = {names: draw.choice(inner) for names in (tuple(functions[:middle]), tuple(functions[middle:])) if names}
    return {"engine": "nested", "groups": groups}


@contextlib.contextmanager
def auto_by_lot(chosen: Counter[str]) -> Iterator[None]:
    """For each batch a lot decides what `auto` takes, how many events it samples before, and whether it overlaps with
    others; notes what was chosen."""
    lot = random.Random(0)
    overlapping = [strategy for strategy in strategies.SAFE if overlaps(strategy)]

    class ByLot(AutoExecutor):
        def _execute(self, arrays: dict[str, Any], count: int) -> Any:
            events = len(arrays["kind"])
            if count == 0:
                return super()._execute(arrays, count)
            sampled = lot.choice((0, 0, min(1, events - 1), events // 3))
            if sampled:
                self._run_serially(arrays, 0, sampled)
            strategy = lot.choice(strategies.SAFE)
            chosen[strategy.label] += 1
            return self.run_with(strategy, arrays, count, sampled, "by lot")

        def _strategy_ahead(self, count: int) -> tuple[strategies.Strategy, str] | None:
            if lot.random() < 0.4:
                return None
            strategy = lot.choice([strategies.SERIAL, *overlapping])
            if strategy is not strategies.SERIAL:
                chosen[strategy.label] += 1
            return strategy, "by lot"

        def _learn_staged(self, staged: Any, ran: Any, aborts: float) -> None:
            """There is no plan."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "AutoExecutor", ByLot)
        yield


@contextlib.contextmanager
def claims_by_lot() -> Iterator[None]:
    """Short batches get long claims now and then, as long ones do: parts of these run by one call."""
    lot = random.Random(0)
    with pytest.MonkeyPatch.context() as patch:
        for jit in (True, False):
            patch.setattr(load("claims", jit), "choose_claim", lambda *_: lot.choice((1, 4, 8, 32)))
        yield


@contextlib.contextmanager
def interpreted_once() -> Iterator[None]:
    """The oracle takes a function's source apart once, not for every stream."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpret, "interpretable", functools.cache(interpret.interpretable))
        yield


# What differs from case to case: one entry of each, at different rhythms. Refusals come on top of the transactions that
# fail by themselves, in programs of this size between none and all of them.
_REFUSALS = (0.0, 0.3, 0.7, 0.0)
_REFS: tuple[Options, ...] = ({}, *({"refs": (n, n), "all_refs": True} for n in (1, 2, 3, 5, 8, 12, 16)))
EVENTS = (16, 24, 40)
_BATCHES = (1_000, 13, 1_000, 7, 1_000, 30)  # mostly all events at once: more of them meet


def strategy_case(seed: int, **knobs: Any) -> Case:
    """Program number `seed`, with its first stream."""
    return next(strategy_cases(seed, 1, **knobs))


def strategy_cases(seed: int, streams: int, events: Sequence[int] = EVENTS, **knobs: Any) -> Iterator[Case]:
    """Program number `seed`: 1 to 16 refs per function, half of them with loops over keys, one in four with odd values.
    With so many streams."""
    calm = seed % 4 != 3
    shape = {
        "refusals": _REFUSALS[seed % len(_REFUSALS)],
        "key_loops": 0.5 * (seed // 4 % 2),
        **({"extremes": 0.0, "depth": 2} if calm else {}),
        **_REFS[seed // 8 % len(_REFS)],
    }
    name = f"strategies {seed}"
    source = generate_program(name, **{**shape, **knobs})
    values = {"extremes": 0.0, "nulls": 0.0} if calm else {}
    module = load_program(source)
    for stream in range(streams):
        yield streamed(name, stream, source, module, n=events[(seed + stream) % len(events)], **values)


def aborted_share(outcome: Outcome) -> float:
    status = outcome.outputs["status"].cast("string").to_pylist()
    return status.count("aborted") / max(1, len(status))


@dataclass
class Coverage:
    """What a number of cases was made of: a suite that lost half of its variety would still pass."""

    shares: list[float] = field(default_factory=list)  # of aborted transactions, per case
    refs: Counter[int] = field(default_factory=Counter)  # functions by number of refs
    split: int = 0  # functions in parts
    turned: int = 0  # of these, with one vertex per turn of a loop
    tally: Counter[str] = field(default_factory=Counter)  # what happened in graphs of parts
    chosen: Counter[str] = field(default_factory=Counter)  # strategies that `auto` took
    overtaken: int = 0  # pauses in the middle of transactions and kernels in which other threads got on
    interpreted: int = 0  # programs that no strategy takes, about one in ten thousand: a helper may return None

    def note(self, case: Case, expected: Outcome) -> None:
        self.shares.append(aborted_share(expected))
        for function in case.module.app.program.functions:
            self.refs[len(function.sites)] += 1
            self.split += bool(function.parts)
            self.turned += any(part.loop is not None for part in function.parts)

    def assert_wide(self) -> None:
        """For a hundred cases and more."""
        count, functions = len(self.shares), sum(self.refs.values())
        assert self.interpreted <= 0.01 * count, self.interpreted
        assert self.overtaken > 50 * count, self.overtaken
        assert sum(share == 0.0 for share in self.shares) >= 0.01 * count, sorted(self.shares)
        assert sum(share > 0.6 for share in self.shares) >= 0.15 * count, sorted(self.shares)
        assert sum(0.0 < share <= 0.6 for share in self.shares) >= 0.3 * count, sorted(self.shares)
        assert self.refs[1] and sum(self.refs[n] for n in range(12, 17)), self.refs
        assert self.split >= 0.3 * functions and self.turned >= 0.05 * functions, (self.split, self.turned, functions)


@contextlib.contextmanager
def tallied(coverage: Coverage) -> Iterator[None]:
    """Adds up the counts that graphs of parts give: rollbacks, skips, thefts."""
    plain = {name: RUNNERS[name] for name in ("tpg", "chains")}

    def counting(run: Any) -> Any:
        def counted(work: Any, team: Any) -> Any:
            tally = run(work, team)
            coverage.tally.update(tally._asdict())
            return tally

        return counted

    RUNNERS.update({name: counting(run) for name, run in plain.items()})
    try:
        yield
    finally:
        RUNNERS.update(plain)


class Repeated:
    """A case for many strategies. Its events are read once per size of batches: strategies differ in how these run."""

    def __init__(self, case: Case) -> None:
        self.case, self.program = case, case.module.app.program
        self.expected = case.run(engine="oracle")
        self._batches: dict[int, list[EventBatch]] = {}

    def batches(self, size: int) -> list[EventBatch]:
        if size not in self._batches:
            program = self.program
            stream, _ = open_events(
                self.case.stream.tables(), program.events, batch_size=size, derives=program.derives,
                columns=program.used_columns,
            )  # fmt: skip
            self._batches[size] = list(stream)
        return self._batches[size]

    def check(self, *, batch: int, **options: Any) -> None:
        """Runs it as `app.run` does, and compares."""
        with self.case.described({"batch": batch, **options}):
            state = State({table.name: table for table in self.program.tables})
            executor = engine.make_executor(self.program, state, **options)
            outputs = [result.outputs for result in executor.run_all(self.batches(batch))]
            outcome = Outcome(pa.Table.from_batches(outputs, executor.output_schema), state.export())
            assert_same(self.expected, outcome)


def check_uncompiled(
    names: Sequence[str], seeds: Iterable[int], streams: int = 1, events: Sequence[int] = EVENTS
) -> Coverage:
    """Every strategy on every case equals the oracle; threads and batches go round. Gives what it was made of."""
    coverage = Coverage()
    with pausing() as pauses, tallied(coverage), auto_by_lot(coverage.chosen), claims_by_lot(), interpreted_once():
        for seed in seeds:
            for stream, case in enumerate(strategy_cases(seed, streams, events)):
                if case.module.app.program.compiled:
                    _check_case(case, names, seed, stream, coverage)
                else:
                    coverage.interpreted += 1
    coverage.overtaken = pauses.overtaken
    return coverage


def _check_case(case: Case, names: Sequence[str], seed: int, stream: int, coverage: Coverage) -> None:
    repeated = Repeated(case)
    coverage.note(case, repeated.expected)
    for i, name in enumerate(names):
        turn = seed + 3 * stream + 5 * i
        threads = THREADS[turn % len(THREADS)]
        batch = _BATCHES[turn // 4 % len(_BATCHES)] if seed % 50 else 1
        options = options_of(name, repeated.program, seed if stream == 0 else f"{seed} {stream}")
        repeated.check(jit=False, threads=threads, batch=batch, **options)


# Compiling costs about a second for a hundred lines of generated code, so compiled programs are of middle size. Their
# transactions take some microseconds each: time for those of several threads to overlap.
_MIDDLE: Options = {
    "functions": (1, 1), "statements": (1, 3), "tables": (1, 3), "helpers": (0, 1), "nesting": 2, "depth": 2,
    "extremes": 0.0, "work": 400,
}  # fmt: skip
COMPILED_STREAMS = 25
_COMPILED_BATCHES = (1_000, 1_000, 100, 17)


def check_compiled(number: int, refs: int) -> None:
    """Every strategy, compiled, equals the oracle on many streams of program `number`; threads and batches go round."""
    name = f"compiled strategies {number}"
    shape = {"refs": (refs, refs), "all_refs": True, "events": (1, 2) if refs < 8 else (1, 1)}
    source = generate_program(name, **_MIDDLE, **shape, key_loops=0.5, refusals=(0.0, 0.3, 0.6)[number % 3])
    module = load_program(source)
    with auto_by_lot(Counter()), claims_by_lot():
        for stream in range(COMPILED_STREAMS):
            case = streamed(name, stream, source, module, n=(300, 60)[stream % 2], extremes=0.0, nulls=0.1)
            repeated = Repeated(case)
            for i, way in enumerate(EVERY):
                turn = stream + 5 * i
                threads = THREADS[turn % len(THREADS)]
                batch = _COMPILED_BATCHES[turn // 4 % len(_COMPILED_BATCHES)]
                chosen = options_of(way, module.app.program, stream)
                repeated.check(jit=True, threads=threads, batch=batch, **chosen)
