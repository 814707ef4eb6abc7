# expect: the default of field Limit.steps is (1, 'two')
# expect: give a default of that type
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


@app.table(key=int)
class Limit:
    steps: ms.Array[int, 2] = (1, "two")
