# expect: array field hist is assigned cell by cell
# line: 35
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
class Wide:
    hist: ms.Array[int, 4]


@app.on(Transfer)
def transfer(e):
    Wide[e.src].hist = 3
