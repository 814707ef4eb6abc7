# expect: field Clicks.page has a default
# expect: append gives every field a value
# line: 11
# ruff: noqa

import mainstem as ms

app = ms.App("bad")


@app.history(key=int, keep=5)
class Clicks:
    page: int = 0
