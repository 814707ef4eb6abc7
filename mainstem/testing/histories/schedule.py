"""Random histories that satisfy a given isolation level: transactions interleaved step by step under locks.

A small model of a database, with one rule per level, and nothing in common with the engine's protocols:

- a transaction walks over its rows in ascending order and takes locks on the way, which it keeps to its end;
- PL1 locks what it writes and reads the newest version, whoever made it; PL2 reads the newest installed version
  instead; PL3 locks what it reads, too, shared; PL4 grants a lock only when no earlier transaction may still want it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from mainstem.engine.history import History, HistoryBuilder, Transaction
from mainstem.lang.program import LEVELS
from mainstem.testing.histories.report import check_level


@dataclass
class _Running:
    """A transaction on its way through its rows."""

    transaction: Transaction
    rows: list[tuple[int, bool]]  # still to come: row, whether it writes it
    aborts: bool
    rewrites: bool  # writes one of its rows once more at the end
    locked: dict[int, bool] = field(default_factory=dict)  # row, whether exclusively

    def wants(self, row: int, exclusively: bool) -> bool:
        """Whether it has or will have a lock of `row` that excludes such a one."""
        coming = any(other == row and (writes or exclusively) for other, writes in self.rows)
        return coming or self.holds(row, exclusively)

    def holds(self, row: int, exclusively: bool) -> bool:
        return row in self.locked and (self.locked[row] or exclusively)


def scheduled_history(
    level: str, seed: int, *, transactions: int = 6, rows: int = 4, concurrent: int = 3, queries: float = 0.2
) -> History:
    """A history that `level` permits, with aborts, intermediate versions, and that share of queries."""
    check_level(level)
    random, builder = Random(f"{level} {seed}"), History.build()
    waiting = [_plan(random, builder, rows, queries) for _ in range(transactions)]
    running: list[_Running] = []
    newest: dict[int, list[Transaction]] = {}  # who made versions of a row and has not aborted, PL1 reads the last one
    while waiting or running:
        if waiting and len(running) < concurrent:
            # Below PL4 any may come next, so that the order is not that of the events.
            running.append(waiting.pop(0 if level == "PL4" else random.randrange(len(waiting))))
        one = random.choice(running)
        if not one.rows and one.rewrites and one.transaction.own:
            one.transaction.write(random.choice(list(one.transaction.own)))
            one.rewrites = False
        elif not one.rows:
            _end(one, newest)
            running.remove(one)
        elif _may_lock(level, one, running):
            _step(level, random, one, newest)
    return builder.done()


def _plan(random: Random, builder: HistoryBuilder, rows: int, queries: float) -> _Running:
    reads_only = random.random() < queries
    transaction = builder.query() if reads_only else builder.begin(random.choice(("deposit", "transfer")))
    chosen = sorted(random.sample(range(rows), random.randint(1, min(3, rows))))
    steps = [(row, not reads_only and random.random() < 0.6) for row in chosen]
    aborts = not reads_only and random.random() < 0.15
    return _Running(transaction, steps, aborts, rewrites=random.random() < 0.3)


def _may_lock(level: str, one: _Running, running: list[_Running]) -> bool:
    """Whether nobody is in the way of the next step. Ascending rows, or event order, exclude deadlock."""
    row, writes = one.rows[0]
    if not writes and level in ("PL1", "PL2"):
        return True
    if level == "PL4":
        earlier = running[: running.index(one)]
        return not any(other.wants(row, writes) for other in earlier)
    return not any(other is not one and other.holds(row, writes) for other in running)


def _step(level: str, random: Random, one: _Running, newest: dict[int, list[Transaction]]) -> None:
    row, writes = one.rows.pop(0)
    if writes or LEVELS.index(level) >= LEVELS.index("PL3"):
        one.locked[row] = writes
    makers = newest.setdefault(row, [])
    if not writes or random.random() < 0.7:
        dirty = makers[-1] if level == "PL1" and makers else None
        one.transaction.read(row, of=dirty)
    if writes:
        one.transaction.write(row)
        makers.append(one.transaction)


def _end(one: _Running, newest: dict[int, list[Transaction]]) -> None:
    if not one.aborts:
        one.transaction.commit()
        return
    one.transaction.abort()
    for makers in newest.values():
        if one.transaction in makers:
            makers.remove(one.transaction)
