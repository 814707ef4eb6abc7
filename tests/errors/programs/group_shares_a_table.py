# expect: table Account is changed or read by 'validate+book' (PL3) and 'deposit' (PL4)
# expect: isolation="PL4"
# line: 37
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


with app.atomic(Transfer, isolation="PL3"):

    @app.on(Transfer)
    def validate(e):
        ms.require(Account[e.src].balance >= e.amount, "balance")

    @app.on(Transfer)
    def book(e):
        Limit[e.src].used += e.amount


@app.on(Deposit)
def deposit(e):
    Account[e.account].balance += e.amount
