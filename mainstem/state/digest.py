"""A short fingerprint of tables: equal content gives an equal digest, whatever the Arrow representation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from mainstem.state.arrow import byte_column, is_bytes, is_text, valid_flags

_DIGEST_BYTES = 8


def digest(tables: Mapping[str, pa.Table]) -> str:
    """16 hex digits over names, column names, types, row counts and values. Rows count in the order given."""
    total = Digest()
    for name in sorted(tables):
        total.add(name, tables[name])
    return str(total)


class Digest:
    """`digest` for tables that are not in memory at the same time: add them in the order of their names."""

    def __init__(self) -> None:
        self._total = hashlib.blake2b(digest_size=_DIGEST_BYTES)

    def add(self, name: str, table: pa.Table) -> None:
        _put_text(self._total, f"{name}:{table.num_rows}:{table.num_columns}")
        for column_name, column in zip(table.column_names, table.columns, strict=True):
            hasher = _ColumnHasher(column.type)
            for chunk in column.chunks:
                hasher.update(chunk)
            _put_text(self._total, f"{column_name}:{_plain_type(column.type)}")
            self._total.update(hasher.digest())

    def __str__(self) -> str:
        return self._total.hexdigest()


class _ColumnHasher:
    """Hashes a column chunk by chunk; where chunks begin makes no difference.

    Three streams: positions of nulls, lengths (of texts and lists), values. Lists hash their items as a column.
    """

    def __init__(self, type_: pa.DataType) -> None:
        self._type = _plain_type(type_)
        self._nulls, self._lengths, self._values = (hashlib.blake2b(digest_size=32) for _ in range(3))
        self._rows = 0
        self._items = _ColumnHasher(self._type.value_type) if _is_list(self._type) else None

    def update(self, array: pa.Array) -> None:
        if pt.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pt.is_string_view(array.type) or pt.is_binary_view(array.type):  # Arrow can't drop nulls of these
            array = array.cast(pa.large_string() if is_text(array.type) else pa.large_binary())
        if array.null_count:
            at = np.flatnonzero(valid_flags(array) == 0)
            self._nulls.update((self._rows + at).astype("<i8").tobytes())
        self._rows += len(array)
        if array.null_count < len(array):
            self._update_values(array)

    def digest(self) -> bytes:
        items = self._items.digest() if self._items else b""
        parts = (self._nulls, self._lengths, self._values)
        return self._rows.to_bytes(8, "little") + b"".join(part.digest() for part in parts) + items

    def _update_values(self, array: pa.Array) -> None:
        if is_text(array.type) or is_bytes(array.type):
            self._update_bytes(array.drop_null())
        elif self._items is not None:
            present = array.drop_null()
            if not pt.is_fixed_size_list(array.type):
                self._lengths.update(present.value_lengths().cast(pa.int64()).to_numpy().astype("<i8").tobytes())
            self._items.update(present.flatten())
        elif pt.is_primitive(array.type):
            self._values.update(_bits(array.drop_null()))
        else:
            raise TypeError(f"a column of type {array.type} has no digest")

    def _update_bytes(self, array: pa.Array) -> None:
        column = byte_column(array)
        self._lengths.update(np.diff(column.offsets).astype("<i8").tobytes())
        self._values.update(column.data[column.offsets[0] : column.offsets[-1]].data)


def _bits(array: pa.Array) -> memoryview:
    """The values of a fixed-width array without nulls, as they lie in memory; bools as one byte each."""
    if pt.is_boolean(array.type):
        array = array.cast(pa.uint8())
    width = array.type.bit_width // 8
    return memoryview(array.buffers()[1])[array.offset * width : (array.offset + len(array)) * width]


def _is_list(type_: pa.DataType) -> bool:
    return pt.is_list(type_) or pt.is_large_list(type_) or pt.is_fixed_size_list(type_)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    """The type without how it is encoded: text is text, be its offsets wide, its values views or codes."""
    if pt.is_dictionary(type_):
        return _plain_type(type_.value_type)
    if is_text(type_):
        return pa.string()
    if is_bytes(type_):
        return pa.binary()
    if pt.is_fixed_size_list(type_):
        return pa.list_(_plain_type(type_.value_type), type_.list_size)
    if _is_list(type_):
        return pa.list_(_plain_type(type_.value_type))
    return type_


def _put_text(total: hashlib.blake2b, text: str) -> None:
    data = text.encode()
    total.update(len(data).to_bytes(8, "little"))
    total.update(data)
