# expect: factorial calls itself
# expect: loop
# line: 32
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


def factorial(n):
    if n < 2:
        return 1
    return n * factorial(n - 1)


@app.on(Transfer)
def transfer(e):
    Account[e.src].balance = factorial(e.amount)
