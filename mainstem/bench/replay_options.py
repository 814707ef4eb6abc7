"""Options of the `replay` benchmark as one types them."""

from __future__ import annotations

import math
from pathlib import Path

from mainstem.bench.replay import Options
from mainstem.errors import InputError

_UNITS = {"k": 1_000, "m": 1_000_000}

QUICK_EVENTS, QUICK_ALPHA_EVENTS, QUICK_ERROR_EVENTS = 500_000, 200_000, 200_000


def options_of(
    *, quick: bool, events: str, cores: int, repeats: int, alternatives: bool, variants: int, alpha: str,
    alpha_events: str | None, memory_events: str | None, hot_shares: str, hot_events: str | None, micro_batches: str,
    error_events: str | None, seed: int, folder: Path,
) -> Options:  # fmt: skip
    """`quick` bounds the sizes, and looks at the memory only if told at which: short logs say nothing about it."""
    default = Options()
    return Options(
        events=min(count_of(events), QUICK_EVENTS) if quick else count_of(events),
        cores=cores,
        repeats=1 if quick else repeats,
        alternatives=alternatives,
        variants=variants,
        alphas=tuple(_exponent(text) for text in parts(alpha)),
        alpha_events=_or(alpha_events, QUICK_ALPHA_EVENTS if quick else default.alpha_events),
        memory_events=(() if quick else default.memory_events) if memory_events is None else counts_of(memory_events),
        hot_shares=tuple(_share(text) for text in parts(hot_shares)),
        hot_events=_or(hot_events, QUICK_ALPHA_EVENTS if quick else default.hot_events),
        micro_batches=counts_of(micro_batches),
        error_events=_or(error_events, QUICK_ERROR_EVENTS if quick else default.error_events),
        seed=seed,
        folder=folder,
    )


def count_of(text: str) -> int:
    """`10M`, `12.5k`, `500_000`."""
    unit = _UNITS.get(text[-1:].lower(), 1)
    try:
        value = float(text[:-1] if unit > 1 else text) * unit
    except ValueError:
        value = math.nan
    if not (value >= 1 and value.is_integer()):
        raise InputError(f"{text!r} is no number of events\n  write 500000, 500k or 10M")
    return int(value)


def counts_of(text: str) -> tuple[int, ...]:
    return tuple(count_of(part) for part in parts(text))


def parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _exponent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 1:
        raise InputError(f"{text!r} is no exponent of a power law\n  give numbers above 1, such as 1.25,2,3")
    return value


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise InputError(f"{text!r} is no share of the messages\n  give numbers from 0 to 1, such as 0,0.3,0.9")
    return value


def _or(text: str | None, default: int) -> int:
    return default if text is None else count_of(text)
