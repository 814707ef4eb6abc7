"""Pictures of figures. Needs matplotlib: `pip install 'mainstem[plot]'`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

from mainstem.errors import MainstemError

FORMATS = (".png", ".svg", ".pdf")
_SIZE = (12, 7)  # inches
_DOTS = 130  # per inch


@dataclass(frozen=True)
class Line:
    """A line of the plot: a value per step."""

    label: str
    values: Sequence[float]
    style: str = "-"
    color: str | None = None
    width: float = 1.2


def check_plot(path: Path) -> None:
    """Raises when no plot could be written there: better before hours of measuring than after."""
    if find_spec("matplotlib") is None:
        raise MainstemError("a plot needs matplotlib, which is not installed\n  pip install 'mainstem[plot]'")
    if path.suffix not in FORMATS:
        raise MainstemError(f"a plot can't be written as {path.name!r}\n  use a name that ends in {', '.join(FORMATS)}")
    if not path.resolve().parent.is_dir():
        raise MainstemError(f"there is no folder {str(path.parent)!r} for the plot\n  make it first")


def draw_phases(
    path: Path, *, title: str, lines: Sequence[Line], phases: Sequence[str], choices: Sequence[str]
) -> None:
    """Lines over steps with the phases (one name per step) marked, and below it the choice of each step."""
    # Not pyplot: it would keep the figure, and look for a screen.
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    rates, chosen = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    steps = range(1, len(phases) + 1)
    for line in lines:
        rates.plot(steps, line.values, line.style, label=line.label, color=line.color, linewidth=line.width)
    # A logarithm: what matters is how many times faster one is than another, also where all are slow.
    rates.set(title=title, ylabel="events per second", yscale="log", xlim=(0.5, len(phases) + 0.5))
    rates.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    chosen.plot(steps, choices, "o", color="tab:blue")
    chosen.set(xlabel="step", ylabel="auto chose", xticks=list(steps))
    for axes in (rates, chosen):
        axes.grid(alpha=0.3)
    _mark_phases(rates, chosen, phases)
    figure.savefig(path, dpi=_DOTS)


def _mark_phases(rates: Any, chosen: Any, phases: Sequence[str]) -> None:
    """Every second phase on a grey ground, its name on top."""
    left = 0.5
    for number, (name, steps) in enumerate(groupby(phases)):
        right = left + len(list(steps))
        for axes in (rates, chosen):
            axes.axvspan(left, right, color="grey", alpha=0.12 if number % 2 else 0.0, linewidth=0)
        rates.text((left + right) / 2, 0.98, name, ha="center", va="top", transform=rates.get_xaxis_transform())
        left = right
