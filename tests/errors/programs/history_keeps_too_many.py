# expect: history Clicks can't keep 5000 entries
# expect: from 1 to 4096
# line: 11
# ruff: noqa

import mainstem as ms

app = ms.App("bad")


@app.history(key=int, keep=5000)
class Clicks:
    page: int
