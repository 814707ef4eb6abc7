# expect: check
# expect: one parameter
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


@app.table(key=int)
class Limit:
    used: int = 0

    @ms.check
    def capped(row, limit):
        return row.used < limit


@app.on(Transfer)
def transfer(e):
    Limit[e.src].used += 1
