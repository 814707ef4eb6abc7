"""Columns to the exact types of a schema; values that can't be converted are found, not guessed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.gate.raw import Format
from mainstem.schema import Type

types = pa.types
Convert = Callable[[pa.Array], pa.Array]

_MICROS = pa.timestamp("us")

_NUMERIC = (types.is_integer, types.is_floating, types.is_decimal)
_STRING = (types.is_string, types.is_large_string, types.is_string_view)
_BINARY = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
_TIME = (types.is_timestamp, types.is_date)
# An integer for a datetime is microseconds since the epoch, which is also what functions see.
_ACCEPTED: dict[str, Sequence[Callable[[pa.DataType], bool]]] = {
    "int": _NUMERIC,
    "float": _NUMERIC,
    "bool": (types.is_boolean,),
    "str": _STRING,
    "bytes": _BINARY,
    "datetime": (*_TIME, types.is_integer),
    "ts": (*_TIME, *_NUMERIC),
}


@dataclass(frozen=True)
class Cast:
    """A converted column; rows in `bad` could not be converted and are null in it."""

    array: pa.Array
    bad: np.ndarray
    wrong_type: bool = False  # no value of the source's type can ever be converted


_NONE = np.empty(0, dtype=np.int64)


def to_type(array: pa.Array, type: Type, format: Format) -> Cast:
    """`array` as `type.arrow`."""
    if array.type == type.arrow:
        return Cast(array, _NONE)
    if types.is_null(array.type):
        return Cast(pa.nulls(len(array), type.arrow), _NONE)
    if not type.is_list:
        return _scalars(array, type.base, type.arrow, format)
    return _lists(array, type, format)


def to_ts(array: pa.Array, format: Format) -> Cast:
    """`array` as int64; times become microseconds since the epoch."""
    if array.type == pa.int64():
        return Cast(array, _NONE)
    if types.is_null(array.type):
        return Cast(pa.nulls(len(array), pa.int64()), _NONE)
    return _scalars(array, "ts", pa.int64(), format)


def _lists(array: pa.Array, type: Type, format: Format) -> Cast:
    if not (types.is_list(array.type) or types.is_large_list(array.type) or types.is_fixed_size_list(array.type)):
        return _all_bad(array, type.arrow)
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    items = to_type(array.flatten(), Type(type.base), format)
    mask = array.is_null() if array.null_count else None
    lists = pa.ListArray.from_arrays(pa.array(offsets), items.array, mask=mask)
    bad = np.unique(np.searchsorted(offsets, items.bad, side="right") - 1) if len(items.bad) else _NONE
    return Cast(lists, bad, items.wrong_type)


def _scalars(array: pa.Array, base: str, target: pa.DataType, format: Format) -> Cast:
    array = _unwrapped(array)
    if array.type == target:
        return Cast(array, _NONE)
    from_text = format != "typed" and base != "str" and is_text(array.type)
    if not from_text and not _any(_ACCEPTED[base], array.type):
        return _all_bad(array, target)
    for convert in _TEXT[base] if from_text else (_plain(base, array.type, target),):
        try:
            return Cast(convert(array), _NONE)
        except pa.ArrowNotImplementedError:
            return _all_bad(array, target)
        except pa.ArrowInvalid:
            continue
    return _split(array, base, convert)


def _split(array: pa.Array, base: str, convert: Convert) -> Cast:
    """Nulls in place of the values that `convert` refuses."""
    bad = _surely_bad(array, base)
    rest = _without(array, bad)
    bad[_refused(rest, convert, 0)] = True
    return Cast(convert(_without(rest, bad)), np.flatnonzero(bad))


def _without(array: pa.Array, bad: np.ndarray) -> pa.Array:
    return pc.if_else(pa.array(bad), pa.scalar(None, array.type), array)


def _surely_bad(array: pa.Array, base: str) -> np.ndarray:
    """Values that certainly can't be converted, found in one pass; it matters when a whole column is bad."""
    suspect = None
    if base in ("int", "ts") and types.is_floating(array.type):
        suspect = pc.not_equal(array.cast(pa.int64(), safe=False).cast(array.type, safe=False), array)
    elif base in ("int", "ts") and is_text(array.type):
        suspect = pc.invert(pc.match_substring_regex(array, "[0-9]"))
    if suspect is None:
        return np.zeros(len(array), dtype=bool)
    return pc.fill_null(suspect, False).to_numpy(zero_copy_only=False).copy()


def _refused(array: pa.Array, convert: Convert, start: int) -> list[int]:
    """Rows that `convert` refuses, by halving: few bad rows cost few extra passes, and `convert` alone decides."""
    try:
        convert(array)
        return []
    except pa.ArrowInvalid:
        if len(array) == 1:
            return [start]
        half = len(array) // 2
        return _refused(array.slice(0, half), convert, start) + _refused(array.slice(half), convert, start + half)


def _all_bad(array: pa.Array, target: pa.DataType) -> Cast:
    bad = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False)).astype(np.int64)
    return Cast(pa.nulls(len(array), target), bad, wrong_type=True)


def _unwrapped(array: pa.Array) -> pa.Array:
    """Values without their encoding: dictionary, run-end or extension."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if types.is_dictionary(array.type):
        return array.cast(array.type.value_type)
    if types.is_run_end_encoded(array.type):
        return pc.run_end_decode(array)
    return array


def is_text(type: pa.DataType) -> bool:
    return _any(_STRING, type)


def _any(predicates: Sequence[Callable[[pa.DataType], bool]], type: pa.DataType) -> bool:
    return any(predicate(type) for predicate in predicates)


def _plain(base: str, source: pa.DataType, target: pa.DataType) -> Convert:
    if _any(_TIME, source):
        return _micros if base == "datetime" else lambda array: _micros(array).view(pa.int64())
    return lambda array: array.cast(target)


def _micros(array: pa.Array) -> pa.Array:
    """Any time as UTC microseconds. Digits below a microsecond are dropped; this keeps the order."""
    if types.is_timestamp(array.type):
        finer = array.type.unit == "ns"
        return array.cast(pa.timestamp("us", array.type.tz), safe=not finer).view(_MICROS)
    return array.cast(_MICROS)


def _trimmed(convert: Convert) -> Convert:
    return lambda array: convert(pc.utf8_trim_whitespace(array))


def _parse(target: pa.DataType) -> tuple[Convert, ...]:
    def plain(array: pa.Array) -> pa.Array:
        return array.cast(target)

    return plain, _trimmed(plain)


def _integers(array: pa.Array) -> pa.Array:
    return array.cast(pa.int64())


def _naive(array: pa.Array) -> pa.Array:
    return array.cast(_MICROS)


def _zoned(array: pa.Array) -> pa.Array:
    return array.cast(pa.timestamp("us", "UTC")).view(_MICROS)


# How a text becomes a value: the first way that fits the whole column is taken; the last one decides what is bad.
_TEXT: dict[str, tuple[Convert, ...]] = {
    "int": _parse(pa.int64()),
    "float": _parse(pa.float64()),
    "bool": _parse(pa.bool_()),
    "bytes": (lambda array: array.cast(pa.binary()),),
    "datetime": (_naive, _zoned, lambda array: _integers(array).view(_MICROS), _trimmed(_naive)),
    "ts": (
        _integers,
        lambda array: _zoned(array).view(pa.int64()),
        lambda array: _naive(array).view(pa.int64()),
        _trimmed(_integers),
    ),
}
