# expect: transfer on Transfer; deposit on Deposit
# expect: with app.atomic(EventType)
# line: 44
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


@app.on(Transfer)
def transfer(e):
    Account[e.src].balance -= e.amount


@app.on(Deposit)
def deposit(e):
    Account[e.account].balance += e.amount


app.transaction(transfer, deposit)
