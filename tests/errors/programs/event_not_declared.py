# expect: @app.on(Deposit) names no event
# expect: @app.event
# expect: declared are: Transfer
# line: 34
# ruff: noqa

import mainstem as ms

app = ms.App("bad")


@app.event
class Transfer:
    src: int
    dst: int
    amount: int
    rate: float
    note: str
    keys: list[int]
    limit: int | None


@app.table(key=int)
class Account:
    balance: int = 0
    score: float = 0.0
    name: str = ""


class Deposit:
    amount: int


@app.on(Deposit)
def deposit(e):
    Account[e.amount].balance += 1
