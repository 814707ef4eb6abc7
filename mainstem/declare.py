"""What decorators of an app read from the classes that they are given: fields, keys, defaults, and the place."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from typing import Any

from mainstem.errors import ProgramError
from mainstem.schema import KEY_BASES, MISSING, Field, Type, type_of

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


def _default(cls: type, name: str, type_: Type, where: str) -> Any:
    value = vars(cls).get(name, MISSING)
    if value is MISSING or (value is None and type_.nullable):
        return value
    wanted: dict[str, Any] = {
        "int": int,
        "float": (int, float),
        "bool": bool,
        "str": str,
        "bytes": bytes,
        "datetime": int,
    }
    if type_.length:
        fits = isinstance(value, list | tuple) and len(value) == type_.length
    elif type_.is_list:
        fits = isinstance(value, tuple)
    else:
        fits = isinstance(value, wanted[type_.base]) and (type_.base == "bool" or not isinstance(value, bool))
    if not fits:
        raise ProgramError(
            f"the default of {where} is {value!r}, its type is {type_}",
            **place(),
            remedy="give a default of that type",
        )
    return value


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
    if not 1 <= len(types) <= 4:
        raise ProgramError(
            f"the key of table {cls.__name__} has {len(types)} parts", **place(), remedy="use one to four parts"
        )
    return types, scalar


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
