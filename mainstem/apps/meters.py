"""Energy meters of a town: consumption and power failures per meter, over windows that slide.

    import mainstem as ms
    from mainstem.apps import meters

    events = meters.generate(100_000)
    result = meters.app.run(events)
    result.outputs                     # closed windows, and one row per outage
    meters.app.state["usage"]          # the last window of every meter: readings, mean, the first reading
    assert meters.conserved(meters.initial(), events, result.outputs, meters.app.state)

    inputs = meters.inputs(events, 5)  # the same events by five data concentrators
    meters.app.run(inputs)             # gives the same windows

A closed window is an event: `failing` counts the outages of a meter, and a function that is bound to it raises an alarm
when there were too many. An outage reads the last window of `usage`: how much was lost.
"""

# mypy: ignore-errors
# A table is indexed by key and an event is its own type: type checkers can't see what a class decorator adds.

from __future__ import annotations

import mainstem as ms
from mainstem.apps.workloads.meters import conserved, generate, initial, inputs, write_log

__all__ = ["app", "conserved", "generate", "initial", "inputs", "write_log"]

SIZE, ADVANCE = 30, 3
OUTAGES_MAX = 2  # of a meter in a window

app = ms.App("meters")


@app.event
class Reading:
    meter: int
    wh: int  # watt hours since the last one


@app.event
class Outage:
    meter: int


@app.table(key=int)
class Meter:
    outages: int = 0
    alarms: int = 0  # windows with too many of them


usage = app.window(
    Reading, size=SIZE, advance=ADVANCE, by="meter", name="usage",
    readings=ms.count(), mean_wh=ms.avg("wh"), first_wh=ms.first("wh"),
)  # fmt: skip
failing = app.window(Outage, size=SIZE, advance=ADVANCE, by="meter", name="failing", outages=ms.count())


@app.on(Outage)
def outage(e):
    Meter[e.meter].outages += 1
    return {"meter": e.meter, "lost_wh": usage[e.meter].mean_wh}


@app.on(failing)
def alarm(e):
    if e.outages > OUTAGES_MAX:
        Meter[e.meter].alarms += 1
