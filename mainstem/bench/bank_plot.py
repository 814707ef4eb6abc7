"""The charts of the `bank` benchmark as one picture, a panel for each."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from mainstem.bench.bank_figures import Chart, Results
from mainstem.bench.plot import check_plot

_PANEL = (5.0, 3.6)  # inches
_COLUMNS = 3
_DOTS = 110  # per inch


def draw(results: Results, path: Path) -> None:
    """Rates over what each chart varies; what has one value only is a bar."""
    from matplotlib.figure import Figure

    check_plot(path)
    charts = [chart for chart in results.charts if chart.lines]
    columns = min(_COLUMNS, max(1, len(charts)))
    rows = max(1, math.ceil(len(charts) / columns))
    figure = Figure(figsize=(_PANEL[0] * columns, _PANEL[1] * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for chart, axes in zip(charts, panels, strict=False):
        _panel(chart, axes)
    for axes in panels[len(charts) :]:
        axes.set_axis_off()
    figure.savefig(path, dpi=_DOTS)


def _panel(chart: Chart, axes: Any) -> None:
    if len(chart.xs) == 1:
        axes.barh(list(chart.lines), [points[chart.xs[0]].rate for points in chart.lines.values()])
        axes.set(title=chart.title, xlabel=chart.unit, xscale="log")
    else:
        labels = [x if isinstance(x, str) else f"{x:,.10g}" for x in chart.xs]
        for name, points in chart.lines.items():
            at = [number for number, x in enumerate(chart.xs) if x in points]
            axes.plot(at, [points[chart.xs[number]].rate for number in at], "o-", label=name, linewidth=1.2)
        axes.set_xticks(range(len(labels)), labels)
        axes.set(title=chart.title, xlabel=chart.x, ylabel=chart.unit, yscale="log")
        axes.legend(fontsize="x-small")
    axes.title.set_fontsize("small")
    axes.grid(alpha=0.3)
