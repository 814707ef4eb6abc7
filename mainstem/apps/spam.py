"""Spam rules of a social network: the canonical program of ReStream (section 2.1).

A message is spam when its sender has written to strangers more than `SPAM_RATIO` times as often as to friends, and more
than a share of `SPAM_SHARE` of the messages from its IP address hold an e-mail address. Counts include the message.

    import mainstem as ms
    from mainstem.apps import spam

    events = spam.generate(100_000)
    result = spam.app.run(events, initial=spam.initial())
    result.outputs["spam"]             # true or false per message, null for friendships
    spam.app.state["Origin"]           # key (the IP address), messages, emails
    assert spam.conserved(spam.initial(), events, result.outputs, spam.app.state)

`app` scans the text of every message. `app_without_scan` is the same program for a log that has the result of the scan
as a column, `has_email`; it does not read the text at all. Logs of the generator have both.
"""

# mypy: ignore-errors
# A table is indexed by key and an event is its own type: type checkers can't see what a class decorator adds.

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import mainstem as ms
from mainstem.apps.workloads.spam import conserved, generate, initial, write_log

__all__ = ["app", "app_without_scan", "build", "conserved", "generate", "has_email", "initial", "matches", "write_log"]

SPAM_RATIO = 2
SPAM_SHARE = 0.2

EMAIL = r"[A-Za-z0-9._%+-]@[A-Za-z0-9.-]+\.[A-Za-z]{2}"
"""Some part of an address from its last character before the @ on: enough to know that there is one."""


def has_email(content: pa.Array) -> pa.Array:
    """Whether each text holds an e-mail address."""
    return matches(content, "@", EMAIL)


def matches(content: pa.Array, mark: str, pattern: str) -> pa.Array:
    """Whether each text matches `pattern`, which only texts with the character `mark` can.

    The bytes of all texts are searched for the mark at once, and the pattern is tried on the few that have one: a third
    of the time of `match_substring_regex` on every text, and of `match_substring(content, mark)`.
    """
    found = np.zeros(len(content), dtype=bool)
    _, offsets, text = content.buffers()
    if text is not None:
        ends = np.frombuffer(offsets, np.int32)[content.offset : content.offset + len(content) + 1]
        (at,) = np.nonzero(np.frombuffer(text, np.uint8)[ends[0] : ends[-1]] == ord(mark))
        rows = np.unique(np.searchsorted(ends, at + ends[0], side="right") - 1)
        found[rows] = pc.match_substring_regex(content.take(pa.array(rows)), pattern)
    return pa.array(found)


def build(scan: bool = True) -> ms.App:
    """The program; with `scan=False` for logs in which the column `has_email` says what a scan would find."""
    app = ms.App("spam" if scan else "spam_without_scan")

    @app.event
    class Friendship:
        a: int  # may write to b from now on
        b: int

    if scan:

        @app.event
        class Message:
            sender: int
            recipient: int
            ip: int
            content: str

        @app.derive(Message, has_email=bool)
        def scan_content(batch):
            return {"has_email": has_email(batch["content"])}

    else:

        @app.event
        class Message:
            sender: int
            recipient: int
            ip: int
            has_email: bool

    @app.table(key=(int, int))
    class Friends:
        yes: bool = False

    @app.table(key=int)
    class Sender:
        to_friends: int = 0
        to_others: int = 0

    @app.table(key=int)  # IP address
    class Origin:
        messages: int = 0
        emails: int = 0

    @app.on(Friendship)
    def befriend(e):
        Friends[e.a, e.b].yes = True

    @app.on(Message)
    def message(e):
        sender = Sender[e.sender]
        if Friends[e.sender, e.recipient].yes:
            sender.to_friends += 1
        else:
            sender.to_others += 1
        origin = Origin[e.ip]
        origin.messages += 1
        if e.has_email:
            origin.emails += 1
        by_sender = sender.to_others > SPAM_RATIO * sender.to_friends
        by_origin = origin.emails > SPAM_SHARE * origin.messages
        return {"spam": by_sender and by_origin}

    return app


app = build()
app_without_scan = build(scan=False)
