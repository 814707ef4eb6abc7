# expect: field Clicks.ts is there already
# expect: every entry has the ts of its event
# line: 11
# ruff: noqa

import mainstem as ms

app = ms.App("bad")


@app.history(key=int, keep=5)
class Clicks:
    ts: int
