"""What decorators of an app read from the classes that they are given: fields, keys, defaults, and the place."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Mapping
from typing import Any

from mainstem.errors import ProgramError
from mainstem.schema import (
    INT64_MAX,
    INT64_MIN,
    KEY_BASES,
    KEY_PARTS_MAX,
    MISSING,
    EventSchema,
    Field,
    TableSchema,
    Type,
    is_known,
    type_of,
)

_DEFAULTS: dict[str, Any] = {
    "int": int,
    "float": (int, float),
    "bool": bool,
    "str": str,
    "bytes": bytes,
    "datetime": int,
}
_OWN_MODULES = ("mainstem.app", "mainstem.declare", "mainstem.groups", "mainstem.windowed", "contextlib")


def place() -> dict[str, Any]:
    """The user's line that is running: the decorator of what is being declared."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "") in _OWN_MODULES:
        frame = frame.f_back
    return {} if frame is None else {"file": frame.f_code.co_filename, "line": frame.f_lineno}


def fields_of(cls: type, what: str) -> list[Field]:
    try:
        hints = typing.get_type_hints(cls, localns=dict(vars(cls)))
    except Exception as error:
        raise ProgramError(
            f"the annotations of {what} {cls.__name__} can't be read: {error}",
            **place(),
            remedy="import the types that it names",
        ) from error
    hints = {n: h for n, h in hints.items() if n in inspect.get_annotations(cls)}
    if not hints:
        raise ProgramError(f"{what} {cls.__name__} has no fields", **place(), remedy="annotate them: amount: int")
    fields = []
    for name, hint in hints.items():
        where = f"field {cls.__name__}.{name}"
        if name.startswith("_"):
            raise ProgramError(f"{where} starts with an underscore", **place(), remedy="such names are Mainstem's own")
        try:
            type_ = type_of(hint, where)
        except ProgramError as error:
            raise ProgramError(error.what, **place(), remedy=error.remedy) from None
        fields.append(Field(name, type_, _default(cls, name, type_, where)))
    return fields


def event_fields(cls: type) -> tuple[Field, ...]:
    fields = tuple(fields_of(cls, "event"))
    for field in fields:
        if field.name == "ts":
            raise ProgramError(
                f"event {cls.__name__} declares ts", **place(), remedy="leave it out: every event has an int ts"
            )
        if field.type.length:
            raise ProgramError(
                f"field {cls.__name__}.{field.name} is a fixed array", **place(), remedy="use list[…] in events"
            )
    return fields


def table_fields(cls: type) -> tuple[Field, ...]:
    fields = tuple(fields_of(cls, "table"))
    for field in fields:
        if field.type.nullable or field.type.is_list:
            raise ProgramError(
                f"field {cls.__name__}.{field.name} is {field.type}",
                **place(),
                remedy="table fields are plain values or ms.Array[X, n]",
            )
    return fields


def derived_fields(schema: EventSchema, columns: Mapping[str, Any]) -> tuple[Field, ...]:
    """What `@app.derive` adds to an event type."""
    added = tuple(Field(name, type_of(hint, f"derived column {name}")) for name, hint in columns.items())
    for field in added:
        if field.type.length:
            raise ProgramError(
                f"derived column {field.name} is a fixed array", **place(), remedy="use list[…] in events"
            )
        if schema.field(field.name) is not None or field.name == "ts":
            raise ProgramError(
                f"event {schema.name} has a field {field.name!r} already", **place(), remedy="choose another name"
            )
    return added


def _default(cls: type, name: str, type_: Type, where: str) -> Any:
    value = vars(cls).get(name, MISSING)
    if value is MISSING or (value is None and type_.nullable):
        return value
    if type_.length:
        fits = isinstance(value, list | tuple) and len(value) == type_.length
    elif type_.is_list:
        fits = isinstance(value, tuple)
    else:
        fits = _fits(value, type_.base)
    if fits and (type_.length or type_.is_list):
        fits = all(_fits(item, type_.base) for item in value)
    if not fits:
        raise ProgramError(
            f"the default of {where} is {value!r}, its type is {type_}",
            **place(),
            remedy="give a default of that type",
        )
    return value


def _fits(value: Any, base: str) -> bool:
    if isinstance(value, bool) or not isinstance(value, _DEFAULTS[base]):
        return base == "bool" and isinstance(value, bool)
    if base in ("int", "datetime"):
        return bool(INT64_MIN <= value <= INT64_MAX)
    return not isinstance(value, int) or abs(value) <= sys.float_info.max


def key_types(key: Any, cls: type) -> tuple[tuple[Type, ...], bool]:
    parts = typing.get_args(key) if typing.get_origin(key) is tuple else key
    scalar = not isinstance(parts, tuple)
    types = tuple(type_of(k, f"the key of {cls.__name__}") for k in ((parts,) if scalar else parts))
    for type_ in types:
        if type_.base not in KEY_BASES or type_.nullable or type_.is_list or type_.length:
            raise ProgramError(
                f"the key of table {cls.__name__} is {type_}",
                **place(),
                remedy="keys are int, str, bytes, datetime, or tuples of them",
            )
    if not 1 <= len(types) <= KEY_PARTS_MAX:
        raise ProgramError(
            f"the key of table {cls.__name__} has {len(types)} parts",
            **place(),
            remedy=f"use one to {KEY_PARTS_MAX} parts",
        )
    return types, scalar


def refuse_no_key(key: Any) -> None:
    """`@app.table` without parentheses hands over the class itself as the key."""
    if key is MISSING or (inspect.isclass(key) and not is_known(key)):
        given = "" if key is MISSING else f", and {key.__name__} is no type of one"
        raise ProgramError(f"a table needs a key{given}", **place(), remedy="write @app.table(key=int)")


def refuse_key_columns(schema: TableSchema) -> None:
    """The key has columns of its own in `app.state`, in queries and in files."""
    for field in schema.fields:
        if field.name in schema.key_columns:
            raise ProgramError(
                f"field {schema.name}.{field.name} is called like a column of the key", **place(),
                remedy="choose another name for the field",
            )  # fmt: skip


def event_class(cls: type, fields: tuple[Field, ...]) -> Any:
    """A frozen dataclass with `ts` and the fields, all by keyword."""
    parts: list[Any] = [("ts", int, dataclasses.field(kw_only=True))]
    for field in fields:
        options: dict[str, Any] = {"kw_only": True}
        if field.default is not MISSING:
            options["default"] = field.default
        parts.append((field.name, cls.__annotations__[field.name], dataclasses.field(**options)))
    made = dataclasses.make_dataclass(cls.__name__, parts, frozen=True, slots=True, namespace={"__doc__": cls.__doc__})
    made.__module__ = cls.__module__
    made.__qualname__ = cls.__qualname__
    made.__mainstem_event__ = cls.__name__  # type: ignore[attr-defined]
    return made
