"""How to run a batch: the options of `app.run` that choose a strategy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mainstem.errors import ProgramError
from mainstem.lang.program import EVENT_ORDER, PROTOCOLS

CHOICES = {
    "explore": ("ns", "bfs", "dfs"),
    "unit": ("op", "group"),
    "abort": ("eager", "lazy"),
    "sharing": ("nothing", "everything"),
}
"""Options that take one of a few words; the first is the default."""

_OF_ENGINE = {
    "tpg": ("explore", "unit", "abort"),
    "chains": ("sharing",),
    "pat": ("partitions",),
    "nested": ("groups",),
}
_GROUPS_REMEDY = 'pass groups={("deposit",): "components", ("transfer",): {"engine": "tpg", "explore": "ns"}}'
HOT, COLD = "hot keys", "cold keys"
"""Groups of a nested strategy by how contended keys are, instead of names of functions."""

PARALLEL = ("inflight", "lock", "mvlk", "pat", "nolock", "chains", "tpg", "components", "nested")
ENGINES = ("auto", "serial", *PARALLEL, "interpreted", "oracle")
"""What `app.run(engine=…)` takes."""

PROTOCOL_ENGINES = {"lock": "locked", "timestamp": "stamped"}
"""Strategies behind `protocol=…`. They are no engines of `app.run`: what they give depends on the isolation level."""


@dataclass(frozen=True)
class Strategy:
    """One way to run a batch. Unset options take their defaults."""

    engine: str
    explore: str = "ns"
    unit: str = "op"
    abort: str = "eager"
    sharing: str = "nothing"
    partitions: int = 0  # 0: several per thread
    groups: tuple[tuple[tuple[str, ...], Strategy], ...] = field(default=())
    isolation: str = EVENT_ORDER
    record: bool = False  # keep what is needed to write the history down
    group_of: tuple[int, ...] = ()  # of each function, when groups are given by isolation levels

    @cached_property
    def label(self) -> str:
        """As statistics show it: `tpg(dfs, op, lazy)`, `PL3(lock)`. `auto` asks for labels many times per batch."""
        for protocol, engine in PROTOCOL_ENGINES.items():
            if self.engine == engine:
                return f"{self.isolation}({protocol})"
        if self.engine in ("nested", "levels"):
            inner = "; ".join(f"{', '.join(names)}: {strategy.label}" for names, strategy in self.groups)
            return f"{self.engine}({inner})"
        shown = [str(getattr(self, name)) for name in _OF_ENGINE.get(self.engine, ()) if name != "partitions"]
        return f"{self.engine}({', '.join(shown)})" if shown else self.engine


SERIAL, INFLIGHT = Strategy("serial"), Strategy("inflight")
SAFE = (
    Strategy("components"),
    Strategy("mvlk"),
    INFLIGHT,
    Strategy("lock"),
    Strategy("pat"),
    *(Strategy("chains", sharing=sharing) for sharing in CHOICES["sharing"]),
    *(
        Strategy("tpg", explore=explore, unit=unit, abort=abort)
        for explore in CHOICES["explore"]
        for unit in CHOICES["unit"]
        for abort in CHOICES["abort"]
    ),
)
"""Every parallel strategy that gives the serial result."""


def strategy_of(engine: str, **options: Any) -> Strategy:
    """Checks names and values; an option that the engine does not have is an error, not ignored."""
    if engine not in ENGINES:
        raise ProgramError(f"there is no engine {engine!r}", remedy=f"use one of {', '.join(ENGINES)}")
    given = {name: value for name, value in options.items() if value is not None}
    allowed = _OF_ENGINE.get(engine, ())
    for name in given:
        if name not in allowed:
            takers = [e for e, names in _OF_ENGINE.items() if name in names]
            raise ProgramError(
                f"engine {engine!r} has no option {name!r}",
                remedy=f"drop it, or use engine={' or '.join(repr(t) for t in takers)}" if takers else "drop it",
            )
    for name, words in CHOICES.items():
        if name in given and given[name] not in words:
            raise ProgramError(f"{name}={given[name]!r} is unknown", remedy=f"use one of {', '.join(words)}")
    if "partitions" in given and (not isinstance(given["partitions"], int) or given["partitions"] < 1):
        raise ProgramError(f"partitions={given['partitions']!r}", remedy="pass a positive number")
    if engine == "nested":
        given["groups"] = _groups(given.get("groups"))
    return Strategy(engine, **given)


def check_threads(threads: int | None) -> None:
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise ProgramError(f"threads={threads!r}", remedy="pass a positive number, or leave it out to use all cores")


def _groups(groups: Any) -> tuple[tuple[tuple[str, ...], Strategy], ...]:
    """`{("deposit",): "components", ("transfer",): {"engine": "tpg", "explore": "ns"}}` to strategies."""
    if not isinstance(groups, Mapping) or not groups:
        raise ProgramError("engine='nested' needs groups of functions", remedy=_GROUPS_REMEDY)
    found, seen = [], set()
    for names, how in groups.items():
        members = tuple(names) if isinstance(names, tuple | frozenset) else (names,)
        for name in members:
            if not isinstance(name, str):
                raise ProgramError(f"groups= has {names!r} where names of functions stand", remedy=_GROUPS_REMEDY)
            if name in seen:
                raise ProgramError(f"function {name!r} is in two groups", remedy="name it once")
            seen.add(name)
        inner = _of_group(names, how)
        if inner.engine not in ("serial", *PARALLEL) or inner.engine == "nested":
            raise ProgramError(
                f"a group can't run with engine {inner.engine!r}", remedy="choose serial or a parallel one"
            )
        found.append((members, inner))
    if seen & {HOT, COLD} and (seen != {HOT, COLD} or len(found) != 2):
        raise ProgramError(
            f"groups by keys are {HOT!r} and {COLD!r}, nothing else",
            remedy=f'pass groups={{"{HOT}": "tpg", "{COLD}": "components"}}',
        )
    return tuple(found)


def _of_group(names: Any, how: Any) -> Strategy:
    """The strategy of one group: a name, or a mapping with `engine` and its options."""
    options = {"engine": how} if isinstance(how, str) else how
    if not isinstance(options, Mapping) or not isinstance(options.get("engine"), str):
        raise ProgramError(f"group {names!r} has {how!r} where an engine stands", remedy=_GROUPS_REMEDY)
    for name in options:
        if not isinstance(name, str):
            raise ProgramError(f"group {names!r} has an option {name!r}", remedy=_GROUPS_REMEDY)
    return strategy_of(**options)


def check_functions(strategy: Strategy, functions: Collection[str]) -> None:
    """Groups of a nested strategy name functions of the program, or keys."""
    for names, _ in strategy.groups:
        for name in names:
            if name not in functions and name not in (HOT, COLD):
                raise ProgramError(
                    f"groups= names {name!r}, but there is no function {name!r}",
                    remedy=f"use the names of functions: {', '.join(functions)}",
                )


@dataclass(frozen=True)
class Level:
    """How transactions of a function are kept apart."""

    isolation: str = EVENT_ORDER
    protocol: str = PROTOCOLS[0]

    @property
    def in_order(self) -> bool:
        """Event order, however the engine gets it."""
        return self.isolation == EVENT_ORDER and self.protocol == "auto"

    def __str__(self) -> str:
        return f"{self.isolation}({self.protocol})"
