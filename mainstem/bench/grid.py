"""The points at which strategies are compared: four applications, six knobs.

The knobs are those of MorphStream's evaluation. Each series turns one of them, the others keep their defaults: those
of MorphStream (θ 0.2, a 1 %, C 10 µs, r 2 and l 1 for GS). Crossings turn two. T is 10,240 where an event has little
work and less where it has much, so that a batch takes about a tenth of a second everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import ModuleType
from typing import Any

import pyarrow as pa

from mainstem import apps

APPS = {"GS": "grep_sum", "SL": "ledger_work", "OB": "bidding", "TP": "toll"}
"""Short names, as in the papers, of the apps."""

BATCHES_MIN = 2  # in a run: `auto` decides for each
EVENTS_MAX = 256_000  # in a run, unless a batch is larger: strategies that cost 5 µs per event must end, too
BASE_US = 0.3  # roughly what an event costs without any work

_WRITES: Mapping[str, Callable[[Point], float]] = {
    "GS": lambda point: 0.5 * (point.length or 1),  # the other half of the events sums up
    "SL": lambda point: 3.0,  # deposits write 2 rows, transfers 4
    "OB": lambda point: 0.75 + 0.25 * (point.length or 1),
    "TP": lambda point: 2.0,
}
"""Rows that an event writes on average, each with `cost` microseconds of work."""

_SHOWN: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "skew": ("θ", lambda value: f"{value:g}"),
    "abort": ("a", lambda value: f"{value:.0%}"),
    "cost": ("C", lambda value: f"{value:g} µs"),
    "length": ("l", str),
    "reads": ("r", str),
    "batch": ("T", lambda value: f"{value:,}"),
}
"""Knob -> its letter in the papers, and how a value is written."""

KNOBS = tuple(_SHOWN)
CROSSED = "crossed"
"""The name of the series that turn two knobs."""


@dataclass(frozen=True)
class Point:
    """A workload: an app (short name) and its knobs; None for knobs that the app does not have."""

    app: str
    skew: float = 0.2
    abort: float = 0.01
    cost: float = 10.0
    length: int | None = None
    reads: int | None = None
    batch: int = 10_240

    def __str__(self) -> str:
        return f"{self.app} {self.text(KNOBS)}"

    def text(self, knobs: Sequence[str]) -> str:
        """Some knobs as in the papers: `θ 0.2, a 1%`."""
        values = {knob: getattr(self, knob) for knob in knobs}
        return ", ".join(f"{_SHOWN[k][0]} {_SHOWN[k][1](value)}" for k, value in values.items() if value is not None)

    @property
    def module(self) -> ModuleType:
        return apps.load(APPS[self.app])

    @property
    def work_us(self) -> float:
        """Microseconds that an event is expected to take on one core."""
        return BASE_US + _WRITES[self.app](self) * self.cost * (1 - self.abort)

    def events(self, seconds: float) -> int:
        """Whole batches that take about so many seconds on one core."""
        wanted = min(EVENTS_MAX, seconds * 1e6 / self.work_us)
        return self.batch * max(BATCHES_MIN, int(wanted // self.batch))

    def generate(self, events: int, seed: int) -> pa.Table:
        knobs = {knob: getattr(self, knob) for knob in KNOBS if knob != "batch" and getattr(self, knob) is not None}
        return self.module.generate(events, seed=seed, **knobs)


@dataclass(frozen=True)
class Series:
    """Points of one app that differ in one knob (`vary`), or in two (`crossed`)."""

    app: str
    vary: str
    points: tuple[Point, ...]

    @property
    def turned(self) -> list[str]:
        """The knobs that differ."""
        return [knob for knob in KNOBS if len({getattr(point, knob) for point in self.points}) > 1]

    @property
    def title(self) -> str:
        letters = " and ".join(_SHOWN[knob][0] for knob in self.turned)
        rest = self.points[0].text([knob for knob in KNOBS if knob not in self.turned])
        return f"{self.app} ({APPS[self.app]}), {letters or 'one point'}; {rest}"


DEFAULTS = {
    "GS": Point("GS", length=1, reads=2),
    "SL": Point("SL", batch=5_120),
    "OB": Point("OB", length=20, batch=2_560),
    "TP": Point("TP", batch=5_120),
}


def _series(app: str, vary: str, *changes: Any, **others: Any) -> Series:
    """`changes` are values of `vary`, or dicts where more has to change with it."""
    base = replace(DEFAULTS[app], **others)
    points = (replace(base, **(change if isinstance(change, dict) else {vary: change})) for change in changes)
    return Series(app, vary, tuple(points))


def _crossings(app: str, *changes: dict[str, float]) -> Series:
    return Series(app, CROSSED, tuple(replace(DEFAULTS[app], **change) for change in changes))  # type: ignore[arg-type]


SERIES: tuple[Series, ...] = (
    _series("GS", "skew", 0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    _series("GS", "abort", 0.0, 0.01, 0.1, 0.3, 0.6, 0.9),
    _series("GS", "cost", 0.0, 1.0, 5.0, 10.0, 20.0, 50.0, {"cost": 100.0, "batch": 2_560}),
    _series("GS", "length", 1, 2, 4, 7, 10, batch=2_560),
    _series("GS", "reads", 1, 2, 4, 7, 10),
    _series("GS", "batch", 500, 2_000, 10_240, 40_000, 80_000),
    _crossings("GS", *({"skew": skew, "cost": cost} for skew in (0.6, 1.0) for cost in (0.0, 1.0, 20.0))),
    _crossings("GS", *({"abort": abort, "cost": cost} for abort in (0.3, 0.9) for cost in (0.0, 1.0, 20.0))),
    _series("SL", "skew", 0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    _series("SL", "abort", 0.0, 0.01, 0.3, 0.9),
    _series("SL", "cost", 0.0, 1.0, 10.0, {"cost": 100.0, "batch": 512}),
    _series("SL", "batch", 500, 2_000, 5_120, 10_240, {"batch": 40_000, "cost": 1.0}),
    _crossings("SL", {"skew": 1.0, "cost": 0.0}, {"skew": 1.0, "cost": 1.0}, {"abort": 0.6, "cost": 0.0}),
    _series("OB", "skew", 0.0, 0.2, 0.6, 1.0),
    _series("OB", "abort", 0.0, 0.01, 0.3, 0.9),
    _series("OB", "cost", 0.0, 1.0, 10.0, {"cost": 100.0, "batch": 256}),
    _series("OB", "length", 1, 5, 10, 20),
    _series("OB", "batch", 500, 2_560, 5_120),
    _series("TP", "skew", 0.0, 0.2, 0.6, 1.0),
    _series("TP", "abort", 0.0, 0.01, 0.3, 0.9),
    _series("TP", "cost", 0.0, 1.0, 10.0, {"cost": 100.0, "batch": 1_024}),
    _series("TP", "batch", 500, 2_000, 5_120, 10_240, {"batch": 40_000, "cost": 1.0}),
    _crossings("TP", {"skew": 1.0, "cost": 0.0}, {"abort": 0.6, "cost": 0.0}),
)

QUICK_STRIDE = 5  # a quick run takes every fifth point


def selected(apps_wanted: Sequence[str] = (), vary: Sequence[str] = ()) -> list[Series]:
    """The series of some apps and some knobs; nothing named: all."""
    return [s for s in SERIES if (not apps_wanted or s.app in apps_wanted) and (not vary or s.vary in vary)]


def points_of(series: Sequence[Series]) -> list[Point]:
    """Every point once: the defaults are in many series."""
    return list(dict.fromkeys(chain.from_iterable(s.points for s in series)))


def thinned(series: Sequence[Series], stride: int = QUICK_STRIDE) -> list[Series]:
    """The same series with only every `stride`-th of all points."""
    kept = set(points_of(series)[::stride])
    thin = [replace(s, points=tuple(point for point in s.points if point in kept)) for s in series]
    return [s for s in thin if s.points]
