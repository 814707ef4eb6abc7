"""What the benchmark prints, and the same as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mainstem.bench.measure import Figure, disagreements


def machine() -> dict[str, Any]:
    """What figures depend on."""
    return {"cores": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()}


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def short(rate: float) -> str:
    """Three digits: `1.23 M`, `456 k`."""
    if rate >= 999_500:
        return f"{rate / 1e6:#.3g} M".replace(". M", " M")
    return f"{rate / 1e3:#.3g} k".replace(". k", " k")


def verdict(console: Console, lines: list[str]) -> None:
    """The digests that do not agree, or that all do."""
    for line in lines:
        console.print(f"[bold red]digests differ:[/] {line}")
    if not lines:
        console.print("[green]All digests agree.[/]")


@dataclass(frozen=True)
class Target:
    """A value that has to reach a bound."""

    what: str
    value: float
    bound: float

    @property
    def met(self) -> bool:
        return self.value >= self.bound


def print_targets(targets: Sequence[Target], console: Console) -> None:
    table = Table(title="Targets", title_justify="left")
    table.add_column("")
    for heading in ("measured", "target"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for target in targets:
        mark = "[green]met[/]" if target.met else "[red]missed[/]"
        table.add_row(target.what, f"{target.value:,.2f}", f"{target.bound:,.2f}", mark)
    console.print(table)


@dataclass(frozen=True)
class Peak:
    """Peak resident memory, in bytes by role, while a log of so many events was replayed."""

    events: int
    bytes: dict[str, int]
    state: int = 0  # bytes of the tables themselves at the end, in the memory of workers


@dataclass
class Report:
    title: str
    figures: list[Figure] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    peaks: list[Peak] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def disagreements(self) -> list[str]:
        return disagreements(self.figures)

    def as_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "machine": machine(),
            "figures": [
                {
                    "name": figure.name,
                    "events": figure.events,
                    "events_per_s_best": figure.best,
                    "events_per_s_median": figure.median,
                    "seconds": [taken.seconds for taken in figure.times],
                    "cpu_seconds": [taken.cpu_seconds for taken in figure.times],
                    "state_digest": figure.ending.state,
                    "outputs_digest": figure.ending.outputs,
                }
                for figure in self.figures
            ],
            "targets": [vars(target) | {"met": target.met} for target in self.targets],
            "peak_bytes": [vars(peak) for peak in self.peaks],
            "notes": self.notes,
            "disagreements": self.disagreements,
        }

    def write(self, path: Path) -> None:
        write_json(path, self.as_json())

    def print(self, console: Console) -> None:
        console.print(self._figures())
        if self.targets:
            print_targets(self.targets, console)
        if self.peaks:
            console.print(self._peaks())
        for note in self.notes:
            console.print(note, style="dim")
        verdict(console, self.disagreements)

    def _figures(self) -> Table:
        table = Table(title=self.title, title_justify="left")
        table.add_column("", no_wrap=True)
        for heading in ("events", "runs", "best ev/s", "median ev/s"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("state digest", no_wrap=True)
        table.add_column("outputs digest", no_wrap=True)
        for f in self.figures:
            rates = (_millions(f.best), _millions(f.median))
            table.add_row(f.name, f"{f.events:,}", str(len(f.times)), *rates, f.ending.state, f.ending.outputs)
        return table

    def _peaks(self) -> Table:
        table = Table(title="Peak memory of a replay (MB resident)", title_justify="left")
        table.add_column("events", justify="right")
        roles = sorted({role for peak in self.peaks for role in peak.bytes})
        for role in roles:
            table.add_column(role, justify="right")
        for peak in self.peaks:
            table.add_row(f"{peak.events:,}", *(f"{peak.bytes.get(role, 0) / 1e6:,.0f}" for role in roles))
        return table


def _millions(rate: float) -> str:
    return f"{rate / 1e6:,.2f} M"
