"""What a function touches while it runs uncompiled: tables, rows, `require`, and 64-bit integers.

The oracle and the interpreted engine run users' functions as they are. `Account[k].balance` then goes through the
objects below to the transaction that is running on this thread.
"""

from __future__ import annotations

import contextlib
import math
import numbers
import operator
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from mainstem.errors import ProgramError
from mainstem.lang import arith
from mainstem.schema import INT64_MAX, INT64_MIN, TableSchema, Type


class Abort(Exception):
    """Ends a transaction; its writes are dropped. The message is the reason."""


def require(condition: Any, reason: str) -> None:
    """Abort the transaction with `reason` unless `condition` holds."""
    if not condition:
        raise Abort(reason)


def abort(reason: str) -> None:
    """Abort the transaction with `reason`."""
    raise Abort(reason)


class Transaction(Protocol):
    """What rows need of a running transaction."""

    def read(self, table: str, key: Any, field: str) -> Any: ...
    def write(self, table: str, key: Any, field: str, value: Any) -> None: ...
    def delete(self, table: str, key: Any) -> None: ...
    def exists(self, table: str, key: Any) -> bool: ...


_running = threading.local()


@contextlib.contextmanager
def running(transaction: Transaction, ts: int = 0) -> Iterator[None]:
    """Makes `transaction` the one that tables on this thread talk to; `ts` is the time of its event."""
    _running.transaction, _running.ts = transaction, ts
    try:
        yield
    finally:
        _running.transaction = None


def now() -> int:
    """The time of the event whose transaction is running."""
    return int(_running.ts)


def current(what: str) -> Transaction:
    """The transaction that is running on this thread; `what` names what needs one."""
    transaction = getattr(_running, "transaction", None)
    if transaction is None:
        raise ProgramError(
            f"{what} works inside functions bound with @app.on only",
            remedy="read committed state with app.state[name], or with ms.open(dir).get(name, key)",
        )
    return transaction


