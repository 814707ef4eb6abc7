# expect: the key of table Wide has 5 parts
# expect: one to 4
# line: 29
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


@app.table(key=(int, int, int, int, int))
class Wide:
    size: int = 0
