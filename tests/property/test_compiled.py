"""Deep: fewer generated programs, compiled, each on many streams, against the oracle on outputs and state."""

from __future__ import annotations

import pytest

from mainstem.testing import generate_program, load_program, streamed

PROGRAMS_DEFAULT, PROGRAMS_LONG, STREAMS = 40, 2_000, 25
BATCHES = (1, 4, 17, 1_000)
# Compiling costs about a second for a hundred lines, so these programs are of middle size.
KNOBS = {
    "events": (1, 2),
    "functions": (1, 1),
    "statements": (2, 4),
    "tables": (1, 3),
    "helpers": (0, 1),
    "nesting": 2,
    "depth": 2,
}


def check(seed: int) -> None:
    source = generate_program(f"compiled {seed}", **KNOBS)
    module = load_program(source)
    for stream in range(STREAMS):
        case = streamed(f"compiled {seed}", stream, source, module, n=40)
        expected = case.run(engine="oracle")
        case.check(expected, engine="auto", jit=True, batch=BATCHES[stream % len(BATCHES)])


@pytest.mark.parametrize("seed", range(PROGRAMS_DEFAULT))
def test_compiled_kernels_agree_with_the_oracle(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(PROGRAMS_DEFAULT, PROGRAMS_DEFAULT + PROGRAMS_LONG))
def test_compiled_kernels_agree_with_the_oracle_long(seed: int) -> None:
    check(seed)
