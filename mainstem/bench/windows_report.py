"""What the benchmark of window operators prints, with the figures that were published beside ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mainstem.apps.workloads.multiway import QUERIES
from mainstem.bench.report import Target, machine, print_targets, short, verdict, write_json
from mainstem.bench.windows import Figure, Results
from mainstem.windows.choice import PANES

PANES_OVER_WIML, PANES_OVER_TUML = 10.0, 5.0
RATIO_SPREAD = 0.5  # the cheapest size / advance costs at least this share of the dearest

PUBLISHED = """\
Published (Java, 2 × 6 cores, one thread per input, 20 inputs; million events/s):
  K-OS  MQ 0.10, MQ-LF 0.13, TuML-SC 0.16        k-OS  TuML-SC 2.9 × MQ
  k-OI  WiML 2.6                                 K-OI  WiML 0.43
  w-OI  WiML 2.4, 19 × MQ                        W-OI  WiML 1.4, 16 × MQ
  f-OI  WiML 0.615, 9 × MQ                       F-OI  WiML 0.615, 9 × MQ
  MQ and MQ-LF get slower with every input, TuML-SC stays, WiML gains."""


def targets(results: Results) -> list[Target]:
    """Per query the worst ratio over the numbers of inputs."""
    found = []
    for name in results.options.queries:
        rival, bound = ("tuml_sc", PANES_OVER_TUML) if QUERIES[name].order_sensitive else ("wiml", PANES_OVER_WIML)
        ratios = [
            _rate(results.figures, name, inputs, PANES) / _rate(results.figures, name, inputs, rival)
            for inputs in results.options.inputs
        ]
        found.append(Target(f"{name}: {PANES} over {rival} (times)", min(ratios), bound))
    costs = [ratio.ns_per_event for ratio in results.ratios if ratio.operator == PANES]
    if costs:
        found.append(Target("panes: cheapest over dearest size / advance", min(costs) / max(costs), RATIO_SPREAD))
    return found


def print_results(results: Results, console: Console) -> None:
    console.print(_table(results, "Throughput (events/s)", lambda f: short(f.rate)))
    console.print(_table(results, "CPU time of an event (ns, all threads)", lambda f: f"{f.cpu_ns:,.0f}"))
    console.print(_table(results, "Latency at half of that (ms: mean, 99 %)", _latency))
    console.print(_ratios(results))
    print_targets(targets(results), console)
    console.print(f"Search for addresses, not in the figures: {short(results.scans)} texts/s.", style="dim")
    console.print(results.load, style="dim")
    console.print(PUBLISHED, style="dim")
    verdict(console, results.disagreements)


def write(results: Results, path: Path) -> None:
    content = {
        "title": "windows",
        "machine": machine(),
        "figures": [vars(figure) for figure in results.figures],
        "ratios": [vars(ratio) for ratio in results.ratios],
        "texts_per_s": results.scans,
        "targets": [vars(target) | {"met": target.met} for target in targets(results)],
        "disagreements": results.disagreements,
    }
    write_json(path, content)


def _rate(figures: Sequence[Figure], query: str, inputs: int, operator: str) -> float:
    return next(f.rate for f in figures if (f.query, f.inputs, f.operator) == (query, inputs, operator))


def _latency(figure: Figure) -> str:
    return f"{figure.latency_ms:,.2f}, {figure.latency_ms_p99:,.2f}"


def _table(results: Results, title: str, shown: Callable[[Figure], str]) -> Table:
    operators = list(dict.fromkeys(figure.operator for figure in results.figures))
    operators.sort(key=lambda name: name == PANES)
    table = Table(title=title, title_justify="left")
    for heading in ("query", "inputs"):
        table.add_column(heading, no_wrap=True)
    for name in operators:
        table.add_column(name, justify="right", no_wrap=True)
    by_place = {(f.query, f.inputs, f.operator): f for f in results.figures}
    for query in results.options.queries:
        for inputs in results.options.inputs:
            cells = [by_place.get((query, inputs, name)) for name in operators]
            table.add_row(query, str(inputs), *("" if figure is None else shown(figure) for figure in cells))
    return table


def _ratios(results: Results) -> Table:
    table = Table(title="CPU time of an event (ns) by size / advance", title_justify="left")
    table.add_column("")
    for ratio in results.options.ratios:
        table.add_column(str(ratio), justify="right")
    for operator in (PANES, "wiml"):
        table.add_row(operator, *(f"{r.ns_per_event:,.0f}" for r in results.ratios if r.operator == operator))
    return table
