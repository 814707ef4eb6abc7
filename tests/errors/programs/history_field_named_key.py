# expect: field Seen.key is called like a column of the key
# expect: choose another name
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


@app.history(key=int, keep=4)
class Seen:
    key: int
