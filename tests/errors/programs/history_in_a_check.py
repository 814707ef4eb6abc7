# expect: calm touches table Clicks
# expect: only functions bound with @app.on touch tables
# line: 25
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

    @ms.check
    def calm(row):
        return Clicks[row.balance].count(last=60) < 5


@app.history(key=int, keep=64)
class Clicks:
    page: int
    name: str


@app.on(Click)
def click(e):
    Account[e.user].balance = 1
