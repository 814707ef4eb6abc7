# expect: a table needs a key, and Limit is no type of one
# expect: write @app.table(key=int)
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


@app.table
class Limit:
    used: int = 0
