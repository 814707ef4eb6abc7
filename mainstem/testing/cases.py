"""Cases: a random program with a random stream, run by any engine and compared with the oracle."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from mainstem.testing.compare import Outcome, assert_same
from mainstem.testing.programs import generate_program, load_program
from mainstem.testing.streams import Stream, generate_events


@dataclass(frozen=True)
class Case:
    """One program and one stream; both follow from the seeds."""

    seed: object
    stream_seed: object
    source: str
    module: ModuleType
    stream: Stream

    def run(self, *, objects: bool = False, chunks: int = 1, **options: Any) -> Outcome:
        """`app.run` from an empty state, on event objects or on Arrow tables of so many chunks."""
        events: Any = self.stream.objects(self.module) if objects else self.stream.tables(chunks)
        with self.described(options):
            result = self.module.app.run(events, **options)
        return Outcome(result.outputs, dict(self.module.app.state))

    def check(self, expected: Outcome, **options: Any) -> None:
        """Run once more and compare with what was expected (the oracle's outcome)."""
        actual = self.run(**options)
        with self.described(options):
            assert_same(expected, actual)

    @contextmanager
    def described(self, options: dict[str, Any]) -> Iterator[None]:
        """Adds the case to whatever goes wrong."""
        try:
            yield
        except Exception as error:
            error.add_note(self.describe(f"with {options}"))
            raise

    def describe(self, how: str = "") -> str:
        """What a failure message says: enough to repeat it."""
        seeds = f"program seed {self.seed!r}, stream seed {self.stream_seed!r} {how}"
        events = "\n".join(f"#   {i}: {e.kind} {e.values}" for i, e in enumerate(self.stream.ordered()))
        return f"{seeds}\n{self.source}\n# events in order:\n{events}"


def generate_case(seed: object, stream_seed: object = 0, *, n: int = 24, **knobs: Any) -> Case:
    """The program of `seed` with the stream of `stream_seed`; `n` events. `knobs` shape the program."""
    source = generate_program(seed, **knobs)
    return streamed(seed, stream_seed, source, load_program(source), n=n)


def streamed(seed: object, stream_seed: object, source: str, module: ModuleType, *, n: int = 24, **shape: Any) -> Case:
    """A loaded program with another stream. What `shape` (arguments of `generate_events`) leaves open is drawn."""
    draw = random.Random(f"case {seed} {stream_seed}")
    drawn: dict[str, Any] = {
        "skew": draw.choice((0.0, 0.6, 1.0, 1.5)),
        "inputs": draw.randint(1, 3),
        "ties": draw.choice((0.0, 0.4, 0.9)),
        "keys": draw.choice((2, 6, 20)),
        "extremes": draw.choice((0.0, 0.02, 0.1)),
    }
    stream = generate_events(module.app, f"{seed} {stream_seed}", n, **{**drawn, **shape})
    return Case(seed, stream_seed, source, module, stream)
