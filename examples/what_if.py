"""What if the rule had been another one? Two rules over the same history, compared payment by payment.

Today a card is blocked when it is used more than 50 times. The new rule would block large sums instead. Both run side
by side, each in transactions of its own with a table of its own. How many payments would come out differently?

    python examples/what_if.py
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import mainstem as ms

USES_MAX, SUM_MAX = 50, 3_000

app = ms.App("what_if")


@app.event
class Payment:
    card: int
    amount: int


@app.table(key=int)
class Uses:
    count: int = 0


@app.table(key=int)
class Spent:
    total: int = 0


@app.on(Payment)
def today(e):
    uses = Uses[e.card]
    ms.require(uses.count < USES_MAX, "used too often")
    uses.count += 1


@app.on(Payment)
def proposed(e):
    spent = Spent[e.card]
    spent.total += e.amount
    ms.require(spent.total <= SUM_MAX, "limit reached")


def payments(count: int) -> pa.Table:
    """A month of history: few cards are used a lot, many a little."""
    random = np.random.default_rng(7)
    cards = (random.pareto(1.0, count) * 20).astype(np.int64) % 2_000
    return pa.table({"ts": np.arange(count), "card": cards, "amount": random.integers(1, 200, count)})


def main() -> None:
    history = payments(200_000)
    outputs = app.run(history).outputs

    def status(function: str) -> pa.ChunkedArray:
        return outputs.filter(pc.equal(outputs["function"].cast(pa.string()), function))["status"].cast(pa.string())

    both = history.append_column("today", status("today")).append_column("proposed", status("proposed"))
    changed = both.filter(pc.not_equal(both["today"], both["proposed"]))
    for row in changed.group_by(["today", "proposed"]).aggregate([([], "count_all")]).sort_by("today").to_pylist():
        print(f"{row['count_all']:>8,} payments: {row['today']} today, {row['proposed']} with the new rule")
    assert changed.num_rows > 0


if __name__ == "__main__":
    main()
