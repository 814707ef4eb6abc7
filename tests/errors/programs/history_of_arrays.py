# expect: field Clicks.page is Array[int, 3]
# expect: plain values
# line: 11
# ruff: noqa

import mainstem as ms

app = ms.App("bad")


@app.history(key=int, keep=5)
class Clicks:
    page: ms.Array[int, 3]
