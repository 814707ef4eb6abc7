"""A row's key in a path: `rows/42`, `rows/ann%2Fbob`, `rows/north/7` for a key of two parts.

Every part is one segment of the path. Integers are decimal, text is UTF-8, bytes are themselves, times are ISO 8601;
all percent-encoded. An encoded `/` belongs to its part, since paths are cut before they are decoded.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from mainstem.schema import INT64_MAX, INT64_MIN, TableSchema, Type
from mainstem.serve.message import Problem

_INTEGER = re.compile(rb"[+-]?[0-9]{1,20}")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def decode(part: bytes, what: str) -> bytes:
    """The bytes of a percent-encoded part of a path or query; `what` names it in the problem."""
    if b"%" not in part:
        return part
    if _BAD_ESCAPE.search(part):
        raise Problem(400, f"{what} has a % without two hexadecimal digits; write %25 for the sign itself")
    return unquote_to_bytes(part)


def decode_text(part: bytes, what: str) -> str:
    try:
        return decode(part, what).decode("utf-8")
    except UnicodeDecodeError:
        raise Problem(400, f"{what} is not UTF-8") from None


def parse_key(schema: TableSchema, parts: Sequence[bytes]) -> Any:
    """The key that segments of a path stand for."""
    if len(parts) != len(schema.key):
        kinds = "/".join(f"{{{type_}}}" for type_ in schema.key)
        raise Problem(400, f"a key of {schema.name} is rows/{kinds}, found {len(parts)} part(s)")
    values = tuple(
        _parse_part(part, type_, f"{schema.name}.{name}")
        for part, type_, name in zip(parts, schema.key, schema.key_columns, strict=True)
    )
    return values[0] if schema.scalar_key else values


def _parse_part(part: bytes, type_: Type, what: str) -> Any:
    if type_.base == "int":
        return _parse_int(part, what)
    if type_.base == "str":
        return decode_text(part, what)
    if type_.base == "bytes":
        return decode(part, what)
    return _parse_time(decode_text(part, what), what)


def _parse_int(part: bytes, what: str) -> int:
    text = decode(part, what)
    value = int(text) if _INTEGER.fullmatch(text) else None
    if value is None or not INT64_MIN <= value <= INT64_MAX:
        raise Problem(400, f"{what} is a 64-bit integer, found {text.decode('utf-8', 'replace')[:60]!r}")
    return value


def _parse_time(text: str, what: str) -> datetime.datetime:
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise Problem(400, f"{what} is a time like 2026-01-31T12:00:00, found {text[:60]!r}") from None
    if found.tzinfo is not None:
        return found.astimezone(datetime.UTC).replace(tzinfo=None)  # tables keep times in UTC
    return found
