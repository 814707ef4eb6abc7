# expect: app.window inside app.atomic(Transfer)
# expect: declare it outside
# line: 28
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


with app.atomic(Transfer):

    @app.on(Transfer)
    def book(e):
        Account[e.src].balance += e.amount

    app.window(Transfer, size=10, by="src", name="usage", n=ms.count())
