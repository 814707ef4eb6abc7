# expect: a transaction group has no function
# expect: @app.on(EventType)
# line: 34
# ruff: noqa

import mainstem as ms

app = ms.App("bad")


@app.event
class Transfer:
    src: int
    dst: int
    amount: int


@app.event
class Deposit:
    account: int
    amount: int


@app.table(key=int)
class Account:
    balance: int = 0


@app.table(key=int)
class Limit:
    used: int = 0


with app.atomic(Transfer):
    pass
