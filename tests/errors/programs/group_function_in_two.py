# expect: function transfer is in the transaction group 'one' already
# expect: a function belongs to one group
# line: 45
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


@app.on(Transfer)
def audit(e):
    Limit[e.src].used += 1


app.transaction(transfer, name="one")
app.transaction(transfer, audit, name="two")
