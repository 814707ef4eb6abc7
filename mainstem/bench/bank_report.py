"""What the `bank` benchmark prints, and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mainstem.bench.bank_compare import COMPARED, TARGETS, compared
from mainstem.bench.bank_figures import Chart, Measured, Results
from mainstem.bench.bank_paper import SETTING
from mainstem.bench.bank_peers import PeerFigure
from mainstem.bench.report import machine, print_targets, short, verdict, write_json

_RETRIES_SHOWN = 0.005  # per transfer; fewer are not worth a bracket


def print_results(results: Results, console: Console) -> None:
    if results.rows:
        console.print(_table1(results))
    if results.peers:
        console.print(_peers(results))
    for system, what in results.missing.items():
        console.print(f"{system}: [yellow]not installed[/]: {what.replace(chr(10), ';')}")
    for chart in results.charts:
        _print_chart(chart, console)
    if results.targets:
        print_targets(results.targets, console)
    for note in (*results.notes, SETTING):
        console.print(note, style="dim")
    verdict(console, results.disagreements)


def _table1(results: Results) -> Table:
    table = Table(title="Table 1: transfers between 100,000 accounts", title_justify="left")
    table.add_column("")
    for heading in ("sustained transfers/s", "one alone, ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for row in results.rows:
        table.add_row(row.system, f"{row.rate:,.0f}", f"{row.latency * 1e3:.3g}", row.note)
    return table


def _peers(results: Results) -> Table:
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    table = Table(title=f"The same transfers, 1 % abort; {versions}", title_justify="left")
    for heading in ("", "way", "setting", "a power cut finds it"):
        table.add_column(heading)
    for heading in ("transfers/s", "answer after, ms", f"{COMPARED} is … × as fast"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("state digest", no_wrap=True)
    for figure in results.peers:
        config = figure.config
        latency = "" if figure.latency is None else f"{figure.latency * 1e3:.3g}"
        cells = (config.system, config.way, config.setting, config.durable, f"{figure.rate:,.0f}", latency)
        table.add_row(*cells, _ratio(figure, results), figure.digest)
    for system in results.missing:
        table.add_row(system, "not installed")
    return table


def _ratio(figure: PeerFigure, results: Results) -> str:
    own, bound = compared(results), TARGETS.get(figure.config.system)
    if own is None:
        return ""
    ratio = own.rate / figure.rate
    if bound is None or figure.config.upper_bound:
        return f"{ratio:,.2f}"
    color = "green" if ratio >= bound else "red"
    return f"[{color}]{ratio:,.1f}[/] (≥ {bound:g})"


def _print_chart(chart: Chart, console: Console) -> None:
    table = Table(title=f"{chart.title}: {chart.unit}", title_justify="left")
    table.add_column(chart.x)
    with_latency = {x for points in chart.lines.values() for x, point in points.items() if point.latency is not None}
    for x in chart.xs:
        table.add_column(_x(x), justify="right", no_wrap=True)
        if x in with_latency:
            table.add_column("one alone, ms", justify="right", no_wrap=True)
    for line, points in chart.lines.items():
        table.add_row(line, *(c for x in chart.xs for c in _cells(points.get(x), chart.unit, x in with_latency)))
    console.print(table)
    console.print(chart.paper, style="italic")


def _cells(point: Measured | None, unit: str, with_latency: bool) -> Iterator[str]:
    yield "" if point is None else _value(point, unit)
    if with_latency:
        yield "" if point is None or point.latency is None else f"{point.latency * 1e3:.3g}"


def _value(point: Measured, unit: str) -> str:
    if unit == "s":
        return f"{point.rate:.3f}"
    text = short(point.rate) if point.rate >= 1_000 else f"{point.rate:.3g}"
    return text + (f" ({point.retries:.0%} retried)" if point.retries >= _RETRIES_SHOWN else "")


def _x(x: float | str) -> str:
    return x if isinstance(x, str) else f"{x:,.10g}"


def write(results: Results, path: Path) -> None:
    write_json(path, as_json(results))


def as_json(results: Results) -> dict[str, Any]:
    own = compared(results)
    return {
        "title": "bank",
        "machine": machine(),
        "settings": {"accounts": results.options.accounts, "threads": results.options.threads},
        "table1": [vars(row) for row in results.rows],
        "peers": [
            vars(figure.config)
            | {"rate": figure.rate, "latency": figure.latency, "digest": figure.digest, "counts": figure.counts}
            | {"ratio": own.rate / figure.rate if own is not None else None}
            for figure in results.peers
        ],
        "versions": results.versions,
        "not_installed": results.missing,
        "charts": [chart.as_json() for chart in results.charts],
        "targets": [vars(target) | {"met": target.met} for target in results.targets],
        "notes": results.notes,
        "disagreements": results.disagreements,
    }
