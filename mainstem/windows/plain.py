"""What windows mean, in plain Python: every operator gives these results, to the bit.

Events are given in total order, each with its place in the stream. The only thing that is not obvious is a sum of
floats, which depends on the order of additions:

1. The values of a pane (`Window.pane`) are added in order, beginning with 0.0.
2. The first multiple of `size` in the window cuts it. Panes before the cut are added from the cut backwards, the panes
   after it forwards, and the left sum is added to the right one.

So the sums on both sides of a cut serve all windows across it, and a window costs the same whatever size / advance is.
Windows that don't overlap have one pane: their values are added in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mainstem.schema import INT64_MAX, INT64_MIN
from mainstem.windows.aggregates import Aggregate, stepped
from mainstem.windows.window import Window


@dataclass(frozen=True)
class PlainEvent:
    """An event of the window's type; `at` is its place among all events of the stream."""

    at: int
    ts: int
    values: dict[str, Any]


@dataclass(frozen=True)
class Result:
    """A closed window. `after` is the place of its last event; a window of time closes by `ts`, when it has passed."""

    start: int
    end: int
    key: tuple[Any, ...]
    values: dict[str, Any]
    after: int


Numbered = tuple[int, PlainEvent]
"""An event with its place on the axis that windows are cut from: its ts, or its number among the events of its key."""


def closed_windows(window: Window, events: Sequence[PlainEvent]) -> list[Result]:
    """All windows of these events, in the order in which they close; windows of events only when they are full."""
    by_key: dict[tuple[Any, ...], list[PlainEvent]] = {}
    for event in events:
        window.check_ts(event.ts, event.ts)
        if window.where is None or event.values[window.where]:
            by_key.setdefault(tuple(event.values[f.name] for f in window.by), []).append(event)
    found = [r for key, own in by_key.items() for r in _of_key(window, key, own)]
    if window.unit == "events":
        return sorted(found, key=lambda r: r.after)
    return sorted(found, key=lambda r: (r.end, _order(r.key)))


def _of_key(window: Window, key: tuple[Any, ...], own: list[PlainEvent]) -> list[Result]:
    timed = window.unit == "time"
    numbered = [(event.ts if timed else number, event) for number, event in enumerate(own)]
    by_start: dict[int, list[Numbered]] = {}
    for place, event in numbered:
        newest = place // window.advance * window.advance
        for start in range(newest, place - window.size, -window.advance):
            if timed or start >= 0:
                by_start.setdefault(start, []).append((place, event))
    return [
        _result(window, key, start, inside)
        for start, inside in sorted(by_start.items())
        if timed or len(inside) == window.size
    ]


def _result(window: Window, key: tuple[Any, ...], start: int, inside: list[Numbered]) -> Result:
    values = {name: _value(window, aggregate, start, inside) for name, aggregate in window.aggregates}
    last = inside[-1][1]
    if window.unit == "time":
        return Result(start, start + window.size, key, values, last.at)
    return Result(inside[0][1].ts, last.ts, key, values, last.at)


def _order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Text is ordered by its UTF-8 bytes, as in Arrow."""
    return tuple(part.encode() if isinstance(part, str) else part for part in key)


def _value(window: Window, aggregate: Aggregate, start: int, inside: list[Numbered]) -> Any:
    if aggregate.column is None:
        return len(inside)
    values = [event.values[aggregate.column] for _, event in inside]
    if aggregate.op in ("sum", "avg"):
        total = _sum(window, aggregate, start, inside)
        return total if aggregate.op == "sum" else float(total) / float(len(values))
    if aggregate.op == "fold":
        return _folded(aggregate, values)
    return _SIMPLE[aggregate.op](values)


def _sum(window: Window, aggregate: Aggregate, start: int, inside: list[Numbered]) -> Any:
    assert aggregate.column is not None
    if not isinstance(inside[0][1].values[aggregate.column], float):
        total = sum(event.values[aggregate.column] for _, event in inside)
        if not INT64_MIN <= total <= INT64_MAX:
            raise window.too_large(aggregate, start, total)
        return total
    panes: dict[int, float] = {}
    for place, event in inside:
        number = place // window.pane
        panes[number] = panes.get(number, 0.0) + event.values[aggregate.column]
    if len(panes) == 1:
        return next(iter(panes.values()))
    cut = -(-start // window.size) * window.size // window.pane
    left = [total for number, total in panes.items() if number < cut]
    right = [total for number, total in panes.items() if number >= cut]
    return _added([part for part in (_added(left[::-1]), _added(right)) if part is not None])


def _added(parts: list[float]) -> float | None:
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def _folded(aggregate: Aggregate, values: list[Any]) -> Any:
    result = aggregate.start
    for value in values:
        result = stepped(aggregate, result, value)
    return result


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _least(values: list[Any]) -> Any:
    return next((v for v in values if _is_nan(v)), min(values))


def _greatest(values: list[Any]) -> Any:
    return next((v for v in values if _is_nan(v)), max(values))


def _different(values: list[Any]) -> int:
    return len({None if _is_nan(v) else v for v in values})


_SIMPLE: dict[str, Callable[[list[Any]], Any]] = {
    "min": _least,
    "max": _greatest,
    "distinct": _different,
    "any": any,
    "all": all,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}
