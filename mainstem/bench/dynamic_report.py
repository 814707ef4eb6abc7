"""What the `dynamic` benchmark prints, and the same as JSON."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mainstem.apps.workloads.dynamic import PHASES
from mainstem.bench.dynamic import Results
from mainstem.bench.engines import AUTO, NOLOCK, SERIAL
from mainstem.bench.report import machine, short, verdict, write_json

_COLORS = {
    "components": "tab:green",
    "chains": "tab:orange",
    "tpg(ns": "tab:purple",
    "tpg(bfs": "tab:brown",
    "tpg(dfs": "tab:pink",
}
"""By the beginning of a strategy's label: relatives look alike. Others are grey."""

_KNOBS = {"rate": "rate", "skew": "θ", "transfers": "transfers", "abort": "a"}


def print_results(results: Results, console: Console) -> None:
    for phase, name in PHASES.items():
        console.print(_phase(results, phase, f"Phase {phase}: {name}; events/s"))
    console.print(_totals(results))
    mark = "[green]yes[/]" if results.gain > 1 else "[red]no[/]"
    best = results.fixed[0]
    console.print(f"auto beats every fixed strategy: {mark} ({results.gain:.3f} × {best}, the best of them)")
    console.print(
        f"A perfect chooser, the best fixed strategy in every step, would reach {_bound(results):.3f} × {best}; "
        f"auto reaches {results.rate(AUTO) / results.perfect_rate:.3f} × that."
    )
    console.print(f"auto changed its choice {results.changes} times between steps:")
    for phase, engines in results.chosen.items():
        console.print(f"  phase {phase}: {' -> '.join(engines)}")
    for note in results.notes:
        console.print(note, style="dim")
    verdict(console, results.disagreements)


def _phase(results: Results, phase: int, title: str) -> Table:
    """A row per strategy, a column per step."""
    steps = [step for step in results.steps if step.phase == phase]
    table = Table(title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    for step in steps:
        table.add_column(", ".join(f"{_KNOBS[k]} {v:.2g}" for k, v in step.knobs.items()), justify="right")
    for label in results.fastest:
        table.add_row(label, *(_short(results.step_rate(label, step)) for step in steps))
    table.add_row("perfect choice", *(results.perfect(step)[0] for step in steps))
    table.add_row("auto chose", *("; ".join(step.choices(results.fastest[AUTO].stats)) for step in steps))
    return table


def _short(rate: float | None) -> str:
    return "given up" if rate is None else short(rate)


def _bound(results: Results) -> float:
    """What could be won at all, over the best fixed strategy."""
    return results.perfect_rate / results.rate(results.fixed[0])


def _totals(results: Results) -> Table:
    table = Table(title=f"The whole run: {results.events:,} events", title_justify="left")
    table.add_column("", no_wrap=True)
    for heading in ("seconds", "events/s", "auto is faster by"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("state digest", no_wrap=True)
    for label, best in sorted(results.fastest.items(), key=lambda item: item[1].watch.seconds):
        faster = "" if label == AUTO else f"{results.rate(AUTO) / results.rate(label) - 1:+.1%}"
        state = best.ending.state + (" (unsafe)" if label == NOLOCK else "")
        if results.is_whole(label):
            table.add_row(label, f"{best.watch.seconds:.2f}", short(results.rate(label)), faster, state)
        else:
            more = (f"> {best.watch.seconds:.2f}", f"< {short(results.rate(label))}", f"{faster} at least", "given up")
            table.add_row(label, *more)
    seconds = results.events / results.perfect_rate
    faster = f"{results.rate(AUTO) / results.perfect_rate - 1:+.1%}"
    table.add_row("perfect chooser", f"{seconds:.2f}", short(results.perfect_rate), faster, "(a bound)")
    return table


def as_json(results: Results) -> dict[str, Any]:
    return {
        "title": "dynamic",
        "machine": machine(),
        "events": results.events,
        "steps": [
            {
                "phase": step.phase,
                "step": step.number,
                **step.knobs,
                "events_per_s": {label: results.step_rate(label, step) for label in results.fastest},
                "perfect_choice": results.perfect(step)[0],
                "auto_chose": step.choices(results.fastest[AUTO].stats),
            }
            for step in results.steps
        ],
        "totals": {
            label: {
                "seconds": best.watch.seconds,
                "events_per_s": results.rate(label),
                "state_digest": best.ending.state,
                "outputs_digest": best.ending.outputs,
                "given_up": not results.is_whole(label),
            }
            for label, best in results.fastest.items()
        },
        "best_fixed": results.fixed[0],
        "auto_of_best_fixed": results.gain,
        "perfect_of_best_fixed": _bound(results),
        "auto_changes": results.changes,
        "notes": results.notes,
        "disagreements": results.disagreements,
    }


def write(results: Results, path: Path) -> None:
    write_json(path, as_json(results))


def plot(results: Results, path: Path) -> None:
    """Events per second over the steps, and below it what `auto` chose."""
    from mainstem.bench.plot import Line, draw_phases

    def line(label: str, **look: Any) -> Line:
        rates = [results.step_rate(label, step) for step in results.steps]
        return Line(label, [math.nan if rate is None else rate for rate in rates], **look)

    def color(label: str) -> str:
        return next((color for start, color in _COLORS.items() if label.startswith(start)), "tab:gray")

    others = [label for label in results.fixed if label != SERIAL]
    unsafe = [line(NOLOCK, style=":", color="tab:red")] if NOLOCK in results.fastest else []
    draw_phases(
        path,
        title="Every fixed strategy, and auto, on a workload that changes",
        lines=[
            *(line(label, width=0.8, color=color(label)) for label in others),
            *unsafe,
            line(SERIAL, style="--", color="black", width=2.0),
            line(AUTO, color="tab:blue", width=3.0),
        ],
        phases=[f"{step.phase}: {PHASES[step.phase]}" for step in results.steps],
        choices=[step.choices(results.fastest[AUTO].stats)[0] for step in results.steps],
    )
