# expect: Transfer has a transaction group 'book' already
# expect: rename the function
# line: 29
# ruff: noqa

import mainstem as ms

app = ms.App("bad")


@app.event
class Transfer:
    src: int
    amount: int


@app.table(key=int)
class Account:
    balance: int = 0


with app.atomic(Transfer, name="book"):

    @app.on(Transfer)
    def validate(e):
        ms.require(e.amount > 0, "amount")


@app.on(Transfer)
def book(e):
    Account[e.src].balance += e.amount
