# expect: the key of Account[target] depends on state
# expect: from the event alone
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


@app.on(Transfer)
def transfer(e):
    target = e.src
    if Account[e.src].balance > 10:
        target = e.dst
    Account[target].balance += 1
