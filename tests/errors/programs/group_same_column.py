# expect: validate and book of the transaction group 'validate+book' both return the column 'left'
# expect: its own name
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


with app.atomic(Transfer):

    @app.on(Transfer)
    def validate(e):
        return {"left": Limit[e.src].used}

    @app.on(Transfer)
    def book(e):
        if e.amount > 3:
            return
        return {"left": Account[e.src].balance}
