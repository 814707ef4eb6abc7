"""A picture of the limit in the model of equation 1: events per second over c / b, where few numbers of hosts are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mainstem.bench.plot import check_plot
from mainstem.replay.model import Model, Point

_SIZE = (9, 6)  # inches
_DOTS = 130  # per inch
_LINE_STEPS = 200
_MARGIN = 1.5  # the line goes on so many times beyond the outermost points


def draw_ratios(
    path: Path, *, title: str, series: Mapping[str, Sequence[Point]], model: Model, scaled: str = "hosts"
) -> None:
    """Points are what was measured on several hosts (or whatever `scaled` says), lines what the model says for them."""
    from matplotlib.figure import Figure

    check_plot(path)
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.subplots()
    for label, points in series.items():
        several = [point for point in points if point.hosts > 1]
        axes.plot([p.path / p.batch for p in several], [p.rate for p in several], "o", label=label)
    every = [point for points in series.values() for point in points if point.hosts > 1]
    for hosts in sorted({point.hosts for point in every}):
        line = ratio_line(model, [point for point in every if point.hosts == hosts])
        axes.plot(*zip(*line, strict=True), "-", color="black", linewidth=1.2, label=f"model, {hosts} {scaled}")
    axes.axvline(model.a, color="grey", linestyle=":", linewidth=1.0, label=f"a = {model.a:.3g}")
    axes.set(title=f"{title}\nR² = {model.r2:.3f}", xscale="log", yscale="log", ylabel="events per second")
    axes.set_xlabel(
        "critical path of a batch / events of it per host (c / b)".replace("host", scaled.removesuffix("s"))
    )
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=_DOTS)


def ratio_line(model: Model, points: Sequence[Point]) -> list[tuple[float, float]]:
    """(c / b, events/s) of the model around the points of one number of hosts."""
    ratios = [point.path / point.batch for point in points]
    scan = np.geomspace(min(ratios) / _MARGIN, max(ratios) * _MARGIN, _LINE_STEPS)
    return [(float(ratio), model.rate(points[0].hosts, 1.0, float(ratio))) for ratio in scan]
