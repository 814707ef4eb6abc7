"""Small histories of T-Gate, all of them: each must be explained by its operations one after the other."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import pytest
from live_steps import Event, Operation, Run, Steps, all_histories, run_alone, stepping_kernels

Spec = tuple[tuple[tuple[int, ...], ...], tuple[int, ...], int]
"""Sequential meaning: times per input, closed inputs, how many events were taken."""


@cache
def module(without_input: bool = False) -> ModuleType:
    def by_ts_alone(text: str) -> str:
        changed = text.replace("ts < other_ts or (ts == other_ts and tie < other_tie)", "ts < other_ts")
        assert changed != text
        return changed

    return stepping_kernels("tgate", by_ts_alone if without_input else lambda text: text)


def fresh(kernels: ModuleType, before: list[Operation]) -> Any:
    shared = run_alone(kernels.create(2, 8))
    for operation in before:
        run_alone(call(kernels, shared, operation))
    return shared


def call(kernels: ModuleType, shared: Any, operation: Operation) -> Steps:
    what, arguments = operation
    if what == "insert":
        number, ts = arguments
        return kernels.insert(shared, number, ts, 1)
    return kernels.close(shared, *arguments) if what == "close" else kernels.pop(shared, 0)


def apply(spec: Spec, operation: Operation) -> tuple[Spec, Any]:
    times, closed, taken = spec
    what, arguments = operation
    if what == "insert":
        number, ts = arguments
        return (tuple((*t, ts) if n == number else t for n, t in enumerate(times)), closed, taken), True
    if what == "close":
        return (times, (*closed, arguments[0]), taken), None
    rows = sorted((ts, number) for number, of_input in enumerate(times) for ts in of_input)
    limits = [(t[-1], n) if t else (-(2**63), -1) for n, t in enumerate(times) if n not in closed]
    if taken == len(rows) or (limits and rows[taken] > min(limits)):
        return spec, (-1, 0, 0)
    ts, number = rows[taken]
    return (times, closed, taken + 1), (number, ts, 1)


def explained(history: list[Event], plan: list[list[Operation]], start: Spec) -> bool:
    """Whether some order of the operations that respects which ended before which began gives these results."""
    begins = {(t, n): at for at, (what, t, n, _) in enumerate(history) if what == "call"}
    ends = {(t, n): at for at, (what, t, n, _) in enumerate(history) if what == "end"}
    results = {(t, n): result for what, t, n, result in history if what == "end"}

    def search(spec: Spec, left: frozenset[tuple[int, int]]) -> bool:
        first_end = min((ends[one] for one in left), default=0)
        for one in left:
            if begins[one] > first_end:
                continue
            after, result = apply(spec, plan[one[0]][one[1]])
            if result == results[one] and search(after, left - {one}):
                return True
        return not left

    return search(start, frozenset(begins))


INSERT, POP = "insert", ("pop", ())
PLANS: dict[str, tuple[list[Operation], list[list[Operation]]]] = {
    "two inserters, ties": ([], [[(INSERT, (0, 5)), (INSERT, (0, 6))], [(INSERT, (1, 5)), (INSERT, (1, 5))]]),
    "inserter and reader": ([(INSERT, (0, 1)), (INSERT, (1, 3))], [[(INSERT, (0, 2)), (INSERT, (0, 4))], [POP] * 3]),
    "all three": ([], [[(INSERT, (0, 5))], [(INSERT, (1, 5))], [POP, POP]]),
    "insert, close, read": ([(INSERT, (0, 1))], [[(INSERT, (0, 2)), ("close", (0,))], [("close", (1,))], [POP, POP]]),
    "reused nodes": (
        [op for ts in range(6) for op in ((INSERT, (0, ts)), (INSERT, (1, ts)), POP, POP)],
        [[(INSERT, (0, 7)), (INSERT, (0, 8)), (INSERT, (0, 8))], [POP, POP]],
    ),
}


LONG = "all three"


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long) if n == LONG else n for n in PLANS])
def test_every_history_is_linearizable(name: str) -> None:
    before, plan = PLANS[name]

    kernels = module()
    start: Spec = (((), ()), (), 0)
    for operation in before:
        start, _ = apply(start, operation)
    histories = 0
    for history, _ in all_histories(
        lambda: Run(lambda: fresh(kernels, before), lambda s, o: call(kernels, s, o), plan)
    ):
        assert explained(history, plan, start), history
        histories += 1
    assert histories > 10


def orders_of_ties(kernels: ModuleType) -> set[tuple[int, ...]]:
    """The orders in which two inputs' events of one ts can come out, over all ways of taking turns."""
    plan: list[list[Operation]] = [[(INSERT, (0, 5)), (INSERT, (0, 9))], [(INSERT, (1, 5)), (INSERT, (1, 9))]]
    found = set()
    for _, shared in all_histories(lambda: Run(lambda: fresh(kernels, []), lambda s, o: call(kernels, s, o), plan)):
        found.add(tuple(run_alone(kernels.pop(shared, 0))[0] for _ in range(2)))
        if len(found) > 1:
            break
    return found


def test_ties_have_one_order() -> None:
    assert orders_of_ties(module()) == {(0, 1)}


def test_by_ts_alone_ties_depend_on_timing() -> None:
    assert {(0, 1), (1, 0)} <= orders_of_ties(module(without_input=True))
