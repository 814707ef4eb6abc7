# expect: last is float
# expect: in the unit of ts
# line: 32
# ruff: noqa

import mainstem as ms

app = ms.App("bad")


@app.event
class Click:
    user: int
    page: int
    rate: float
    name: str


@app.table(key=int)
class Account:
    balance: int = 0


@app.history(key=int, keep=64)
class Clicks:
    page: int
    name: str


@app.on(Click)
def click(e):
    return {"x": Clicks[e.user].count(last=0.5)}
