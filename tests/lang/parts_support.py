"""A model that runs functions whole and in parts, in plain Python, on the same rows.

It is the simplest that can tell the two apart: a transaction works on a view of the rows before it, a part on a view of
its own; what it stores to the sites that it owns is collected. Transactions that an engine runs whole are left out.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

from mainstem.engine import library
from mainstem.lang import emit, ir, value_source
from mainstem.lang.flow import Flow
from mainstem.lang.lowering import Lowered
from mainstem.lang.parts import Part, decompose
from mainstem.schema import MISSING, Field, TableSchema, Type

_EPOCH = datetime.datetime(1970, 1, 1)
_GARBAGE = {"float": 2.5}  # what a null field holds

Row = tuple[int, tuple[int, ...]]  # table and key
Listed = tuple[int, int, Row]  # site, turn of its key loop, row


class Codes:
    """Texts as numbers; the empty one is 0."""

    def __init__(self) -> None:
        self.known: dict[object, int] = {"": 0, b"": 0}

    def of(self, value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            return (value - _EPOCH) // datetime.timedelta(microseconds=1)
        if isinstance(value, tuple | list):
            return [self.of(v) for v in value]
        return self.known.setdefault(value, len(self.known)) if isinstance(value, str | bytes) else value


@dataclass
class View:
    """Rows as one transaction or part sees them."""

    base: dict[Row, dict[str, Any]]
    empty: list[dict[str, Any]]  # per table, a missing row
    static: dict[int, Row]
    listed: set[Row]
    own: dict[Row, dict[str, Any]] = field(default_factory=dict)
    stored: dict[int, set[Row]] = field(default_factory=dict)  # per site
    answer: dict[str, Any] | None = None

    def given(self, site: int) -> Row:
        assert site in self.static, f"the key of site {site} was not computed"
        return self.static[site]

    def reach(self, table: int, *key: int) -> Row:
        assert (table, key) in self.listed, f"key {key} was not listed"
        return table, key

    def row(self, row: Row) -> dict[str, Any]:
        return self.own.get(row) or self.base.get(row) or self.empty[row[0]]

    def change(self, site: int, row: Row) -> dict[str, Any]:
        self.stored.setdefault(site, set()).add(row)
        if row not in self.own:
            self.own[row] = _copy(self.row(row))
        return self.own[row]

    def store(self, site: int, row: Row, name: str, value: Any, index: int | None = None) -> None:
        record = self.change(site, row)
        record["_alive"] = 1
        if index is None:
            record[name] = value
        else:
            record[name][index] = value

    def delete(self, site: int, row: Row) -> None:
        self.change(site, row).update(_copy(self.empty[row[0]]))


def _copy(record: dict[str, Any]) -> dict[str, Any]:
    return {name: list(v) if isinstance(v, list) else v for name, v in record.items()}


class BlockWriter(emit.Writer):
    """A body or a part as a function of a view; gives the abort code and the position of the abort."""

    def __init__(self, lines: emit.Lines, body: emit.Body, block: ir.Block) -> None:
        super().__init__(lines)
        self.body, self.position = body, {id(s): n for n, s in enumerate(ir.walk(block))}
        self.current = -1

    def leave(self, code: str) -> None:
        self.lines.add(f"return {code}, {self.current}")

    def statement(self, s: ir.Statement) -> None:
        self.current = self.position.get(id(s), -1)
        super().statement(s)

    def special(self, s: ir.Statement) -> None:
        add = self.lines.add
        match s:
            case ir.Turn():
                add(f"{s.variable} = {s.start.text} + turn * {s.step}", "if True:")
                self.block(s.body)
            case ir.Resolve() if self.body.sites[s.site].dynamic:
                keys = "".join(f", {k.text}" for k in s.key)
                add(f"r{s.site} = view.reach({self.body.sites[s.site].table}{keys})")
            case ir.Resolve():
                add(f"r{s.site} = view.given({s.site})")
            case ir.Load():
                add(f"{s.target} = view.row(r{s.site})['{s.field}']{f'[{s.index}]' if s.index else ''}")
            case ir.Exists():
                add(f"{s.target} = view.row(r{s.site})['_alive'] != 0")
            case ir.Store():
                text = f"1 if {s.value.text} else 0" if s.value.base == "bool" else s.value.text
                add(f"view.store({s.site}, r{s.site}, '{s.field}', {text}, {s.index})")
            case ir.Delete():
                add(f"view.delete({s.site}, r{s.site})")
            case ir.Return():
                columns = ", ".join(f"'{c}': (None if {v.null} else {v.text})" for c, v in s.columns)
                if s.number:
                    add(f"view.answer = {{'return': {s.number}, {columns}}}")
                self.leave("0")
            case _:
                super().special(s)


class ListWriter(emit.Writer):
    """The key slice: lists the keys of every site, and counts the turns of the outermost loops."""

    def __init__(self, lines: emit.Lines, body: emit.Body) -> None:
        super().__init__(lines)
        self.body = body

    def leave(self, code: str) -> None:
        self.lines.add("return")

    def checked(self, s: ir.Checked) -> None:
        self.lines.add(f"{s.target}, _ = {self.call(s)}")

    def item(self, s: ir.Item) -> str:
        return f"{super().item(s)} if lo_{s.field} + {s.index.text} < hi_{s.field} else 0"

    def statement(self, s: ir.Statement) -> None:
        if self.lines.depth > 1 or not isinstance(s, ir.For):
            super().statement(s)
            return
        self.lines.add("turn = -1", f"for {s.variable} in range({s.start.text}, {s.stop.text}, {s.step}):")
        self.lines.add("    turn += 1", f"    turns['{s.variable}'] = turn + 1")
        self.block(s.body)
        self.lines.add("turn = -1")

    def special(self, s: ir.Statement) -> None:
        if isinstance(s, ir.Resolve):
            self.lines.add(f"note({s.site}, turn, {''.join(f'{k.text}, ' for k in s.key)})")
        else:
            assert isinstance(s, ir.Return)
            self.leave("0")


class Model:
    """One function: its body, its parts and its keys as callables."""

    def __init__(self, body: emit.Body, parts: tuple[Part, ...], space: dict[str, Any], codes: Codes) -> None:
        self.body, self.parts, self.codes = body, parts, codes
        self.space = space
        self.whole = self._function(body.block)
        self.slices = [self._function(part.block) for part in parts]
        self.keys = self._keys() if body.slice is not None else None

    def _function(self, block: ir.Block) -> Any:
        lines = emit.Lines()
        lines.add(f"def run(view, turn, {', '.join(self._event_names())}):")
        writer = BlockWriter(lines, self.body, block)
        writer.block(block)
        lines.add("    return 0, -1")
        return self._load(lines)

    def _keys(self) -> Any:
        lines = emit.Lines()
        lines.add(f"def run(note, turns, {', '.join(self._event_names())}):", "    turn = -1")
        assert self.body.slice is not None
        ListWriter(lines, self.body).block(self.body.slice)
        return self._load(lines)

    def _load(self, lines: emit.Lines) -> Any:
        space = dict(self.space)
        exec("\n".join(lines.text), space)
        return space["run"]

    def _event_names(self) -> list[str]:
        names = []
        for name, t in self.body.fields.items():
            names += [f"x_{name}", f"lo_{name}", f"hi_{name}"] if t.is_list else [f"e_{name}"]
            names += [f"ne_{name}"] if t.nullable else []
        return names

    def event(self, values: dict[str, Any]) -> dict[str, Any]:
        """The locals that generated code finds an event in."""
        found: dict[str, Any] = {}
        for name, t in self.body.fields.items():
            value = values[name]
            if t.nullable:
                found[f"ne_{name}"] = value is None
            if t.is_list:
                cells = self.codes.of(value or [])
                found |= {f"x_{name}": [*cells, 0], f"lo_{name}": 0, f"hi_{name}": len(cells)}
            else:
                found[f"e_{name}"] = _GARBAGE.get(t.base, 3) if value is None else self.codes.of(value)
        return found

    def list_keys(self, event: dict[str, Any]) -> tuple[list[Listed], dict[str, int]]:
        listed: list[Listed] = []
        turns: dict[str, int] = {}

        def note(site: int, turn: int, *key: int) -> None:
            listed.append((site, turn, (self.body.sites[site].table, key)))

        if self.keys is not None:
            self.keys(note, turns, **event)
        for s in self.body.sites:
            if s.columns is not None:
                note(s.index, -1, *(event[f"e_{c}"] for c in s.columns))
        return listed, turns


def runs_whole(model: Model, listed: list[Listed]) -> bool:
    """What the engine looks at before it splits a transaction."""
    apart = {site for part in model.parts if part.turns for site in part.owned}
    places: dict[Row, set[tuple[int, int]]] = {}
    for site, turn, row in listed:
        places.setdefault(row, set()).add((site, turn if site in apart else -1))
    return any(len(p) > 1 and any(model.body.sites[site].writes for site, _ in p) for p in places.values())


def split_run(model: Model, fresh: Any, event: dict[str, Any], turns: dict[str, int]) -> tuple[list[Any], Any, Any]:
    """Runs all parts: their failures as (code, precise), the rows that they made, and the answer."""
    failures, made, answer = [], {}, None
    for part, run in zip(model.parts, model.slices, strict=True):
        loop = next((s.variable for s in part.block if isinstance(s, ir.Turn)), None)
        for turn in range(turns.get(loop, 0) if loop is not None else 1):
            view = fresh()
            code, position = run(view, turn, **event)
            if code:
                failures.append((code, position in part.precise))
            for site in set(view.stored) & set(part.owned):
                for row in view.stored[site]:
                    assert row not in made, "two parts made one version"
                    made[row] = view.own[row]
            assert set(view.stored) <= {*part.owned, *part.private}
            answer = view.answer if part.answers else answer
    return failures, made, answer


def compare(model: Model, state: dict[Row, Any], empty: list[Any], values: dict[str, Any]) -> str:
    """One transaction, whole and in parts; `state` becomes what the whole run leaves. Tells what happened."""
    event = model.event(values)
    listed, turns = model.list_keys(event)
    static = {site: row for site, _, row in listed if not model.body.sites[site].dynamic}
    reachable = {row for site, _, row in listed if model.body.sites[site].dynamic}

    def fresh() -> View:
        return View(state, empty, static, reachable)

    view = fresh()
    code, _ = model.whole(view, 0, **event)
    outcome = "aborted" if code else "committed"
    if runs_whole(model, listed):
        outcome = "whole"
    else:
        failures, made, answer = split_run(model, fresh, event, turns)
        assert bool(failures) == bool(code), f"whole: {code}, parts: {failures}"
        assert all(c == code for c, precise in failures if precise), f"whole: {code}, parts: {failures}"
        if not code:
            assert repr(answer) == repr(view.answer)
            assert repr(sorted(made.items())) == repr(sorted(view.own.items()))
    if not code:
        state.update(view.own)
    return outcome


def missing_row(schema: TableSchema, codes: Codes) -> dict[str, Any]:
    def value(f: Field) -> Any:
        default = codes.of(f.type.zero if f.default is MISSING else f.default)
        return int(default) if f.type == Type("bool") else default

    return {"_alive": 0, **{f.name: value(f) for f in schema.fields}}


def lowered(app: Any) -> tuple[Lowered, list[emit.Body]]:
    """The functions of a program as blocks."""
    found = Lowered(app.spec)
    return found, [unit.body for unit in found.units]


def models(app: Any, codes: Codes) -> list[Model]:
    """The functions of a program that split."""
    builder, bodies = lowered(app)
    space = {"inlined": lambda f: f, "S": [codes.of(s) for s in builder.shared.strings], **library.names(jit=False)}
    for helper in builder.shared.helpers.values():
        exec("\n".join(value_source.helper_source(helper)), space)
    split = [(b, decompose(b, set(builder.checks), Flow(b.block))) for b in bodies]
    return [Model(body, parts, space, codes) for body, parts in split if parts]
