# expect: helper returns float and int
# line: 28
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


def helper(k):
    if k > 3:
        return 1
    return 2.5


@app.on(Transfer)
def transfer(e):
    Account[e.src].balance = helper(e.dst)
