# expect: tables have no method 'get'
# expect: T[key].field
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
    Account[e.dst].balance += Account.get(e.src)
