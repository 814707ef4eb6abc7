# expect: function validate of this transaction is bound to no event
# expect: @app.on(EventType) above def validate
# line: 38
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


def validate(e):
    ms.require(e.amount > 0, "amount")


app.transaction(validate)
