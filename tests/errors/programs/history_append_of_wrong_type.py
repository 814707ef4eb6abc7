# expect: field page is int, the value is float
# expect: convert with int(…)
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
    Clicks[e.user].append(page=e.rate, name="a")
