"""What the `bank` benchmark finds: a chart per figure of TSpoon's evaluation, and what did not end as it must."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mainstem.bench.bank_options import Options
from mainstem.bench.bank_peers import PeerFigure
from mainstem.bench.report import Target

TRANSFERS = "transfers/s"


@dataclass(frozen=True)
class Measured:
    """One point of a chart."""

    rate: float  # per second, of the fastest run
    latency: float | None = None  # seconds for one alone, the median
    retries: float = 0.0  # executions that were given up for isolation, per transfer


@dataclass
class Chart:
    """Lines over what is varied, as in one figure."""

    part: str
    title: str
    x: str
    paper: str  # what TSpoon's figure says
    unit: str = TRANSFERS
    lines: dict[str, dict[float | str, Measured]] = field(default_factory=dict)

    def add(self, line: str, x: float | str, measured: Measured) -> None:
        self.lines.setdefault(line, {})[x] = measured

    @property
    def xs(self) -> list[float | str]:
        return list(dict.fromkeys(x for points in self.lines.values() for x in points))

    def as_json(self) -> dict[str, Any]:
        lines = {name: [{"x": x, **vars(point)} for x, point in points.items()] for name, points in self.lines.items()}
        about = {"part": self.part, "title": self.title, "x": self.x, "unit": self.unit, "paper": self.paper}
        return {**about, "lines": lines}


@dataclass(frozen=True)
class Row:
    """A row of table 1: who, the largest rate that is sustained, and seconds for one transfer alone."""

    system: str
    rate: float
    latency: float
    note: str = ""


@dataclass
class Results:
    options: Options
    rows: list[Row] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    peers: list[PeerFigure] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # system: what to install
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def disagreements(self) -> list[str]:
        return [*self.wrong, *(line for figure in self.peers for line in figure.wrong)]
