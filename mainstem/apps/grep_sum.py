"""Grep and Sum: records that are read, added up and rewritten, in transactions of any length.

The program: one table, two event types. A write gives each of its records a new value, computed from the record's own
value and those of some other records (its sources). A sum adds up records. Both go through only if one more record,
the guard, agrees: whether it does depends on its value at that moment.

    import mainstem as ms
    from mainstem.apps import grep_sum

    events = grep_sum.generate(100_000, length=4, abort=0.1)
    result = grep_sum.app.run(events, initial=grep_sum.initial())
    result.outputs["total"]            # of the sums; null for writes and where the guard refused
    grep_sum.app.state["Record"]       # key, value
    assert grep_sum.conserved(grep_sum.initial(), events, result.outputs, grep_sum.app.state)

This is the application whose workload can be shaped most freely: skew, length of transactions, sources per written
record, aborts and the cost of each computation, as in MorphStream's evaluation. The default is its default, without the
cost; TStream's is `skew=0.6, length=10, reads=0, abort=0`. Every record starts with another value and no two writes of
a record commute, so a run that mixes up the order of events gives other results.
"""

# mypy: ignore-errors
# A table is indexed by key and an event is its own type: type checkers can't see what a class decorator adds.

from __future__ import annotations

import mainstem as ms
from mainstem.apps.work import burn
from mainstem.apps.workloads.grep_sum import CHANCES, conserved, generate, initial, write_log

__all__ = ["app", "conserved", "generate", "initial", "write_log"]

app = ms.App("grep_sum")


@app.event
class Write:
    guard: int
    risk: int  # so many times in CHANCES does the guard refuse
    keys: list[int]
    sources: list[int]  # as many for each key, those of the first key first
    amount: int
    work: int


@app.event
class Sum:
    guard: int
    risk: int
    keys: list[int]
    amount: int


@app.table(key=int)
class Record:
    value: int = 0


@app.on(Write)
def write(e):
    ms.require((Record[e.guard].value + e.amount) % CHANCES >= e.risk, "refused")
    reads = len(e.sources) // len(e.keys)
    for i in range(len(e.keys)):
        total = 0
        for j in range(i * reads, (i + 1) * reads):
            total += Record[e.sources[j]].value
        record = Record[e.keys[i]]
        record.value = burn(record.value * 3 + total + e.amount, e.work)


@app.on(Sum)
def add_up(e):
    ms.require((Record[e.guard].value + e.amount) % CHANCES >= e.risk, "refused")
    total = 0
    for key in e.keys:
        total += Record[key].value
    return {"total": total}
