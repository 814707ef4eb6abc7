"""One column between its three forms: kernel storage (NumPy), Arrow, and Python values."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from mainstem.errors import InputError
from mainstem.schema import INT64_MAX, INT64_MIN, Type
from mainstem.state.arrow import int64_values, is_bytes, is_text, valid_flags, whole
from mainstem.state.pool import StringPool

EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_PYTHON: dict[str, Any] = {
    "int": int,
    "float": (int, float),
    "bool": bool,
    "str": str,
    "bytes": bytes,
    "datetime": datetime.datetime,
}


class Columns:
    """Converts columns with the pools of one state."""

    def __init__(self, strings: StringPool, binaries: StringPool) -> None:
        self.strings, self.binaries = strings, binaries

    def pool(self, type_: Type) -> StringPool:
        return self.strings if type_.base == "str" else self.binaries

    def to_arrow(self, values: np.ndarray, type_: Type) -> pa.Array:
        """Kernel storage to Arrow, exactly of type `type_.arrow`."""
        if type_.length:
            flat = self._flat_to_arrow(np.ascontiguousarray(values).reshape(-1), type_)
            return pa.FixedSizeListArray.from_arrays(flat, type=type_.arrow)
        return self._flat_to_arrow(values, type_)

    def _flat_to_arrow(self, values: np.ndarray, type_: Type) -> pa.Array:
        if type_.pooled:
            return self.pool(type_).decode(values)
        if type_.base == "bool":
            return pa.array(values != 0)
        array = pa.array(np.ascontiguousarray(values))
        return array.view(pa.timestamp("us")) if type_.base == "datetime" else array

    def from_arrow(self, array: pa.Array | pa.ChunkedArray, type_: Type) -> np.ndarray:
        """Arrow to kernel storage; nulls give any value."""
        array = whole(array)
        if type_.length:
            if array.null_count:
                array = array.fill_null(pa.scalar([self._filler(type_)] * type_.length, type_.arrow))
            return self._flat_from_arrow(array.flatten(), type_).reshape(-1, type_.length)
        return self._flat_from_arrow(array, type_)

    def _filler(self, type_: Type) -> Any:
        return EPOCH if type_.base == "datetime" else Type(type_.base).zero

    def _flat_from_arrow(self, array: pa.Array, type_: Type) -> np.ndarray:
        if type_.pooled:
            return self.pool(type_).intern(array)
        if type_.base == "float":
            return (array.fill_null(0.0) if array.null_count else array).to_numpy(zero_copy_only=False)
        values = int64_values(array)
        return values.astype(np.uint8) if type_.base == "bool" else values

    def to_storage(self, value: Any, type_: Type, where: str) -> Any:
        """A Python value (a default) to what a record holds; a single value fills a fixed array."""
        if type_.length:
            one = Type(type_.base)
            values: Any = value if isinstance(value, (list, tuple, np.ndarray)) else (value,) * type_.length
            if len(values) != type_.length:
                raise InputError(f"{where} has {len(values)} values, but its type is {type_}")
            return [self.to_storage(v.item() if isinstance(v, np.generic) else v, one, where) for v in values]
        if type_.base == "datetime" and type(value) is int:
            return value
        self._check_python(value, type_, where)
        if type_.pooled:
            return self.pool(type_).intern_one(value)
        return microseconds(value) if type_.base == "datetime" else value

    def key_component(self, value: Any, type_: Type, where: str) -> int | None:
        """A Python key (or part of one) to its int64 component; None when no row can have it."""
        if type_.base == "datetime" and type(value) is int:
            return value if INT64_MIN <= value <= INT64_MAX else None
        if isinstance(value, np.generic):
            value = value.item()
        self._check_python(value, type_, where)
        if type_.pooled:
            code = self.pool(type_).find_one(value)
            return None if code < 0 else code
        number = microseconds(value) if type_.base == "datetime" else value
        return number if INT64_MIN <= number <= INT64_MAX else None

    @staticmethod
    def _check_python(value: Any, type_: Type, where: str) -> None:
        wrong_bool = isinstance(value, bool) and type_.base != "bool"
        if wrong_bool or not isinstance(value, _PYTHON[type_.base]):
            kind = type(value).__name__
            raise InputError(f"{where} is {value!r} ({kind}), but its type is {type_}; pass a {type_.base}")


def microseconds(value: datetime.datetime) -> int:
    """Microseconds since the epoch; a time without zone is UTC."""
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return (value - EPOCH) // _MICROSECOND


def accepts(type_: Type, arrow: pa.DataType) -> bool:
    """Can a column of this Arrow type be read without changing values? Text and bytes may come in any encoding."""
    if pt.is_dictionary(arrow):
        arrow = arrow.value_type
    if type_.length or not type_.pooled:
        return type_.arrow.equals(arrow)
    return is_text(arrow) if type_.base == "str" else is_bytes(arrow)


def check_no_nulls(
    array: pa.Array | pa.ChunkedArray, where: str, remedy: str, ignored: np.ndarray | None = None
) -> None:
    """Raise for the first null that is not at an `ignored` row."""
    array = whole(array)
    if array.null_count == 0:
        return
    bad = valid_flags(array) == 0
    if ignored is not None:
        bad &= ~ignored
    if bad.any():
        raise InputError(f"{where} is null in row {int(bad.argmax())}; {remedy}")
