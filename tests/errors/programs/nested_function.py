# expect: nested function is not supported
# expect: top level of the module
# line: 31
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


@app.on(Transfer)
def transfer(e):
    def inner(n):
        return n + 1
    Account[e.src].balance = inner(e.amount)
