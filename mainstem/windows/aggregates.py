"""What a window can say about its events: `ms.count()`, `ms.sum("kwh")` … and the types that they take and give."""

from __future__ import annotations

import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from mainstem.errors import ProgramError, UserCodeError
from mainstem.schema import INT64_MAX, INT64_MIN, Type

Op = Literal["count", "sum", "avg", "min", "max", "distinct", "any", "all", "first", "last", "fold"]

_NUMBERS = ("int", "float")
_BASES: dict[str, tuple[str, ...]] = {
    "sum": _NUMBERS,
    "avg": _NUMBERS,
    "min": (*_NUMBERS, "datetime"),
    "max": (*_NUMBERS, "datetime"),
    "any": ("bool",),
    "all": ("bool",),
}
_EVERY_BASE = ("int", "float", "bool", "str", "bytes", "datetime")
_GIVES = {"count": "int", "avg": "float", "distinct": "int", "any": "bool", "all": "bool"}
_BASE_OF = {int: "int", float: "float", bool: "bool"}
_IN_ORDER = ("first", "last", "fold")  # what the order of events decides, whatever the column


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a window; `column` is None for `count`. `step` and `start` are those of a fold."""

    op: Op
    column: str | None = None
    step: Callable[[Any, Any], Any] | None = None
    start: Any = None

    def type(self, column: Type | None) -> Type:
        """The type of the result for a column of this type."""
        if self.op == "fold":
            return Type(_BASE_OF[type(self.start)])
        if self.op in _GIVES or column is None:
            return Type(_GIVES[self.op])
        return Type(column.base)

    def refusal(self, column: Type) -> str:
        """Why it can't take a column of this type; empty when it can."""
        takes = _BASES.get(self.op, _EVERY_BASE)
        if column.base in takes and not column.nullable and not column.is_list:
            return ""
        return f"{self} takes a column of {', '.join(takes)} without null, and this one is {column}"

    def sensitive(self, column: Type | None) -> bool:
        """Whether the order of events matters: sums of floats are rounded at every step."""
        if self.op in ("sum", "avg"):
            return column is not None and column.base == "float"
        return self.op in _IN_ORDER

    def declared(self, column: Type | None) -> str:
        """All that its results depend on."""
        text = f"{self}" if column is None else f"{self}: {column}"
        if self.step is None:
            return text
        return f"{text} from {self.start!r} by {getattr(self.step, '__name__', 'step')} {_digest_of(self.step)}"

    def __str__(self) -> str:
        return f"{self.op}({'' if self.column is None else repr(self.column)})"


def count() -> Aggregate:
    """How many events the window has."""
    return Aggregate("count")


def sum_(column: str) -> Aggregate:
    """The sum of a column of numbers."""
    return _of("sum", column)


def avg(column: str) -> Aggregate:
    """The mean of a column of numbers, a float."""
    return _of("avg", column)


def min_(column: str) -> Aggregate:
    """The smallest value; nan when one of them is nan."""
    return _of("min", column)


def max_(column: str) -> Aggregate:
    """The largest value; nan when one of them is nan."""
    return _of("max", column)


def distinct(column: str) -> Aggregate:
    """How many different values there are, exactly."""
    return _of("distinct", column)


def any_(column: str) -> Aggregate:
    """Whether a bool column is true in one of the events."""
    return _of("any", column)


def all_(column: str) -> Aggregate:
    """Whether a bool column is true in all events."""
    return _of("all", column)


def first(column: str) -> Aggregate:
    """The value of the first event, in the total order."""
    return _of("first", column)


def last(column: str) -> Aggregate:
    """The value of the last event, in the total order."""
    return _of("last", column)


def fold(step: Callable[[Any, Any], Any], start: int | float | bool, column: str) -> Aggregate:
    """`acc = step(acc, value)` over the events in order, beginning with `start`; the result has the type of `start`."""
    name = getattr(step, "__name__", repr(step))
    if not callable(step):
        raise ProgramError(f"fold({step!r}) is no function", remedy="pass a function of the result so far and a value")
    if type(start) not in _BASE_OF:
        raise ProgramError(
            f"fold({name}) starts with {start!r}, a {type(start).__name__}", remedy="start with an int, float or bool"
        )
    if type(start) is int and not INT64_MIN <= start <= INT64_MAX:
        raise ProgramError(f"fold({name}) starts with {start}", remedy="start with an int of 64 bits")
    return _of("fold", column, step=step, start=start)


def _of(op: Op, column: Any, **more: Any) -> Aggregate:
    if not isinstance(column, str):
        raise ProgramError(f"ms.{op} of {column!r}", remedy=f'name a column of the event: ms.{op}("amount")')
    return Aggregate(op, column, **more)


def _digest_of(step: Callable[[Any, Any], Any]) -> str:
    """Tells functions apart by their text (where there is none, by their code) and the constants around them."""
    code = getattr(step, "__code__", None)
    try:
        parts = [textwrap.dedent(inspect.getsource(step))]
    except (OSError, TypeError):
        parts = [type(step).__qualname__ if code is None else f"{code.co_code.hex()} {code.co_names}"]
        parts += _plain(enumerate(() if code is None else code.co_consts))
    if inspect.isfunction(step):
        around = inspect.getclosurevars(step)
        parts += _plain([*enumerate(step.__defaults__ or ()), *sorted({**around.globals, **around.nonlocals}.items())])
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def _plain(values: Iterable[tuple[Any, Any]]) -> list[str]:
    """Those of some named values whose text is always the same."""
    return [f"{name}={value!r}" for name, value in values if isinstance(value, int | float | str | bytes | None)]


def stepped(aggregate: Aggregate, so_far: Any, value: Any) -> Any:
    """One step of a fold, in the type of its start."""
    assert aggregate.step is not None
    try:
        value = aggregate.step(so_far, value)
    except Exception as error:
        raise failed_step(aggregate, error) from error
    start = type(aggregate.start)
    if start is float and isinstance(value, int | float):
        return float(value)
    if start is bool and isinstance(value, bool):
        return value
    if start is int and isinstance(value, int) and INT64_MIN <= value <= INT64_MAX:
        return int(value)
    raise wrong_step(aggregate, f"gave {value!r}")


def failed_step(aggregate: Aggregate, error: Exception) -> UserCodeError:
    name = getattr(aggregate.step, "__name__", repr(aggregate.step))
    return UserCodeError(f"{name}, the step of {aggregate}, raised {type(error).__name__}: {error}")


def wrong_step(aggregate: Aggregate, what: str) -> ProgramError:
    """A fold whose step leaves the type of its start."""
    name = getattr(aggregate.step, "__name__", repr(aggregate.step))
    return ProgramError(
        f"{name}, the step of {aggregate}, {what}, but its start is {aggregate.start!r}",
        remedy="let the step give a value of the type of its start (integers have 64 bits), or change the start",
    )
