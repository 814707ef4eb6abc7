# expect: history Clicks can't keep 0 entries
# expect: from 1 to 4096
# line: 11
# ruff: noqa

import mainstem as ms

app = ms.App("bad")


@app.history(key=int, keep=0)
class Clicks:
    page: int
