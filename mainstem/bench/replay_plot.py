"""A picture of a replay that scales: measured points, and the model of equation 1 as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from mainstem.bench.plot import check_plot
from mainstem.replay.model import Growth, Model, Point

_SIZE = (9, 6)  # inches
_DOTS = 130  # per inch
_LINE_STEPS = 60


def draw_scaling(
    path: Path, *, title: str, series: Mapping[str, Sequence[Point]], model: Model | None = None,
    one_thread: float | None = None, scaled: str = "hosts",
) -> None:  # fmt: skip
    """Events per second over hosts (or whatever `scaled` says), a colour per series.

    A series is a name and its points, maybe of several batch sizes. Points are what was measured, lines what `model`
    says for the critical paths of these points. `one_thread`: the rate of the best serial run, as a horizontal line.
    """
    from matplotlib.figure import Figure

    check_plot(path)
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.subplots()
    for number, (label, points) in enumerate(series.items()):
        color = f"C{number}"
        axes.plot([p.hosts for p in points], [p.rate for p in points], "o", color=color, label=label)
        for _, own in groupby(sorted(points, key=_batch), key=_batch):
            line = model_line(model, list(own)) if model is not None else []
            if line:
                axes.plot(*zip(*line, strict=True), "-", color=color, linewidth=1.2)
    if one_thread is not None:
        axes.axhline(one_thread, color="black", linestyle="--", linewidth=1.0, label="one thread")
    shown = f"\nlines: a = {model.a:.3g}, R² = {model.r2:.3f}" if model is not None else ""
    axes.set_xscale("log", base=2)
    axes.set(title=f"{title}{shown}", xlabel=scaled, ylabel="events per second", yscale="log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=_DOTS)


def model_line(model: Model, points: Sequence[Point]) -> list[tuple[float, float]]:
    """(hosts, events/s) along the points of one batch size; nothing where the model does not reach: below two hosts."""
    several = [point for point in points if point.hosts > 1]
    if not several:
        return []
    growth = Growth({point.hosts * point.batch: point.path for point in several})
    low, high = min(p.hosts for p in several), max(p.hosts for p in several)
    hosts = {low * (high / low) ** (step / _LINE_STEPS) for step in range(_LINE_STEPS + 1)}
    return [(h, model.predict(h, several[0].batch, growth)) for h in sorted(hosts)]


def _batch(point: Point) -> int:
    return point.batch
