# expect: there is no isolation level 'PL5'
# expect: PL1, PL2, PL3, PL4
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


with app.atomic(Transfer, isolation="PL5"):
    pass
