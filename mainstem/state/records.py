"""Single rows as Python values: what queries of one key cost is what this costs."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.errors import InputError
from mainstem.jit import kernel
from mainstem.schema import INT64_MAX, INT64_MIN, TableSchema, Type
from mainstem.state.columns import EPOCH, Columns
from mainstem.state.index import KeyIndex, probe1

Row = dict[str, Any]
Decode = Callable[[Any], Any]
Decoders = list[tuple[str, Decode]]
_MANY = 8  # keys from which looking them up together pays
_CODES_MAX = _VALUES_MAX = 65_536  # strings that are remembered: the pool's way there costs more than all the rest


class RecordReader:
    """Looks rows of one table up. Everything that does not depend on the key is prepared once.

    It is given the records each time and does not know its table: in a circle of references, a table that nobody uses
    would stay in memory until Python looks for circles, which it does by the number of objects, not by their size.
    """

    def __init__(self, schema: TableSchema, index: KeyIndex, columns: Columns) -> None:
        self._schema, self._index, self._columns = schema, index, columns
        self._names = tuple(field.name for field in self._schema.fields)
        self._decoders = self._prepared(times=True)
        self._decoders_seen = self._prepared(times=False)
        self._is_int = self._schema.scalar_key and self._schema.key[0].base == "int"
        self._codes: dict[str, dict[Any, int]] = {"str": {}, "bytes": {}}

    def get(self, records: np.ndarray, key: Any) -> Row | None:
        """The fields of a row; None when it is missing."""
        row = self._row(key)
        return None if row < 0 else self._decoded(records.item(row), self._decoders)

    def seen(self, records: np.ndarray, key: Any) -> Row | None:
        """The fields of a row as functions see them: times are integers, arrays tuples."""
        row = self._row(key)
        return None if row < 0 else self._decoded(records.item(row), self._decoders_seen)

    def get_many(self, records: np.ndarray, keys: Sequence[Any]) -> list[Row | None]:
        """`get` of every key, in their order, at a fraction of the cost."""
        if len(keys) < _MANY:
            return [self.get(records, key) for key in keys]
        rows = self._find_many(keys)
        decoded, decoders = self._decoded, self._decoders
        found = zip(rows.tolist(), records[rows].tolist(), strict=True)
        return [None if row < 0 else decoded(record, decoders) for row, record in found]

    def _decoded(self, record: tuple[Any, ...], decoders: Decoders) -> Row | None:
        if not record[0]:
            return None
        row = dict(zip(self._names, record[1:]))  # noqa: B905  both come from one dtype, and checking takes time
        for name, decode in decoders:
            row[name] = decode(row[name])
        return row

    def _prepared(self, times: bool) -> Decoders:
        """How fields become Python values; without `times`, as functions see them."""
        found = []
        for field in self._schema.fields:
            where = f"{self._schema.name}.{field.name}"
            decode = self._decoder(field.type, where) if times else self._seen_decoder(field.type)
            if decode is not None:
                found.append((field.name, decode))
        return found

    def _decoder(self, type_: Type, where: str) -> Decode | None:
        """From what a record holds to the Python value; None when it is that already."""
        if type_.length:
            one = self._decoder(Type(type_.base), where)
            return (lambda values: values.tolist()) if one is None else lambda values: [one(v) for v in values.tolist()]
        if type_.pooled:
            return lru_cache(_VALUES_MAX)(self._columns.pool(type_).value)  # a code never changes its value
        if type_.base == "datetime":
            return lambda value: _time(value, where)
        return bool if type_.base == "bool" else None

    def _seen_decoder(self, type_: Type) -> Decode | None:
        decode = None if type_.base == "datetime" else self._decoder(Type(type_.base), "")
        if not type_.length:
            return decode
        return (lambda values: tuple(values.tolist())) if decode is None else lambda v: tuple(map(decode, v.tolist()))

    def _row(self, key: Any) -> int:
        """The row of a key, -1 when there is none."""
        if self._is_int and type(key) is int:
            direct = self._index.direct
            return direct.item(key) - 1 if 0 <= key < len(direct) else self._find_int(key)
        return self._find(key)

    def _find_int(self, key: int) -> int:
        inside = INT64_MIN <= key <= INT64_MAX
        return int(_find_one(self._index.slots, self._index.keys, key)) if inside else -1

    def _find(self, key: Any) -> int:
        """The row of any key, -1 when there is none; refuses what can't be a key of the table."""
        parts = (key,) if self._schema.scalar_key else key
        if not isinstance(parts, tuple) or len(parts) != len(self._schema.key):
            kinds = ", ".join(str(t) for t in self._schema.key)
            raise InputError(f"{key!r} is no key of {self._schema.name}; pass a tuple ({kinds})")
        components = []
        for part, type_, name in zip(parts, self._schema.key, self._schema.key_columns, strict=True):
            component = self._component(part, type_, f"column {self._schema.name}.{name}")
            if component is None:
                return -1
            components.append(np.array([component], np.int64))
        return int(self._index.find(components)[0])

    def _component(self, value: Any, type_: Type, where: str) -> int | None:
        if not type_.pooled:
            return self._columns.key_component(value, type_, where)
        known = self._codes[type_.base]
        if type(value) in (str, bytes) and (code := known.get(value)) is not None:
            return code
        code = self._columns.key_component(value, type_, where) if _is_storable(value) else None
        if code is not None:
            if len(known) >= _CODES_MAX:
                known.clear()
            known[value] = code
        return code

    def _find_many(self, keys: Sequence[Any]) -> np.ndarray:
        count = len(self._schema.key)
        if self._schema.scalar_key:
            parts: list[Sequence[Any]] = [keys]
        elif all(type(key) is tuple and len(key) == count for key in keys):
            parts = list(zip(*keys, strict=True))
        else:
            parts = []
        columns = [self._components(*column) for column in zip(parts, self._schema.key, strict=False)]
        whole = [column for column in columns if column is not None]
        if len(whole) == count:
            return self._index.find(whole)
        return np.array([self._find(key) for key in keys], np.int64)

    def _components(self, values: Sequence[Any], type_: Type) -> np.ndarray | None:
        """A column of key parts; None for those that need a look at each."""
        if type_.base == "int" and all(type(value) is int for value in values):
            inside = min(values) >= INT64_MIN and max(values) <= INT64_MAX
            return np.array(values, np.int64) if inside else None
        pool = self._columns.pool(type_) if type_.pooled else None
        if pool is not None and all(type(value) is pool.kind and _is_storable(value) for value in values):
            return pool.find(pa.array(values, pa.large_string() if pool.kind is str else pa.large_binary()))
        return None


def _time(microseconds: int, where: str) -> datetime.datetime:
    try:
        return EPOCH + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        raise InputError(
            f"{where} is {microseconds} microseconds after 1970, which Python's datetime can't hold (years 1 to 9999)\n"
            "  read the table as Arrow columns: ms.open(dir).table(name), with cast(pa.int64()) of the field"
        ) from None


def _is_storable(value: Any) -> bool:
    """False for half a surrogate pair, which Python allows in a string and no file does."""
    if type(value) is not str or value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


@kernel
def _find_one(slots: np.ndarray, keys: np.ndarray, key: int) -> int:
    return probe1(slots, keys, key)
