"""Folds of a user's step: compiled or not, they give what Python gives."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mainstem as ms
from mainstem.windows.checked import compiled_step

LARGE: Any = (2**63 - 1, -(2**63), 2**62, -(2**62), 2**53 + 1, 2**32, 3, 2, 1, 0, -1, -2)
BOOLS: Any = (True, False)
FLOATS: Any = (0.0, -0.0, 0.5, -3.75, 1e300, 9.3e18, math.inf, -math.inf, math.nan, float(2**53))


def app_with(step: Callable[[Any, Any], Any], start: Any, kind: type, advance: int = 10) -> tuple[ms.App, Any]:
    app = ms.App("folds")
    tick = app.event(type("Tick", (), {"__annotations__": {"value": kind}, "__module__": __name__}))
    app.window(tick, size=10, advance=advance, name="w", f=ms.fold(step, start, "value"))
    return app, tick


def folded(step: Callable[[Any, Any], Any], start: Any, values: list[Any], engine: str, advance: int = 10) -> Any:
    """The fold of a window with these values, or the error that it ended with."""
    app, tick = app_with(step, start, type(values[0]), advance)
    events = [tick(ts=0, value=value) for value in values]
    try:
        return repr(app.run(events, engine=engine, progress=None).outputs.column("f").to_pylist())
    except ms.MainstemError as error:
        return f"{type(error).__name__}: {error}"


def polynomial(so_far: int, value: int) -> int:
    return so_far * 31 + value


def polynomial_rest(so_far: int, value: int) -> int:
    """Leaves 64 bits halfway, and comes back."""
    return (so_far * 2**40 + value * 2**40) % 1_000_003


@pytest.mark.parametrize("advance", [10, 5])
@pytest.mark.parametrize(("step", "values"), [(polynomial, [10**12] * 12), (polynomial_rest, [2**40] * 12)])
def test_integers_never_wrap(step: Callable[[int, int], int], values: list[int], advance: int) -> None:
    right = folded(step, 7, values, "oracle", advance)
    assert ("gave 29583456006212525767, but its start is 7" in right) == (step is polynomial)
    assert folded(step, 7, values, "serial", advance) == right


def plus(so_far: float, value: int) -> float:
    return so_far + value


def first_of(so_far: float, value: str) -> float:
    return so_far


def test_equal_starts_of_other_types_are_other_folds() -> None:
    values = [2**53, 1]
    assert folded(plus, 0.0, values, "serial") == repr([2.0**53])
    assert folded(plus, 0, values, "serial") == repr([2**53 + 1])
    assert "gave 9007199254740992, but its start is False" in folded(plus, False, values, "serial")
    for start in (0.0, -0.0):
        assert folded(first_of, start, ["x", "y"], "serial", 5) == repr([start, start])


def arithmetic(a: Any, b: Any) -> Any:
    return -a * b - b + (a // b if b != 0 else 3) - (a % b if b != 0 else 1)


def compared(a: Any, b: Any) -> Any:
    return (a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a > b) + 16 * (a >= b) + 32 * (a != b)


def smallest(a: Any, b: Any) -> Any:
    return min(a, b) if not a > 0 else max(b, a)


def divided(a: Any, b: Any) -> Any:
    return a / b


def truncated(a: Any, b: Any) -> Any:
    return int(b) + int(a)


def absolute(a: Any, b: Any) -> Any:
    total = abs(a)
    for more in range(3):
        total += b * more
    return total


def bits(a: Any, b: Any) -> Any:
    return (a & b) ^ (a | b)


STEPS = (arithmetic, compared, smallest, divided, truncated, absolute, bits)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_compiled_steps_give_what_python_gives_or_raise(step: Callable[[Any, Any], Any]) -> None:
    draw, same = random.Random(1), 0
    for first, second in ((LARGE, LARGE), (FLOATS, FLOATS), (LARGE, FLOATS), (BOOLS, LARGE)):
        found = compiled_step(step, first[-1], second[-1])
        for a, b in [(draw.choice(first), draw.choice(second)) for _ in range(300)]:
            try:
                value = found[0](a, b) if found else step(a, b)
            except (ArithmeticError, ValueError, TypeError):
                continue
            assert repr(value) == repr(step(a, b)), (a, b)
            same += found is not None
    assert same > 100


def test_steps_that_can_differ_are_not_compiled() -> None:
    def either(a: Any, v: Any) -> Any:
        found = a if v > 0 else 0.5
        return found * 2

    def guarded(a: Any, v: Any) -> Any:
        try:
            return a * v
        except OverflowError:
            return 0

    assert compiled_step(lambda a, v: a + math.exp(v), 0.0, 0.0) is None
    assert compiled_step(lambda a, v: a**v, 0, 0) is None
    assert compiled_step(lambda a, v: a << v, 0, 0) is None
    assert compiled_step(lambda a, v: a + 2**63, 0, 0) is None
    assert compiled_step(either, 0, 0) is None
    assert compiled_step(guarded, 0, 0) is None


def test_open_windows_of_another_fold_are_not_gone_on_with(tmp_path: Path) -> None:
    def scaled(factor: int) -> Callable[[int, int], int]:
        return lambda a, v: a + v * factor

    def run(step: Callable[[Any, Any], Any], start: Any, ts: int, kind: Any = int) -> None:
        app, tick = app_with(step, start, kind)
        app.run([tick(ts=ts, value=kind(1))], state=tmp_path / "s", complete=False, progress=None, jit=False)

    run(scaled(2), 0, 1)
    run(scaled(2), 0, 2)
    for step, start, kind in ((scaled(3), 0, int), (polynomial, 0, int), (scaled(2), 1, int), (scaled(2), 0, bool)):
        with pytest.raises(ms.StoreError, match="kept for another window w"):
            run(step, start, 3, kind)
