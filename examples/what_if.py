"""What if the rule had been another one? Two versions of a program over the same history, compared event by event.

Today a card is blocked when it is used more than 50 times. The new rule would block large sums instead. How many
payments would come out differently, and which?

    python examples/what_if.py
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import mainstem as ms

USES_MAX, SUM_MAX = 50, 3_000


def payments(count: int) -> pa.Table:
    random = np.random.default_rng(7)
    cards = (random.pareto(1.0, count) * 20).astype(np.int64) % 2_000
    return pa.table({"ts": np.arange(count), "card": cards, "amount": random.integers(1, 200, count)})


today = ms.App("today")


@today.event
class Payment:
    card: int
    amount: int


@today.table(key=int)
class Card:
    uses: int = 0


@today.on(Payment)
def pay(e):
    card = Card[e.card]
    ms.require(card.uses < USES_MAX, "used too often")
    card.uses += 1


proposed = ms.App("proposed")
proposed.event(Payment)


@proposed.table(key=int)
class Limit:
    spent: int = 0


@proposed.on(Payment)
def pay_within_limit(e):
    limit = Limit[e.card]
    limit.spent += e.amount
    ms.require(limit.spent <= SUM_MAX, "limit reached")


def main() -> None:
    history = payments(200_000)
    before = today.run(history).outputs["status"].cast(pa.string())
    after = proposed.run(history).outputs["status"].cast(pa.string())
    changed = (
        history.append_column("today", before).append_column("proposed", after).filter(pc.not_equal(before, after))
    )
    counts = changed.group_by(["today", "proposed"]).aggregate([([], "count_all")]).sort_by("today")
    for row in counts.to_pylist():
        print(f"{row['count_all']:>8,} payments: {row['today']} today, {row['proposed']} with the new rule")
    assert changed.num_rows > 0


if __name__ == "__main__":
    main()
