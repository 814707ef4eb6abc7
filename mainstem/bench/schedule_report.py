"""What the `schedule` benchmark prints, and the same as JSON."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mainstem.bench.engines import AUTO, NOLOCK, WAYS
from mainstem.bench.grid import KNOBS, Series
from mainstem.bench.report import machine, short, verdict, write_json
from mainstem.bench.schedule import Goal, Measured, Results

FEWER = "~"
"""Marks a figure that was measured on the first batches only."""

LEGEND = (
    f"events/s, best run; in brackets what a strategy loses against {NOLOCK}, which gives wrong results: a bound. "
    f"{FEWER}: hopeless at first sight, measured on the first batches only. "
    "Regret and × serial are of turns that the best, auto and serial took once more when the best was known. "
    "Plain threads: loops that share nothing, all threads against one, measured beside: the machine's own bound."
)


def print_results(results: Results, console: Console) -> None:
    for series in results.series:
        if any(point in results.measured for point in series.points):
            console.print(_rates(series, results))
    console.print(LEGEND, style="dim")
    console.print(_choices(results))
    console.print(_strategies(results))
    console.print(_goals(results.goals))
    for goal in results.goals:
        for miss in goal.misses:
            console.print(f"[red]missed[/] {goal.what}: {miss}")
    for note in results.notes:
        console.print(note, style="dim")
    wrong = sum(m.nolock_differs for m in results.measured.values())
    console.print(f"{NOLOCK} ended in a wrong state or wrong outputs at {wrong} of {len(results.measured)} points.")
    verdict(console, results.disagreements)


def _rates(series: Series, results: Results) -> Table:
    """A row per strategy, a column per point."""
    columns = [results.measured[point] for point in series.points if point in results.measured]
    table = Table(title=series.title, title_justify="left")
    table.add_column("", no_wrap=True)
    for found in columns:
        table.add_column(found.point.text(series.turned) or "default", justify="right")
    for label in columns[0].figures:
        table.add_row(label, *(_rate(found, label) for found in columns), end_section=label == list(WAYS)[-2])
    table.add_row("auto chose", *(found.choice.engine for found in columns))
    table.add_row("regret", *(_percent(found.regret) for found in columns))
    table.add_row("× serial", *(f"{found.of_serial:.2f}" for found in columns))
    table.add_row("plain threads ×", *(f"{found.plain:.2f}" for found in columns))
    return table


def _rate(found: Measured, label: str) -> str:
    mark = FEWER if label in found.fewer else ""
    loss = found.loss(label)
    text = f"{mark}{short(found.rates[label])}"
    text = text if loss is None or label == NOLOCK else f"{text} ({-loss:+.0%})"
    return f"[bold]{text}[/]" if label == found.best else text


def _choices(results: Results) -> Table:
    """A row per point: what `auto` did, why, and what it was worth."""
    table = Table(title="auto at every point", title_justify="left")
    table.add_column("point")
    table.add_column("best safe strategy")
    table.add_column("auto chose")
    for heading in ("auto ev/s", "regret", "× serial", "plain threads"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("state digest", no_wrap=True)
    table.add_column(NOLOCK, no_wrap=True)
    table.add_column("why", ratio=1)
    for found in results.measured.values():
        table.add_row(
            str(found.point),
            f"{found.best}, {short(found.rematch[found.best].best)}",
            str(found.choice),
            short(found.rematch[AUTO].best),
            _percent(found.regret),
            f"{found.of_serial:.2f}",
            f"{found.plain:.2f}",
            found.digest if not found.disagreements else "[bold red]differs[/]",
            "differs" if found.nolock_differs else "the same",
            found.choice.why,
        )
    return table


def _strategies(results: Results) -> Table:
    """A row per strategy: over all points."""
    found = list(results.measured.values())
    table = Table(title="Strategies over all points", title_justify="left")
    table.add_column("", no_wrap=True)
    for heading in ("best at", f"median loss to {NOLOCK}", f"largest loss to {NOLOCK}", "median of the best"):
        table.add_column(heading, justify="right")
    for label in found[0].figures:
        losses = [loss for m in found if (loss := m.loss(label)) is not None and label != NOLOCK]
        median, most = (_percent(statistics.median(losses)), _percent(max(losses))) if losses else ("", "")
        share = statistics.median(m.rates[label] / m.rates[m.best] for m in found)
        table.add_row(label, str(sum(m.best == label for m in found)), median, most, _percent(share))
    return table


def _goals(goals: list[Goal]) -> Table:
    table = Table(title="Targets", title_justify="left")
    table.add_column("")
    for heading in ("points", "met", "missed"):
        table.add_column(heading, justify="right")
    for goal in goals:
        missed = len(goal.misses)
        mark = f"[red]{missed}[/]" if missed else "[green]0[/]"
        table.add_row(goal.what, str(goal.points), str(goal.points - missed), mark)
    return table


def _percent(share: float) -> str:
    return f"{share:.1%}"


def as_json(results: Results) -> dict[str, Any]:
    return {
        "title": "schedule",
        "machine": machine(),
        "points": [_point(found) for found in results.measured.values()],
        "targets": [{"what": goal.what, "points": goal.points, "misses": goal.misses} for goal in results.goals],
        "regret_median": results.regret_median,
        "notes": results.notes,
        "disagreements": results.disagreements,
    }


def _point(found: Measured) -> dict[str, Any]:
    return {
        "app": found.point.app,
        **{knob: getattr(found.point, knob) for knob in KNOBS},
        "strategies": {
            label: {
                "events": figure.events,
                "events_per_s_best": figure.best,
                "events_per_s_median": figure.median,
                "seconds": [taken.seconds for taken in figure.times],
                "loss_to_nolock": found.loss(label),
                "fewer_events": label in found.fewer,
                "safe": WAYS[label].safe,
                "state_digest": figure.ending.state,
                "outputs_digest": figure.ending.outputs,
            }
            for label, figure in found.figures.items()
        },
        "best": found.best,
        "rematch": {label: [taken.seconds for taken in figure.times] for label, figure in found.rematch.items()},
        "choice": vars(found.choice),
        "regret": found.regret,
        "of_serial": found.of_serial,
        "plain_threads": found.plain,
        "nolock_differs": found.nolock_differs,
        "seconds": found.seconds,
    }


def write(results: Results, path: Path) -> None:
    write_json(path, as_json(results))
