"""Transaction groups of an app: several functions of one event that commit or abort together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from mainstem.declare import place
from mainstem.errors import ProgramError
from mainstem.lang.program import EVENT_ORDER, LEVELS, PROTOCOLS, Bound, Program


def check_level(isolation: str | None, protocol: str | None) -> None:
    """Names of an isolation level and of a protocol; None leaves it to whoever is around."""
    if isolation is not None and isolation not in LEVELS:
        raise ProgramError(
            f"there is no isolation level {isolation!r}", **place(), remedy=f"use one of {', '.join(LEVELS)}"
        )
    if protocol is not None and protocol not in PROTOCOLS:
        raise ProgramError(f"there is no protocol {protocol!r}", **place(), remedy=f"use one of {', '.join(PROTOCOLS)}")


def check_engine(
    functions: Sequence[Bound], engine: str, isolation: str | None, protocol: str | None, history: bool
) -> None:
    """An engine by name keeps event order: it goes with no weaker level, no protocol, and no history of one."""
    check_level(isolation, protocol)
    if engine == "auto":
        return
    if history:
        raise ProgramError(
            f"history=True, but engine={engine!r} has no protocol to record",
            remedy="drop engine=, and pass protocol='lock' or protocol='timestamp'",
        )
    if protocol in PROTOCOLS[1:]:
        raise ProgramError(
            f"engine={engine!r} and protocol={protocol!r}: transactions run with one of them",
            remedy="drop engine=, or drop protocol=",
        )
    for bound in functions:
        if (level := isolation or bound.isolation) != EVENT_ORDER:
            raise ProgramError(
                f"engine={engine!r} keeps event order, but {bound.transaction} runs at isolation {level}",
                remedy=f"drop engine=, or pass isolation={EVENT_ORDER!r}",
            )


def _check_name(name: Any) -> None:
    if name is not None and (not isinstance(name, str) or not name):
        raise ProgramError(f"a transaction group named {name!r}", **place(), remedy='pass a text: name="booking"')


def _found(functions: Sequence[Bound], wanted: Sequence[Callable[..., Any]]) -> list[Bound]:
    """What `app.transaction` names: each is bound, all of them to one event type."""
    bound: list[list[Bound]] = []
    for function in wanted:
        bound.append([b for b in functions if b.function is function])
        if not bound[-1]:
            name = getattr(function, "__name__", repr(function))
            raise ProgramError(
                f"function {name} of this transaction is bound to no event",
                **place(),
                remedy=f"write @app.on(EventType) above def {name}",
            )
    events = [{b.event for b in choices} for choices in bound]
    common = set.intersection(*events) if events else set()
    if bound and len(common) != 1:
        named = "; ".join(f"{choices[0].name} on {' and '.join(b.event for b in choices)}" for choices in bound)
        raise ProgramError(
            f"the functions of a transaction have one event type in common, but these are: {named}",
            **place(),
            remedy="group functions of one event type: with app.atomic(EventType): …",
        )
    return [next(b for b in choices if b.event in common) for choices in bound]


def _grouped(
    functions: Sequence[Bound], members: Sequence[Bound], name: str | None, isolation: str | None, protocol: str | None
) -> list[Bound]:
    """All functions of an app after these have become one group."""
    if not members:
        raise ProgramError(
            "a transaction group has no function", **place(), remedy="bind functions inside it with @app.on(EventType)"
        )
    for member in members:
        if member.group is not None:
            raise ProgramError(
                f"function {member.name} is in the transaction group {member.group!r} already",
                **place(),
                remedy="a function belongs to one group: list it there, or here",
            )
        if sum(m is member for m in members) > 1:
            raise ProgramError(f"function {member.name} is listed twice", **place(), remedy="list it once")
    ordered = [b for b in functions if any(b is m for m in members)]
    group = "+".join(b.name for b in ordered) if name is None else name
    event = ordered[0].event
    if any(b.transaction == group and b.event == event and b not in ordered for b in functions):
        raise ProgramError(
            f"{event} has a transaction {group!r} already", **place(), remedy="give the group another name="
        )
    made = {
        id(b): replace(b, group=group, isolation=isolation or b.isolation, protocol=protocol or b.protocol)
        for b in ordered
    }
    return [made.get(id(b), b) for b in functions]


class Groups(ABC):
    """The part of an app that declares transaction groups."""

    _functions: list[Bound]
    _atomic: str | None  # the event type of the group that is being declared
    _program: Program | None

    @abstractmethod
    def _event_name(self, event: Any, where: str) -> str:
        """The name of an event type that the app knows; `where` is for the error when it does not."""

    @contextmanager
    def atomic(
        self, event: Any, *, name: str | None = None, isolation: str | None = None, protocol: str | None = None
    ) -> Iterator[None]:
        """Functions bound inside are one transaction, in order: `with app.atomic(Transfer): …`.

        An abort in any of them undoes all. `name`: as outputs show it, else the names of the functions with a `+`
        between. `isolation`, `protocol`: those of the app when left out.
        """
        check_level(isolation, protocol)
        _check_name(name)
        if self._atomic is not None:
            raise ProgramError(
                f"app.atomic inside app.atomic({self._atomic})", **place(), remedy="end the first group before the next"
            )
        self._atomic, first = self._event_name(event, "app.atomic"), len(self._functions)
        try:
            yield
        finally:
            self._atomic = None
        self._functions = _grouped(self._functions, self._functions[first:], name, isolation, protocol)
        self._program = None

    def transaction(
        self, *functions: Callable[..., Any], name: str | None = None, isolation: str | None = None,
        protocol: str | None = None,
    ) -> None:  # fmt: skip
        """Makes functions that are bound already one transaction, like `atomic`; they run in declaration order."""
        check_level(isolation, protocol)
        _check_name(name)
        self._functions = _grouped(self._functions, _found(self._functions, functions), name, isolation, protocol)
        self._program = None
