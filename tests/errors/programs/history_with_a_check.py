# expect: history Clicks has a check 'few'
# expect: ms.require
# line: 11
# ruff: noqa

import mainstem as ms

app = ms.App("bad")


@app.history(key=int, keep=5)
class Clicks:
    page: int

    @ms.check
    def few(row):
        return row.count() < 5
