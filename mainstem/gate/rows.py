"""Python values to columns, with the same rules as for Arrow columns."""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.gate.raw import Format
from mainstem.schema import INT64_MAX, INT64_MIN, Type

_EPOCH = datetime.datetime(1970, 1, 1)
_EXACT_FLOAT_MAX = 2**53  # every integer up to it is a float; Arrow's cast has the same bound
_MICROSECOND = datetime.timedelta(microseconds=1)

# Values of exactly these types go to Arrow as they are; any other value is looked at one by one.
_DIRECT: dict[str, frozenset[type]] = {
    "int": frozenset({int, type(None)}),
    "float": frozenset({float, type(None)}),
    "bool": frozenset({bool, type(None)}),
    "str": frozenset({str, type(None)}),
    "bytes": frozenset({bytes, type(None)}),
    "datetime": frozenset({datetime.datetime, type(None)}),
    "ts": frozenset({int, type(None)}),
}


def column(values: list[Any], type: Type, format: Format) -> tuple[pa.Array, list[int]]:
    """An array of `type.arrow`, and the rows that can't be converted (null in the array)."""
    return _column(values, type.base, type.is_list, type.arrow, format)


def ts_column(values: list[Any], format: Format) -> tuple[pa.Array, list[int]]:
    return _column(values, "ts", False, pa.int64(), format)


def _column(
    values: list[Any], base: str, is_list: bool, target: pa.DataType, format: Format
) -> tuple[pa.Array, list[int]]:
    if not is_list and _DIRECT[base].issuperset(map(type, values)):
        try:
            return pa.array(values, target), []
        except (pa.ArrowException, OverflowError, UnicodeError):
            pass  # some value is out of range: find it below
    converted: list[Any] = []
    bad: list[int] = []
    for row, value in enumerate(values):
        try:
            converted.append(_list(value, base, format) if is_list else _value(value, base, format))
        except (ValueError, TypeError, LookupError, ArithmeticError):
            converted.append(None)
            bad.append(row)
    return pa.array(converted, target), bad


def _list(value: Any, base: str, format: Format) -> list[Any] | None:
    if value is None:
        return None
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
        raise TypeError(value)
    return [_value(item, base, format) for item in value]


def _value(value: Any, base: str, format: Format) -> Any:
    if value is None:
        return None
    if format == "json" and isinstance(value, str):
        return _from_text(value, base)
    return _CONVERT[base](value)


def _int(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, decimal.Decimal)):
        raise TypeError(value)
    result = int(value)  # type: ignore[arg-type]  # every Real has __trunc__ or __int__
    if result != value or not INT64_MIN <= result <= INT64_MAX:
        raise ValueError(value)
    return result


def _float(value: Any) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, decimal.Decimal)):
        raise TypeError(value)
    if isinstance(value, numbers.Integral) and abs(int(value)) > _EXACT_FLOAT_MAX:
        raise ValueError(value)
    return float(value)


def _bool(value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(value)
    return bool(value)


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    value.encode("utf-8")  # a lone surrogate is a ValueError here, not in the middle of an Arrow conversion
    return str(value)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(value)
    return bytes(value)


def _datetime(value: Any) -> int:
    """Microseconds since the epoch, UTC; an integer already is that."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime.datetime):
        naive = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
        return (naive - _EPOCH) // _MICROSECOND
    if isinstance(value, datetime.date):
        return (datetime.datetime.combine(value, datetime.time()) - _EPOCH) // _MICROSECOND
    return _int(value)


_CONVERT = {
    "int": _int,
    "float": _float,
    "bool": _bool,
    "str": _str,
    "bytes": _bytes,
    "datetime": _datetime,
    "ts": _datetime,
}


def _from_text(text: str, base: str) -> Any:
    """A string of a JSON file, read as `base`."""
    if base == "str":
        return _str(text)
    if base == "bytes":
        return text.encode("utf-8")
    if base == "bool":
        return {"true": True, "false": False, "1": True, "0": False}[text.strip().lower()]
    if base == "float":
        return float(text)
    try:
        return _int(int(text))
    except ValueError:
        if base == "int":
            raise
        return _datetime(datetime.datetime.fromisoformat(text.strip()))
