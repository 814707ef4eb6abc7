# expect: derived column z is a fixed array
# expect: use list[…] in events
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


@app.derive(Transfer, z=ms.Array[int, 2])
def derived(batch):
    return {"z": batch["src"]}
