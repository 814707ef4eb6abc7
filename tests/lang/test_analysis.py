"""What analysis finds: sites, dependencies, the table graph, plans."""

from __future__ import annotations

import pytest

import mainstem as ms
from mainstem.lang import dataflow, plan_of


def bank(body: str = "") -> ms.App:
    app = ms.App("bank")

    @app.event
    class Transfer:
        src: int
        dst: int
        amount: int

    @app.table(key=int)
    class Account:
        balance: int = 0

    @app.table(key=int)
    class Audit:
        count: int = 0

    @app.on(Transfer)
    def transfer(e):
        source = Account[e.src]
        if source.balance >= e.amount:
            source.balance -= e.amount
            Account[e.dst].balance += e.amount
        Audit[e.src % 10].count += 1
        return {"left": Account[e.src].balance}

    return app


def texts(app: ms.App, numbers: tuple[int, ...]) -> set[str]:
    return {app.program.functions[0].sites[i].text for i in numbers}


def test_sites_with_one_key_expression_are_one() -> None:
    sites = bank().program.functions[0].sites
    assert [s.text for s in sites] == ["Account[e.src]", "Account[e.dst]", "Audit[e.src % 10]"]
    assert [s.columns for s in sites] == [("src",), ("dst",), None]
    assert [(s.reads, s.writes) for s in sites] == [(True, True), (True, True), (True, True)]


def test_a_write_depends_on_what_its_value_and_its_condition_read() -> None:
    app = bank()
    found = app.program.functions[0].dependencies
    needs = {app.program.functions[0].sites[j].text: texts(app, d) for j, d in found.per_write}
    assert needs["Account[e.src]"] == {"Account[e.src]"}
    assert needs["Account[e.dst]"] == {"Account[e.src]", "Account[e.dst]"}
    assert needs["Audit[e.src % 10]"] == {"Audit[e.src % 10]"}
    # dst may be the same account, so what is left can depend on it.
    assert texts(app, found.output) == {"Account[e.src]", "Account[e.dst]"}


def test_table_graph_counts_aborts_for_every_write() -> None:
    # `+=` may overflow, and then nothing is written: each table needs the other.
    assert bank().program.cyclic_tables == [["Account", "Audit"]]


def test_a_program_with_one_plain_key_is_keyed() -> None:
    app = ms.App("counts")

    @app.event
    class Click:
        user: str
        page: str

    @app.table(key=str)
    class User:
        clicks: int = 0
        last: str = ""

    @app.on(Click)
    def click(e):
        User[e.user].clicks += 1
        User[e.user].last = e.page

    assert app.program.keyed == {"Click": ("user",)}
    assert plan_of(app.program, dataflow(app.spec))[0] == "keyed"


def test_two_keys_are_not_keyed() -> None:
    assert bank().program.keyed is None
    app = bank()
    assert plan_of(app.program, dataflow(app.spec))[0] == "one_stage"


def test_explain_names_functions_tables_engine_and_plan() -> None:
    text = bank().explain()
    for part in (
        "transfer(Transfer)",
        "Account[e.src]",
        "key computed",
        "serial, compiled",
        "one_stage",
        "because",
    ):
        assert part in text
    graph = bank().explain("mermaid")
    assert graph.startswith("flowchart LR")
    assert '"transfer"' in graph
    assert bank().explain("svg").startswith("<svg")
    odd = bank()
    odd.transaction(odd.spec.functions[0].function, name='a "b"\nc')
    assert '|"a #quot;b#quot; c"|' in odd.explain("mermaid")
    with pytest.raises(ms.ProgramError, match="can't write 'png'"):
        bank().explain("png")  # type: ignore[arg-type]


def test_what_can_not_be_compiled_runs_interpreted_and_says_so() -> None:
    app = ms.App("words")

    @app.event
    class Message:
        user: int
        text: str

    @app.table(key=str)
    class Word:
        count: int = 0

    @app.on(Message)
    def split(e):
        for word in e.text.lower().split():
            Word[word].count += 1
        return {"words": len(e.text.split()), "first": e.text[:1]}

    events = [Message(ts=i, user=i, text=t) for i, t in enumerate(["a b", "B c", "", "a a"])]
    result = app.run(events, batch=2)
    assert result.stats.engines == ("interpreted",)
    assert "interpreted (Python speed), because" in app.explain()
    assert app.state["Word"].to_pydict() == {"key": ["a", "b", "c"], "count": [3, 2, 1]}
    oracle = app.run(events, engine="oracle")
    assert oracle.outputs.to_pylist() == result.outputs.to_pylist()
    assert oracle.digest == result.digest
    with pytest.raises(ms.ProgramError, match="can't run compiled"):
        app.run(events, engine="serial")