class Table:
    """What `@app.table` leaves in place of the class: rows by key, inside transactions."""

    def __init__(self, schema: TableSchema, checks: tuple[Callable[..., Any], ...] = ()) -> None:
        self.schema, self.checks = schema, checks

    @property
    def __name__(self) -> str:
        return self.schema.name

    def __getitem__(self, key: Any) -> Row:
        return self._row(_key(self.schema, key))

    def _row(self, key: Any) -> Row:
        return Row(self.schema, key)

    def __contains__(self, key: Any) -> bool:
        return current(f"`in {self.schema.name}`").exists(self.schema.name, _key(self.schema, key))

    def __delitem__(self, key: Any) -> None:
        current(f"del {self.schema.name}[…]").delete(self.schema.name, _key(self.schema, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        raise ProgramError(
            f"{self.schema.name}[…] = … is not supported", remedy="assign its fields one by one: T[k].field = value"
        )

    def __reduce__(self) -> Any:
        return type(self), (self.schema, self.checks)

    def __repr__(self) -> str:
        return f"<table {self.schema.name}>"


def _key(schema: TableSchema, key: Any) -> Any:
    """The key as a dict takes it: plain ints, so that equal keys are one key."""
    parts = (key,) if schema.scalar_key else key
    if not isinstance(parts, tuple) or len(parts) != len(schema.key):
        raise ProgramError(f"{schema.name} has a key of {len(schema.key)} parts, not {key!r}")
    plain = tuple(coerce(t, p, f"a key of {schema.name}") for t, p in zip(schema.key, parts, strict=True))
    return plain[0] if schema.scalar_key else plain


class Row:
    """One row of one table inside the running transaction; stands for (table, key), not for a value."""

    __slots__ = ("_key", "_schema")

    def __init__(self, schema: TableSchema, key: Any) -> None:
        object.__setattr__(self, "_schema", schema)
        object.__setattr__(self, "_key", key)

    def __getattr__(self, name: str) -> Any:
        field = self._schema.field(name)
        if field is None:
            raise AttributeError(f"table {self._schema.name} has no field {name!r}")
        value = current(self._schema.name).read(self._schema.name, self._key, name)
        return Cells(self, name, value) if field.type.length else wrap(value)

    def __setattr__(self, name: str, value: Any) -> None:
        field = self._schema.field(name)
        if field is None:
            raise AttributeError(f"table {self._schema.name} has no field {name!r}")
        if field.type.length:
            raise TypeError(f"array field {self._schema.name}.{name} is assigned cell by cell: write {name}[i] = value")
        held = coerce(field.type, value, f"{self._schema.name}.{name}")
        current(self._schema.name).write(self._schema.name, self._key, name, held)


class Cells:
    """A fixed-size array field: read and written by index."""

    def __init__(self, row: Row, name: str, values: tuple[Any, ...]) -> None:
        self._row, self._name, self._values = row, name, values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Any:
        return wrap(getattr(self._row, self._name)._values[self._at(index)])

    def __setitem__(self, index: int, value: Any) -> None:
        schema, key = self._row._schema, self._row._key
        field = schema.field(self._name)
        values = list(current(schema.name).read(schema.name, key, self._name))
        values[self._at(index)] = coerce(Type(field.type.base), value, f"{schema.name}.{self._name}[{index}]")
        current(schema.name).write(schema.name, key, self._name, tuple(values))

    def _at(self, index: int) -> int:
        at, code = arith.index_in(int(index), len(self._values))
        if code:
            raise Abort(arith.BUILTIN_REASONS[code])
        return at


_HOLDS: dict[str, Any] = {
    "int": numbers.Integral,
    "datetime": numbers.Integral,
    "float": numbers.Real,
    "bool": (bool, np.bool_),
    "str": str,
    "bytes": bytes,
}


def coerce(type_: Type, value: Any, what: str = "a value") -> Any:
    """`value` as a key, a field or an output column of this type holds it; `what` names the place in errors."""
    if value is None:
        raise Abort(arith.BUILTIN_REASONS[arith.NULL])
    base = type_.base
    if not isinstance(value, _HOLDS[base]):
        given = plain(value)
        raise TypeError(f"{what} is {type_}, but this one is {given!r} ({type(given).__name__})")
    if base in ("int", "datetime"):
        return int(_check(operator.index(value)))
    if base == "float":
        return float(value)
    return bool(value) if base == "bool" else value


def wrap(value: Any) -> Any:
    """Integers that enter a function are 64-bit ones; everything else is itself."""
    return Int64(value) if type(value) is int else value


def plain(value: Any) -> Any:
    """Integers as Python's own, for comparisons; everything else is itself."""
    if isinstance(value, list | tuple):
        return type(value)(plain(v) for v in value)
    return int(value) if type(value) is Int64 else value


def _check(value: Any) -> Any:
    if type(value) is int or type(value) is Int64:
        if not INT64_MIN <= value <= INT64_MAX:
            raise Abort(arith.BUILTIN_REASONS[arith.OVERFLOW])
        return Int64(value)
    return value


class Int64(int):
    """An int that refuses to leave 64 bits: it aborts the transaction, as compiled code does."""

    __slots__ = ()


def _checked_operator(name: str) -> Callable[..., Any]:
    plain = getattr(int, name)

    def operation(self: int, *others: Any) -> Any:
        return _check(plain(self, *others))

    operation.__name__ = name
    return operation


def _exact_division(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        if b != 0 and (abs(int(a)) > arith.EXACT_FLOAT or abs(int(b)) > arith.EXACT_FLOAT):
            raise Abort(arith.BUILTIN_REASONS[arith.TOO_LARGE])
        return int(a) / int(b)
    return NotImplemented


def _shift(a: Any, n: Any, by: Callable[[int, int], int]) -> Any:
    if not 0 <= n <= 63:
        raise Abort(arith.BUILTIN_REASONS[arith.SHIFT])
    return _check(by(int(a), int(n)))


for _name in [
    "add",
    "sub",
    "mul",
    "floordiv",
    "mod",
    "and",
    "or",
    "xor",
    "radd",
    "rsub",
    "rmul",
    "rfloordiv",
    "rmod",
    "rand",
    "ror",
    "rxor",
    "neg",
    "pos",
    "abs",
    "invert",
    "pow",
    "round",
    "trunc",
]:
    setattr(Int64, f"__{_name}__", _checked_operator(f"__{_name}__"))
Int64.__truediv__ = _exact_division  # type: ignore[method-assign]
Int64.__rtruediv__ = lambda a, b: _exact_division(b, a)  # type: ignore[method-assign]
Int64.__lshift__ = lambda a, n: _shift(a, n, operator.lshift)  # type: ignore[method-assign]
Int64.__rlshift__ = lambda n, a: _shift(a, n, operator.lshift)  # type: ignore[method-assign]
Int64.__rshift__ = lambda a, n: _shift(a, n, operator.rshift)  # type: ignore[method-assign]
Int64.__rrshift__ = lambda n, a: _shift(a, n, operator.rshift)  # type: ignore[method-assign]


def _float_to_int(convert: Callable[[float], tuple[int, int]], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def checked(value: Any, *rest: Any) -> Any:
        if isinstance(value, float) and not rest:
            result, code = convert(value)
            if code:
                raise Abort(arith.BUILTIN_REASONS[code])
            return Int64(result)
        return wrap(otherwise(value, *rest))

    return checked


# What `int`, `round` and friends mean inside a function: the same, in 64 bits.
CHECKED_BUILTINS: dict[str, Any] = {
    "int": _float_to_int(arith.to_int, int),
    "round": _float_to_int(arith.round_int, round),
    "len": lambda x: Int64(len(x)),
    "range": lambda *a: (Int64(i) for i in range(*(operator.index(x) for x in a))),
    "sum": lambda xs, start=0: _check(sum(xs, start)),
}


class CheckedMath:
    """`math`, with floor, ceil and trunc that stay in 64 bits."""

    floor = staticmethod(_float_to_int(arith.floor_int, math.floor))
    ceil = staticmethod(_float_to_int(arith.ceil_int, math.ceil))
    trunc = staticmethod(_float_to_int(arith.to_int, math.trunc))

    def __getattr__(self, name: str) -> Any:
        return getattr(math, name)


CHECKED_MATH = CheckedMath()


def reason_of(error: BaseException) -> str | None:
    """The abort reason that an exception in a function stands for, or None when it is a bug of the program."""
    if isinstance(error, Abort):
        return str(error)
    if isinstance(error, ZeroDivisionError):
        return arith.BUILTIN_REASONS[arith.ZERO_DIVISION]
    if isinstance(error, OverflowError):
        return arith.BUILTIN_REASONS[arith.FLOAT_OVERFLOW]
    if isinstance(error, IndexError):
        return arith.BUILTIN_REASONS[arith.INDEX]
    if isinstance(error, ValueError) and ("math domain" in str(error) or "expected a" in str(error)):
        return arith.BUILTIN_REASONS[arith.DOMAIN]
    if isinstance(error, TypeError) and "NoneType" in str(error):
        return arith.BUILTIN_REASONS[arith.NULL]
    return None
