"""The smallest program: money between accounts, embedded, no Spark.

python examples/transfer.py
"""

from __future__ import annotations

import mainstem as ms

app = ms.App("bank")


@app.event
class Transfer:
    src: str
    dst: str
    amount: int


@app.table(key=str)
class Account:
    balance: int = 100

    @ms.check
    def solvent(row):
        return row.balance >= 0


@app.on(Transfer)
def transfer(e):
    ms.require(e.amount > 0, "amount must be positive")
    Account[e.src].balance -= e.amount
    Account[e.dst].balance += e.amount
    return {"left": Account[e.src].balance}


def main() -> None:
    result = app.run(
        [
            Transfer(ts=1, src="ann", dst="bob", amount=70),
            Transfer(ts=2, src="ann", dst="cat", amount=70),  # ann has 30 left: aborts, nothing moves
            Transfer(ts=3, src="bob", dst="cat", amount=120),
        ]
    )
    for row in result.outputs.to_pylist():
        print(row["ts"], row["status"], row["reason"] or "", row["left"])
    balances = {row["key"]: row["balance"] for row in app.state["Account"].to_pylist()}
    print(balances)
    assert balances == {"ann": 30, "bob": 50, "cat": 220}


if __name__ == "__main__":
    main()
