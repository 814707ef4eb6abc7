# expect: a transaction group named 5
# expect: name="booking"
# line: 22
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


with app.atomic(Transfer, name=5):

    @app.on(Transfer)
    def book(e):
        Account[e.src].balance += e.amount
