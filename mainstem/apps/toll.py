"""Toll Processing: what a vehicle pays depends on how fast and how full its road segment is.

The program: one event type, three tables, one function. A report says where a vehicle is and how fast it goes. It
updates the average speed of the segment and the number of different vehicles seen there, and is answered with the toll
that follows from both. In a dataflow these are three operators (road speed, vehicle count, toll notification) that
share their state; here they are one transaction, so a toll follows from exactly the reports up to its own, and a report
that is not plausible leaves no trace in any of them.

    import mainstem as ms
    from mainstem.apps import toll

    events = toll.generate(100_000)
    result = toll.app.run(events, initial=toll.initial())
    result.outputs                     # one row per report: the toll, and the vehicles seen on its segment
    toll.app.state["Speed"]            # key (the segment), average (in thousandths of km/h), seal
    assert toll.conserved(toll.initial(), events, result.outputs, toll.app.state)

The tolls are those of the Linear Road benchmark. The default workload is that of TStream's evaluation: 100 segments,
Zipf skew 0.2; unlike there, some reports are refused. `toll.two_regions` makes a stream whose one half is skewed and
often refused and whose other half is neither. A `seal` sums up all that happened to its row, in order.
"""

# mypy: ignore-errors
# A table is indexed by key and an event is its own type: type checkers can't see what a class decorator adds.

from __future__ import annotations

import mainstem as ms
from mainstem.apps.work import burn
from mainstem.apps.workloads.toll import (
    FREE_FLOW,
    FREE_VEHICLES,
    SCALE,
    TOLERANCE,
    WEIGHT,
    conserved,
    generate,
    initial,
    two_regions,
    write_log,
)

__all__ = ["app", "conserved", "generate", "initial", "two_regions", "write_log"]

app = ms.App("toll")


@app.event
class Report:
    segment: int
    vehicle: int
    speed: int  # km/h
    work: int


@app.table(key=int)
class Speed:
    average: int = 0
    seal: int = 0


@app.table(key=int)
class Vehicles:
    count: int = 0
    seal: int = 0


@app.table(key=(int, int))  # segment, vehicle
class Seen:
    reports: int = 0


def toll_for(average, count):
    if average >= FREE_FLOW or count <= FREE_VEHICLES:
        return 0
    return 2 * (count - FREE_VEHICLES) * (count - FREE_VEHICLES)


@app.on(Report)
def report(e):
    road = Speed[e.segment]
    vehicles = Vehicles[e.segment]
    seen = Seen[e.segment, e.vehicle]
    difference = e.speed * SCALE - road.average
    ms.require(abs(difference) <= TOLERANCE * SCALE, "implausible speed")
    average = road.average + difference // WEIGHT
    count = vehicles.count + int(seen.reports == 0)
    road.average = average
    road.seal = burn(road.seal * 3 + e.speed, e.work)
    vehicles.count = count
    vehicles.seal = burn(vehicles.seal * 3 + e.vehicle, e.work)
    seen.reports += 1
    return {"toll": toll_for(average, count), "vehicles": count}
