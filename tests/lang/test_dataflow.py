"""How functions are cut along their tables: stages, waves, pieces, and what ties tables together."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

import mainstem as ms
from mainstem.lang import Dataflow, dataflow
from mainstem.lang.combine import combined

LIMIT = 3


def counters(kind: str = "plain") -> ms.App:
    """Reads Friend, then counts by sender and by place; `kind` adds what ties tables together."""
    app = ms.App("counters")

    @app.event
    class Message:
        sender: int
        to: int
        place: int
        words: list[int]

    @app.table(key=(int, int))
    class Friend:
        yes: bool = False

    @app.table(key=int)
    class Sender:
        known: int = 0
        others: int = 0

    @app.table(key=int)
    class Place:
        count: int = 0
        marks: ms.Array[int, 4]

    if kind == "require":

        @app.on(Message)
        def message(e):
            ms.require(Place[e.place].count < LIMIT, "too many")
            Sender[e.sender].known += 1
            Place[e.place].count += 1

    elif kind == "loop":

        @app.on(Message)
        def message(e):
            for word in e.words:
                Place[word].count += 1
            Sender[e.sender].known += 1

    elif kind == "array":

        @app.on(Message)
        def message(e):
            Place[e.place].marks[e.to % 4] += 1
            Sender[e.sender].known += Place[e.place].marks[0]

    else:

        @app.on(Message)
        def message(e):
            row = Sender[e.sender]
            if Friend[e.sender, e.to].yes or Friend[e.to, e.sender].yes:
                row.known += 1
            else:
                row.others += 1
            Place[e.place].count += 1
            return {"odd": row.others > LIMIT * row.known and Place[e.place].count > 1}

    return app


def stages(flow: Dataflow) -> list[tuple[int, tuple[str, ...], bool]]:
    return [(s.wave, tuple(flow.program.tables[t].name for t in s.tables), s.keyed) for s in flow.stages]


def test_tables_come_in_the_order_in_which_values_flow() -> None:
    flow = dataflow(counters().spec)
    assert stages(flow) == [(1, ("Friend",), True), (1, ("Place",), True), (2, ("Sender",), True)]
    # Two reads under two keys are two pieces; the writes run once each; the answer is where the last value is.
    assert [(p.stage, p.key) for p in flow.pieces] == [
        (0, ("sender", "to")), (0, ("to", "sender")), (1, ("place",)), (2, ("sender",)), (-1, None)
    ]  # fmt: skip
    answer = flow.pieces[3]
    assert [carry.producer for carry in answer.given] == [0, 1, 2]
    assert flow.pieces[-1].given[0].producer == answer.number


def test_counters_are_tied_only_when_overflow_counts() -> None:
    tied = dataflow(counters().spec, "tied")
    assert stages(tied) == [(1, ("Friend",), True), (2, ("Sender", "Place"), False)]
    assert "several keys at once" in tied.stages[1].why


@pytest.mark.parametrize(
    ("kind", "expected", "why"),
    [
        ("require", [(1, ("Place",), True), (2, ("Sender",), True)], ""),
        ("loop", [(1, ("Sender", "Place"), False)], "varies in a loop"),
        ("array", [(1, ("Sender", "Place"), False)], "is an array that another stage needs"),
    ],
)
def test_what_ties_tables(kind: str, expected: Any, why: str) -> None:
    flow = dataflow(counters(kind).spec)
    assert stages(flow) == expected
    assert all(why in (stage.why + str(flow.edges)) for stage in flow.stages)


def test_an_interpreted_app_has_no_stages() -> None:
    app = ms.App("words")

    @app.event
    class Said:
        text: str

    @app.on(Said)
    def said(e):
        return {"words": len(e.text.split())}

    with pytest.raises(ms.ProgramError, match="runs interpreted"):
        dataflow(app.spec)


def test_explain_draws_stages() -> None:
    app = counters()
    text = app.explain()
    assert "in shards by (sender, to) or (to, sender)" in text
    assert "message: Friend[(e.sender, e.to)]" in text
    assert 'subgraph w2["wave 2"]' in app.explain("mermaid")
    picture = ElementTree.fromstring(app.explain("svg"))
    assert {"Friend", "Sender", "Place", "outputs"} <= {t.text for t in picture.iter() if t.tag.endswith("text")}


def test_variants_share_the_stages_that_are_alike() -> None:
    app = counters()
    made = ms.variants(app, LIMIT=[1, 2, 3])
    assert [v.name for v in made] == ["counters(LIMIT=1)", "counters(LIMIT=2)", "counters(LIMIT=3)"]
    flow = combined([dataflow(v.spec) for v in made])
    assert len(flow.homes) == 3
    names = [flow.program.tables[s.tables[0]].name for s in flow.stages]
    assert names == ["Friend", "Place", "Sender", "Sender", "Sender"]  # the answer is in the stage of Sender
    assert sorted(p.number for p in flow.pieces) == list(range(len(flow.pieces)))
    producers = {p.number for s in flow.stages for p in s.pieces}
    assert all(carry.producer in producers for p in flow.pieces for carry in p.given)


def test_variants_change_results_and_leave_the_app_alone() -> None:
    app = counters("require")
    events = [{"event": "Message", "ts": i, "sender": 1, "to": 2, "place": 7, "words": []} for i in range(5)]
    import pyarrow as pa

    log = pa.Table.from_pylist(events, pa.schema([
        ("event", pa.string()), ("ts", pa.int64()), ("sender", pa.int64()), ("to", pa.int64()),
        ("place", pa.int64()), ("words", pa.list_(pa.int64())),
    ]))  # fmt: skip
    committed = [v.run(log).outputs["status"].to_pylist().count("committed") for v in ms.variants(app, LIMIT=[1, 4])]
    assert committed == [1, 4]
    assert app.run(log).outputs["status"].to_pylist().count("committed") == LIMIT


def test_variants_of_unknown_names_are_refused() -> None:
    with pytest.raises(ms.ProgramError, match="no function of app counters uses a constant 'SPEED'"):
        ms.variants(counters(), SPEED=[1])
    with pytest.raises(ms.ProgramError, match="has no value"):
        ms.variants(counters(), LIMIT=[])
    with pytest.raises(ms.ProgramError, match="variants of nothing"):
        ms.variants(counters())
