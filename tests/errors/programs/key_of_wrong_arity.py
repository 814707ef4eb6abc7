# expect: Position has a key of 2 part(s), this one has 1
# expect: (int, str)
# line: 36
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


@app.table(key=(int, str))
class Position:
    size: int = 0


@app.on(Transfer)
def transfer(e):
    Position[e.src].size += 1
