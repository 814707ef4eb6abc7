"""Comments on songs: what is popular now, and who was the first to leave an address.

    import mainstem as ms
    from mainstem.apps import comments

    events = comments.generate(100_000)
    result = comments.app.run(events)
    comments.app.state["popular"]      # the last window of every song
    comments.app.state["advertised"]   # the first comment with an e-mail address in the last window that has one
    assert comments.conserved(comments.initial(), events, result.outputs, comments.app.state)

    inputs = comments.inputs(events, 5)
    comments.app.run(inputs)           # the same comments by five inputs: the same windows

The text of every comment is searched for e-mail and IP addresses once, by the derived columns that windows take as
their condition.
"""

# mypy: ignore-errors
# A table is indexed by key and an event is its own type: type checkers can't see what a class decorator adds.

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

import mainstem as ms
from mainstem.apps.spam import has_email, matches
from mainstem.apps.workloads.comments import conserved, generate, initial, inputs, write_log

__all__ = ["app", "conserved", "generate", "has_ip", "initial", "inputs", "write_log"]

SIZE, ADVANCE = 30, 3
ADDRESS_SIZE, ADDRESS_ADVANCE = 20, 2

_BYTE = "(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
IP = rf"(?:^|[^0-9.]){_BYTE}(?:\.{_BYTE}){{3}}(?:$|[^0-9.])"
"""Four numbers up to 255, with points between them and none around."""

app = ms.App("comments")


@app.event
class Comment:
    user: int
    song: int
    text: str


def has_ip(text: pa.Array) -> pa.Array:
    """Whether each text holds an IP address."""
    return matches(text, ".", IP)


@app.derive(Comment, has_email=bool, has_address=bool)
def scan_text(batch):
    email = has_email(batch["text"])
    return {"has_email": email, "has_address": pc.or_(email, has_ip(batch["text"]))}


@app.table(key=int)
class Song:
    comments: int = 0
    hottest: int = 0  # comments in the best window so far


popular = app.window(
    Comment, size=SIZE, advance=ADVANCE, by="song", name="popular", comments=ms.count(), first_user=ms.first("user")
)
advertised = app.window(
    Comment, size=ADDRESS_SIZE, advance=ADDRESS_ADVANCE, by="song", name="advertised", where="has_email",
    emails=ms.count(), first_user=ms.first("user"),
)  # fmt: skip
addressed = app.window(
    Comment, size=ADDRESS_SIZE, advance=ADDRESS_ADVANCE, by="song", name="addressed", where="has_address",
    addresses=ms.count(), first_user=ms.first("user"),
)  # fmt: skip


@app.on(Comment)
def comment(e):
    Song[e.song].comments += 1
    return {"recent": popular[e.song].comments}


@app.on(popular)
def hottest(e):
    song = Song[e.song]
    if e.comments > song.hottest:
        song.hottest = e.comments
