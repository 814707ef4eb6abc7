"""What a request asks for: its query string and its JSON body, checked."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NoReturn

from mainstem.schema import INT64_MAX, INT64_MIN
from mainstem.serve.keys import decode_text
from mainstem.serve.limits import Limits
from mainstem.serve.message import ARROW_STREAM, Problem, Request

VERSION = ("batch", "ts")
SCAN = ("where", "columns", "limit")


@dataclass(frozen=True)
class Version:
    """Which state is asked for: the last one, or that after an epoch or a timestamp."""

    batch: int | None = None
    ts: int | None = None

    @property
    def last(self) -> bool:
        return self.batch is None and self.ts is None


@dataclass(frozen=True)
class Scan:
    where: str | None
    columns: list[str] | None
    limit: int


@dataclass(frozen=True)
class Statement:
    query: str
    params: list[Any] | dict[str, Any] | None
    limit: int


def parameters(request: Request, known: Collection[str]) -> dict[str, str]:
    """The query string by name. A name that means nothing is refused, since it was meant to mean something."""
    found: dict[str, str] = {}
    for pair in request.query.split(b"&") if request.query else ():
        name, _, value = pair.replace(b"+", b" ").partition(b"=")
        text = decode_text(name, "a parameter's name")
        if text not in known:
            names = ", ".join(known) or "none"
            raise Problem(400, f"unknown parameter {text[:60]!r}; there are: {names}")
        if text in found:
            raise Problem(400, f"parameter {text} is given twice")
        found[text] = decode_text(value, f"parameter {text}")
    return found


def version(given: dict[str, str]) -> Version:
    if "batch" in given and "ts" in given:
        raise Problem(400, "give batch or ts, not both")
    batch, ts = given.get("batch"), given.get("ts")
    return Version(
        None if batch is None else integer(batch, "batch", at_least=0),
        None if ts is None else integer(ts, "ts"),
    )


def scan_by_query(given: dict[str, str], limits: Limits) -> Scan:
    columns = given["columns"].split(",") if "columns" in given else None
    limit = integer(given["limit"], "limit", at_least=0) if "limit" in given else None
    return Scan(given.get("where"), columns, _limit(limit, limits))


def scan_by_body(request: Request, limits: Limits) -> Scan:
    given = body(request, SCAN)
    where, columns = given.get("where"), given.get("columns")
    if where is not None:
        _check_text(where, "where")
        _check_length(where, "where", limits)
    if columns is not None:
        if not isinstance(columns, list):
            raise Problem(400, f"columns is a list of names, found {_brief(columns)}")
        for name in columns:
            _check_text(name, "a name in columns")
    return Scan(where, columns, _limit(given.get("limit"), limits))


def statement(request: Request, limits: Limits) -> Statement:
    given = body(request, ("query", "params", "limit"))
    if "query" not in given:
        raise Problem(400, 'the body has no "query"; write {"query": "select …"}')
    _check_text(given["query"], "query")
    _check_length(given["query"], "query", limits)
    params = given.get("params")
    if params is not None and not isinstance(params, (list, dict)):
        raise Problem(400, f"params is a list (for ?) or an object (for $name), found {_brief(params)}")
    values = list(params.values()) if isinstance(params, dict) else params or []
    for value in values:
        if not isinstance(value, (str, int, float, bool, type(None))):
            raise Problem(400, f"a value of params is text, a number, true, false or null, found {_brief(value)}")
        if isinstance(value, str):
            _check_text(value, "a value of params")
    return Statement(given["query"], params, _limit(given.get("limit"), limits))


def body(request: Request, known: Collection[str]) -> dict[str, Any]:
    """The body, which must be a JSON object with these names."""
    try:
        found = json.loads(request.body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Problem(400, f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Problem(400, f"the body is a JSON object, found {_brief(found)}")
    for name in found:
        if name not in known:
            raise Problem(400, f"unknown name {name[:60]!r} in the body; there are: {', '.join(known)}")
    return found


def integer(text: str, what: str, *, at_least: int = INT64_MIN) -> int:
    digits = text.removeprefix("-")
    value = int(text) if len(digits) < 20 and digits.isascii() and digits.isdigit() else None
    if value is None or not max(at_least, INT64_MIN) <= value <= INT64_MAX:
        bound = f", at least {at_least}" if at_least > INT64_MIN else ""
        raise Problem(400, f"{what} is a whole number{bound}; found {text[:60]!r}")
    return value


def number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise Problem(400, f"{what} is a number, at least 0; found {text[:60]!r}")
    return value


def wants_arrow(request: Request) -> bool:
    """Whether the client prefers Arrow to JSON."""
    accept = request.headers.get(b"accept", b"").lower()
    if ARROW_STREAM not in accept:
        return False
    weights: dict[bytes, float] = {}
    for option in accept.split(b","):
        kind, *settings = option.split(b";")
        weights[kind.strip()] = next((_weight(s) for s in settings if s.strip().startswith(b"q=")), 1.0)
    return weights.get(ARROW_STREAM, 0.0) > 0 and weights[ARROW_STREAM] >= weights.get(b"application/json", 0.0)


def _weight(setting: bytes) -> float:
    try:
        return float(setting.strip()[2:])
    except ValueError:
        return 0.0


def _limit(value: Any, limits: Limits) -> int:
    if value is None:
        return limits.rows
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Problem(400, f"limit is a whole number, at least 0; found {_brief(value)}")
    return min(value, limits.rows)


def _check_text(value: Any, what: str) -> None:
    if not isinstance(value, str):
        raise Problem(400, f"{what} is text, found {_brief(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Problem(400, f"{what} has half a surrogate pair, which is no text") from None


def _check_length(value: str, what: str, limits: Limits) -> None:
    if len(value) > limits.query_letters:
        raise Problem(413, f"{what} may have {limits.query_letters} letters; give long lists of values as params")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _brief(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "a truth value", type(None): "null"}
    return kinds.get(type(value), f"the number {str(value)[:60]}")
