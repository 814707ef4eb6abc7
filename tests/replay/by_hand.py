"""A program in three stages, cut by hand: what a dataflow is, without the code that finds one."""

from __future__ import annotations

import random

import pyarrow as pa

import mainstem as ms
from mainstem.lang.dataflow import Carry, Dataflow, Home, Piece, Stage

app = ms.App("mail")


@app.event
class Link:
    a: int
    b: int


@app.event
class Mail:
    who: int
    peer: int
    host: str
    size: int | None
    marks: list[int]
    urgent: bool


@app.table(key=(int, int))
class Friends:
    yes: bool = False
    times: int = 0


@app.table(key=int)
class Sender:
    good: int = 0
    bad: int = 0
    host: str = "nowhere"


@app.table(key=str)
class Host:
    total: int = 100
    share: float = 0.5


@app.on(Link)
def link(e):
    Friends[e.a, e.b].yes = not Friends[e.a, e.b].yes
    Friends[e.a, e.b].times += 1


@app.on(Mail)
def mail(e):
    ms.require(e.size is None or e.size >= 0, "a size is not negative")
    before = Sender[e.who].host
    if Friends[e.who, e.peer].yes:
        Sender[e.who].good += 1
    else:
        Sender[e.who].bad += 1
        Sender[e.who].host = e.host
    for mark in e.marks:
        Host[e.host].total += mark
    if Sender[e.who].bad > 2 or e.urgent:
        Host[e.host].share = Host[e.host].share / 2.0 + Sender[e.who].good + e.ts % 7
    return {"before": before, "good": Sender[e.who].good, "total": Host[e.host].total, "share": Host[e.host].share}


def friends_stage() -> ms.App:
    app = ms.App("mail_0")

    @app.event
    class p0:
        a: int
        b: int

    @app.event
    class p1:
        who: int
        peer: int

    @app.table(key=(int, int))
    class Friends:
        yes: bool = False
        times: int = 0

    @app.on(p0)
    def link(e):
        Friends[e.a, e.b].yes = not Friends[e.a, e.b].yes
        Friends[e.a, e.b].times += 1

    @app.on(p1)
    def mail(e):
        return {"c1_yes": Friends[e.who, e.peer].yes}

    return app


def sender_stage() -> ms.App:
    """Its first piece reads for home, its second runs: both pieces of one event are in one stage."""
    app = ms.App("mail_1")

    @app.event
    class p0:
        who: int

    @app.event
    class p1:
        who: int
        host: str
        size: int | None
        c1_yes: bool

    @app.table(key=int)
    class Sender:
        good: int = 0
        bad: int = 0
        host: str = "nowhere"

    @app.on(p0)
    def read(e):
        return {"c2_host": Sender[e.who].host}

    @app.on(p1)
    def mail(e):
        ms.require(e.size is None or e.size >= 0, "a size is not negative")
        if e.c1_yes:
            Sender[e.who].good += 1
        else:
            Sender[e.who].bad += 1
            Sender[e.who].host = e.host
        return {"c3_good": Sender[e.who].good, "c3_bad": None if Sender[e.who].bad <= 2 else Sender[e.who].bad}

    return app


def host_stage() -> ms.App:
    app = ms.App("mail_2")

    @app.event
    class p0:
        host: str
        size: int | None
        marks: list[int]
        urgent: bool
        c3_good: int
        c3_bad: int | None

    @app.table(key=str)
    class Host:
        total: int = 100
        share: float = 0.5

    @app.on(p0)
    def mail(e):
        ms.require(e.size is None or e.size >= 0, "a size is not negative")
        for mark in e.marks:
            Host[e.host].total += mark
        if e.c3_bad is not None or e.urgent:
            Host[e.host].share = Host[e.host].share / 2.0 + e.c3_good + e.ts % 7
        return {"c4_total": Host[e.host].total, "c4_share": Host[e.host].share}

    return app


def home() -> ms.App:
    app = ms.App("mail")

    @app.event
    class Link:
        a: int  # an event type has a field; home does not take it

    @app.event
    class Mail:
        size: int | None
        c2_host: str
        c3_good: int
        c4_total: int
        c4_share: float

    @app.on(Link)
    def link(e):
        pass

    @app.on(Mail)
    def mail(e):
        ms.require(e.size is None or e.size >= 0, "a size is not negative")
        return {"before": e.c2_host, "good": e.c3_good, "total": e.c4_total, "share": e.c4_share}

    return app


LINK, MAIL = 0, 1


def flow(keyed: tuple[bool, bool, bool] = (True, True, True)) -> Dataflow:
    """Stages 0, 1 and 2 in waves 1, 2 and 3; those that are not keyed run in one task."""
    friends, sender, host = (("who", "peer"), ("who",), ("host",))
    keys = [key if is_keyed else None for key, is_keyed in zip((friends, sender, host), keyed, strict=True)]
    pieces = [
        Piece(0, 0, LINK, 0, 0, ("a", "b"), (), ("a", "b") if keyed[0] else None),
        Piece(1, 1, MAIL, 0, 1, ("who", "peer"), (), keys[0], ("c1_yes",)),
        Piece(2, 1, MAIL, 1, 0, ("who",), (), keys[1], ("c2_host",)),
        Piece(3, 1, MAIL, 1, 1, ("who", "host", "size"), (Carry(1, ("c1_yes",)),), keys[1], ("c3_good", "c3_bad"),
              first_return=2),
        Piece(4, 1, MAIL, 2, 0, ("host", "size", "marks", "urgent"), (Carry(3, ("c3_good", "c3_bad")),), keys[2],
              ("c4_total", "c4_share")),
        Piece(5, 0, LINK, -1, 0, (), (), None),
        Piece(6, 1, MAIL, -1, 1, ("size",),
              (Carry(2, ("c2_host",)), Carry(3, ("c3_good",)), Carry(4, ("c4_total", "c4_share"))), None),
    ]  # fmt: skip
    programs = [friends_stage().program, sender_stage().program, host_stage().program]
    stages = tuple(
        Stage(n, n + 1, (n,), keyed[n], "", program, tuple(p for p in pieces if p.stage == n))
        for n, program in enumerate(programs)
    )
    return Dataflow(app.program, stages, (Home(home().program, tuple(p for p in pieces if p.stage < 0)),), "tied")


def events(seed: int, count: int, *, users: int = 5, links: float = 0.3) -> pa.Table:
    """Links and mails in one input, with nulls in the columns of the other type."""
    draw = random.Random(seed)
    rows = []
    ts = 0
    for _ in range(count):
        ts += draw.choice((0, 1, 5))
        if draw.random() < links:
            rows.append({"ts": ts, "event": "Link", "a": draw.randrange(users), "b": draw.randrange(users)})
        else:
            rows.append({
                "ts": ts, "event": "Mail", "who": draw.randrange(users), "peer": draw.randrange(users),
                "host": draw.choice(("", "a", "süd", "a-longer-name")), "size": draw.choice((None, 3, 0, -1)),
                "marks": [draw.randrange(-3, 9) for _ in range(draw.randrange(4))], "urgent": draw.random() < 0.2,
            })  # fmt: skip
    schema = pa.schema({
        "ts": pa.int64(), "event": pa.string(), "a": pa.int64(), "b": pa.int64(), "who": pa.int64(),
        "peer": pa.int64(), "host": pa.string(), "size": pa.int64(), "marks": pa.list_(pa.int64()),
        "urgent": pa.bool_(),
    })  # fmt: skip
    return pa.Table.from_pylist(rows, schema)
