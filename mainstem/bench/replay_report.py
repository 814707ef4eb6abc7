"""What the `replay` benchmark prints and draws, and the same as JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mainstem.bench.replay import WARM_UP_EVENTS, Results
from mainstem.bench.replay_causality import Alpha
from mainstem.bench.replay_plot import draw_scaling
from mainstem.bench.replay_ratio_plot import draw_ratios
from mainstem.bench.replay_skew import hot_keys_of, skew_json, skew_table
from mainstem.bench.replay_variants import variants_json, variants_text
from mainstem.bench.replay_ways import Role, Runs, cores_text, scan_text
from mainstem.bench.report import machine, short, verdict, write_json

PAPER = (
    "ReStream: 32 hosts (128 vCPUs) reach 16 × its one thread, without the scan just over 2 ×. "
    "The first to beat it are 2 hosts (8 vCPUs, 1.4 ×), without the scan 4 hosts."
)
TURNS = (
    "From Parquet files in the page cache to written Parquet files. Turns are interleaved; before each, the contender "
    "replays a short log, which is not counted. Digests are of the verdicts on all messages."
)


def print_results(results: Results, console: Console) -> None:
    for scan in (True, False):
        console.print(_contenders(results, scan))
    console.print(TURNS, style="dim")
    console.print(_targets(results))
    console.print(PAPER)
    console.print(f"Here: {'; '.join(_cost(results, scan) for scan in (True, False))}.")
    if results.variants is not None:
        (auto,) = results.of(Role.AUTO, True)
        console.print(variants_text(results.variants, min(answer.seconds for answer in auto.answers)))
    if results.peaks:
        console.print(_peaks(results))
        console.print(
            "Of mvps in a new session for each log, scan on. Shared pages count once per worker.", style="dim"
        )
    if results.approximations:
        console.print(_approximations(results))
    if results.alphas:
        console.print(_alphas(results))
        console.print(_model(results), style="dim")
    if results.skew:
        console.print(skew_table(results.skew, results.options.hot_events))
        for line in hot_keys_of(results.skew):
            console.print(line, style="dim")
    _print_notes(results, console)
    verdict(console, results.disagreements)


def _print_notes(results: Results, console: Console) -> None:
    firsts = ", ".join(f"{n} {seconds:.1f} s" for n, seconds in results.first.items() if n.startswith("Mainstem"))
    short_log = min(WARM_UP_EVENTS, results.options.events)
    console.print(f"First turns, {short_log:,} events, with compiling or loading compiled code: {firsts}.", style="dim")
    for note in results.notes:
        console.print(note, style="dim")
    for name in results.approximate_agrees:
        console.print(f"[red]{name} is approximate, but found the truth:[/] this log is too easy to show its error.")


def _table(title: str, texts: int, *headings: str) -> Table:
    """Columns of text, then columns of numbers."""
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < texts else "right", no_wrap=True)
    return table


def _contenders(results: Results, scan: bool) -> Table:
    title = f"Spam log of {results.options.events:,} events, e-mail {scan_text(scan)}"
    headings = ("", "digest", "", "turns", "best ev/s", "median ev/s", "× one thread", "Mainstem is × faster")
    table = _table(title, 3, *headings)
    (auto,) = results.of(Role.AUTO, scan)
    for runs in (runs for runs in results.runs if runs.scan == scan):
        table.add_row(
            runs.way.name,
            runs.answers[-1].digest,
            "exact" if runs.way.exact else "approximate",
            str(len(runs.answers)),
            short(runs.best),
            short(runs.median),
            f"{results.of_one_thread(runs):.2f}",
            f"{auto.best / runs.best:.2f}",
        )
    return table


def _targets(results: Results) -> Table:
    table = _table("Targets", 1, "", "measured", "target", "")
    for target in results.targets:
        mark = "[green]met[/]" if target.met else "[red]missed[/]"
        table.add_row(target.what, f"{target.value:,.2f}", f"{target.bound:,.2f}", mark)
    return table


def _cost(results: Results, scan: bool) -> str:
    """The configuration that outperforms a single thread (McSherry's COST), among the measured ones."""
    mvps = sorted(results.of(Role.STAGED, scan), key=lambda runs: runs.way.cores)
    ratios = ", ".join(f"{cores_text(runs.way.cores)} {results.of_one_thread(runs):.2f} ×" for runs in mvps)
    first = next((runs.way.cores for runs in mvps if results.of_one_thread(runs) > 1), None)
    beaten = f"first to beat it: {cores_text(first)}" if first is not None else "none beats it"
    return f"{scan_text(scan)}: in stages {ratios} one thread ({beaten})"


def _peaks(results: Results) -> Table:
    roles = sorted({role for peak in results.peaks for role in peak.bytes})
    table = _table("Peak memory, MB resident", 0, "events", *roles, "tables", "workers without tables")
    for peak in results.peaks:
        own = (*(peak.bytes.get(role, 0) for role in roles), peak.state, peak.bytes.get("workers", 0) - peak.state)
        table.add_row(f"{peak.events:,}", *(f"{size / 1e6:,.0f}" for size in own))
    return table


def _approximations(results: Results) -> Table:
    title = f"Micro-batches against the truth, {results.options.error_events:,} events (ReStream, figure 5)"
    headings = ("batch", "batches", "ev/s", "spam found", "true", "error", "wrong verdicts", "digest")
    table = _table(title, 0, *headings)
    for found in results.approximations:
        table.add_row(
            f"{found.batch:,}",
            str(max(1, round(found.answer.events / found.batch))),
            short(found.answer.events_per_second),
            f"{found.error.spam_found:,}",
            f"{found.error.spam_true:,}",
            f"{found.error.relative:.2%}",
            f"{found.error.wrong:.2%}",
            found.answer.digest,
        )
    return table


def _alphas(results: Results) -> Table:
    """A row per exponent, size of batches and number of cores."""
    title = f"Critical path and events/s over α, scan off, {results.options.alpha_events:,} events"
    headings = ("α", "batch", "critical path", "cores", "c / b", "ev/s", "× 1 core", "model", "× one thread", "digest")
    table = _table(title, 0, *headings)
    for alpha in results.alphas:
        measured = sorted(alpha.points, key=lambda point: (-point.batch * point.hosts, point.hosts))
        for number, point in enumerate(measured, start=1):
            alone = next(p.rate for p in measured if p.hosts == 1 and p.path == point.path)
            modelled = results.model is not None and point.hosts > 1
            table.add_row(
                f"{alpha.alpha:g}",
                f"{point.batch * point.hosts:,}",
                f"{point.path:,.0f}",
                str(point.hosts),
                f"{point.path / point.batch:.3g}",
                short(point.rate),
                f"{point.rate / alone:.2f}",
                short(results.model.rate(point.hosts, point.batch, point.path)) if modelled and results.model else "",
                f"{point.rate / alpha.one_thread:.2f}",
                alpha.checks[0][1].digest,
                end_section=number == len(measured),
            )
    return table


def _model(results: Results) -> str:
    paths = "; ".join(_paths(alpha) for alpha in results.alphas)
    lines = [f"Average critical path by events of a batch: {paths}."]
    if results.model is not None:
        model = results.model
        met = max(point.path / point.batch for alpha in results.alphas for point in alpha.points if point.hosts > 1)
        # At the largest ratio that was met, the fit found no slope: the chain has not limited anything yet.
        sign = "=" if model.a < met else "≥"
        lines.append(
            f"Equation 1, events/s = k · h / ((h - 1) / h · max(c / b, a)), for h > 1 cores: k = {model.k:,.3g}, "
            f"a {sign} {model.a:.3g}, R² = {model.r2:.2f} (ReStream: a = 1.85, R² = 0.94, on 2 to 32 hosts)."
        )
    return "\n".join(lines)


def _paths(alpha: Alpha) -> str:
    sizes = ", ".join(f"{size:,} {path:,.0f}" for size, path in alpha.paths.items())
    return f"α {alpha.alpha:g}: {sizes}"


def plot(results: Results, path: Path) -> None:
    """Measured points and the model's lines, a colour per exponent: over cores, and in `…-ratio` over c / b."""
    series = {f"α = {alpha.alpha:g}": alpha.points for alpha in results.alphas}
    one_thread = max(alpha.one_thread for alpha in results.alphas)
    title = f"Replay of {results.options.alpha_events:,} spam events, scan off"
    draw_scaling(path, title=title, series=series, model=results.model, one_thread=one_thread, scaled="cores")
    if results.model is not None:
        ratio_path = path.with_stem(f"{path.stem}-ratio")
        draw_ratios(ratio_path, title=title, series=series, model=results.model, scaled="cores")


def as_json(results: Results) -> dict[str, Any]:
    return {
        "title": "replay",
        "machine": machine(),
        "options": {**asdict(results.options), "folder": str(results.options.folder)},
        "figures": [_figure(results, runs) for runs in results.runs],
        "first_turn_seconds": results.first,
        "targets": [vars(target) | {"met": target.met} for target in results.targets],
        "peak_bytes": [vars(peak) for peak in results.peaks],
        "micro_batches": [
            {"batch": found.batch, **asdict(found.answer), **asdict(found.error), "error": found.error.relative}
            for found in results.approximations
        ],
        "alphas": [
            {
                "alpha": alpha.alpha,
                "events": alpha.events,
                "critical_paths": alpha.paths,
                "points": [asdict(point) for point in alpha.points],
                "one_thread_events_per_s": alpha.one_thread,
                "digest": alpha.checks[0][1].digest,
            }
            for alpha in results.alphas
        ],
        "skew": [skew_json(skew) for skew in results.skew],
        "variants": variants_json(results.variants),
        "model": None if results.model is None else asdict(results.model),
        "paper": PAPER,
        "notes": results.notes,
        "disagreements": results.disagreements,
    }


def _figure(results: Results, runs: Runs) -> dict[str, Any]:
    last = runs.answers[-1]
    return {
        "name": runs.way.name,
        "scan": runs.scan,
        "exact": runs.way.exact,
        "cores": runs.way.cores,
        "events": last.events,
        "events_per_s_best": runs.best,
        "events_per_s_median": runs.median,
        "seconds": [answer.seconds for answer in runs.answers],
        "of_one_thread": results.of_one_thread(runs),
        "messages": last.messages,
        "spam": last.spam,
        "digest": last.digest,
    }


def write(results: Results, path: Path) -> None:
    write_json(path, as_json(results))
