"""Types, events and tables as plain data: what every layer agrees on."""

from __future__ import annotations

import datetime
import types as pytypes
import typing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.errors import ProgramError


class _Missing:
    """The absence of a default; one object, also after pickling."""

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_ARROW = {
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "datetime": pa.timestamp("us"),
}
# Strings and bytes are pool codes in kernels; bools are bytes so that they can be viewed from NumPy.
_STORAGE = {"int": "i8", "float": "f8", "bool": "u1", "str": "i8", "bytes": "i8", "datetime": "i8"}
_PYTHON = {int: "int", float: "float", bool: "bool", str: "str", bytes: "bytes", datetime.datetime: "datetime"}
_DEFAULT: dict[str, Any] = {"int": 0, "float": 0.0, "bool": False, "str": "", "bytes": b"", "datetime": 0}
RING_COUNT, RING_LOST, RING_TS = "_count", "_lost", "_ts"
"""Fields of a history's rows: entries ever added, the time of the newest one that is gone, the times of those kept."""
KEY_BASES = ("int", "str", "bytes", "datetime")
KEY_PARTS_MAX = 4  # generated code probes with at most this many components


class Array:
    """Annotation of a fixed-size array field of a table: `ms.Array[float, 8]`."""

    def __init__(self, element: type, length: int) -> None:
        self.element, self.length = element, length

    def __class_getitem__(cls, item: tuple[type, int]) -> Array:
        return cls(*item)


@dataclass(frozen=True)
class Type:
    """One of the six bases, possibly nullable, a list (events) or a fixed array (tables)."""

    base: str
    nullable: bool = False
    is_list: bool = False
    length: int = 0

    @property
    def arrow(self) -> pa.DataType:
        if self.is_list:
            return pa.list_(_ARROW[self.base])
        if self.length:
            return pa.list_(_ARROW[self.base], self.length)
        return _ARROW[self.base]

    @property
    def storage(self) -> Any:
        """The NumPy dtype (with shape for arrays) that kernels see."""
        return (_STORAGE[self.base], (self.length,)) if self.length else np.dtype(_STORAGE[self.base])

    @property
    def pooled(self) -> bool:
        return self.base in ("str", "bytes")

    @property
    def zero(self) -> Any:
        """The default of a table field that names none."""
        return (_DEFAULT[self.base],) * self.length if self.length else _DEFAULT[self.base]

    def __str__(self) -> str:
        text = f"list[{self.base}]" if self.is_list else self.base
        text = f"Array[{text}, {self.length}]" if self.length else text
        return f"{text} | None" if self.nullable else text


def is_known(cls: type) -> bool:
    """Whether a class is one of the types that keys and fields are made of."""
    return cls in _PYTHON


def type_of(annotation: Any, where: str) -> Type:
    """The `Type` of a Python annotation; `where` names the field in errors."""
    if isinstance(annotation, Array):
        element = type_of(annotation.element, where)
        return replace(element, length=int(annotation.length))
    if annotation in _PYTHON:
        return Type(_PYTHON[annotation])
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list and len(args) == 1:
        return replace(type_of(args[0], where), is_list=True)
    if origin in (typing.Union, pytypes.UnionType) and len(args) == 2 and type(None) in args:
        inner = args[0] if args[1] is type(None) else args[1]
        return replace(type_of(inner, where), nullable=True)
    raise ProgramError(
        f"{where} has a type that Mainstem does not know: {annotation!r}",
        remedy="use int, float, bool, str, bytes, datetime; list[…] and X | None in events; ms.Array[X, n] in tables",
    )


@dataclass(frozen=True)
class Field:
    name: str
    type: Type
    default: Any = MISSING

    @property
    def arrow(self) -> pa.Field:
        return pa.field(self.name, self.type.arrow, nullable=self.type.nullable)


@dataclass(frozen=True)
class EventSchema:
    """An event type: its declared fields and those that `@app.derive` adds. `ts` is implied."""

    name: str
    fields: tuple[Field, ...]
    derived: tuple[Field, ...] = ()

    def field(self, name: str) -> Field | None:
        return next((f for f in self.fields + self.derived if f.name == name), None)

    @property
    def arrow(self) -> pa.Schema:
        """The declared columns of an input of this type."""
        return pa.schema([pa.field("ts", pa.int64(), nullable=False), *(f.arrow for f in self.fields)])


@dataclass(frozen=True)
class TableSchema:
    name: str
    key: tuple[Type, ...]
    scalar_key: bool
    fields: tuple[Field, ...]
    checks: tuple[str, ...] = ()

    def field(self, name: str) -> Field | None:
        return next((f for f in self.fields if f.name == name), None)

    @property
    def key_columns(self) -> tuple[str, ...]:
        return ("key",) if self.scalar_key else tuple(f"key_{i}" for i in range(len(self.key)))

    @property
    def arrow(self) -> pa.Schema:
        """Key columns, then fields: the shape of `app.state[name]`."""
        keys = [pa.field(n, t.arrow, nullable=False) for n, t in zip(self.key_columns, self.key, strict=True)]
        return pa.schema([*keys, *(pa.field(f.name, f.type.arrow, nullable=False) for f in self.fields)])

    @property
    def row_dtype(self) -> np.dtype:
        """The record that kernels read and write; `_alive` is 0 for a missing row."""
        parts: list[Any] = [("_alive", "u1")]
        for f in self.fields:
            storage = f.type.storage
            parts.append((f.name, *storage) if f.type.length else (f.name, storage))
        return np.dtype(parts, align=True)
