"""A prediction for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainstem.replay.predict import HotKey, Prediction, StageCost

_WIDTH = 110


def lines(found: Prediction) -> Iterator[str]:
    asked = found.what_if
    yield f"how far a replay in stages will scale: a prediction, nothing has run on {asked.hosts} hosts"
    yield from (f"  {line}" for line in textwrap.wrap(_origin(found), _WIDTH))
    yield from ("", *_costs(found))
    yield from ("", *_forecasts(found))
    yield from ("", *_paths(found))
    yield from ("", *_hot_keys(found))


def _origin(found: Prediction) -> str:
    asked = found.what_if
    return (
        f"It comes from the first {found.events:,} events of the log, run through the stages on this machine. It takes "
        f"a host as {asked.cores} core(s) like those here, the network as {asked.network_mb:,} MB/s per host, and a "
        f"batch as {asked.batch:,} events. The time that Spark takes to start tasks is left out: read it as a bound."
    )


def _costs(found: Prediction) -> Iterator[str]:
    total = found.route_seconds + found.home_seconds + sum(stage.seconds_per_event for stage in found.stages)
    yield f"  core time per event: {_micro(total)}; {found.bytes_per_event:,.0f} bytes go from task to task"
    yield f"    {_micro(found.route_seconds)}  read, check, derive and route"
    for stage in found.stages:
        where = "in shards" if stage.keyed else "in one task"
        yield f"    {_micro(stage.seconds_per_event)}  {stage.name} (wave {stage.wave}, {where})"
    yield f"    {_micro(found.home_seconds)}  outputs"


def _forecasts(found: Prediction) -> Iterator[str]:
    yield f"  {'hosts':>7}  {'events/s':>13}  {'speed-up':>8}  {'c/b':>7}  limited by"
    one = found.forecasts[0].rate
    for row in found.forecasts:
        speed = f"{row.rate / one:.1f} ×"
        yield f"  {row.hosts:>7,}  {row.rate:>13,.0f}  {speed:>8}  {row.ratio:>7.3g}  {row.limit}"


def _paths(found: Prediction) -> Iterator[str]:
    yield "  critical path: accesses of a batch that need each other (c; b is one host's part of the batch)"
    for size, path in zip(found.growth.sizes, found.growth.paths, strict=True):
        yield f"    {size:>11,} events  {path:>11,.0f}"
    batch = found.what_if.batch
    if batch > found.growth.sizes[-1]:
        yield f"    {batch:>11,} events  {found.growth.at(batch):>11,.0f}  (from the growth above)"


def _hot_keys(found: Prediction) -> Iterator[str]:
    yield "  hot keys: one task runs all accesses to a key in order, unless they can be split by time"
    for stage in found.stages:
        if not stage.keyed:
            yield f"    {stage.name}: all keys, because the stage runs in one task"
        for hot in stage.hottest:
            yield f"    {stage.name}[{_key(hot)}]: {hot.share:.2%} of {_what(stage)}"
        if stage.keyed:
            how = f"can't be split ({stage.unsplit})" if stage.unsplit else "are split when tasks would wait for them"
            yield f"    keys of {stage.name} {how}"


def _what(stage: StageCost) -> str:
    per_event = f"{stage.items_per_event:.2g} per event"
    return f"its accesses ({per_event})"


def _key(hot: HotKey) -> str:
    return ", ".join(repr(part) for part in hot.key)


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:7.3f} µs"
