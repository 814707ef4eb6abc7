"""Blocks to kernel source: plain Python over NumPy arrays, which Numba compiles and CPython runs alike.

Names inside generated functions:

    S               codes of constant strings
    x_f, ok_f, off_f      column f of the event type; its validity; its list offsets
    e_f, ne_f, lo_f, hi_f this event's value of f; whether it is null; where its list begins and ends
    l_x, ln_x             the user's local x; whether it is null
    R3, r3, w3      row numbers of static site 3; the row of this transaction; "already noted as written"
    T0, Z0          rows of table 0; its default row
    V0, U0, u0      rows written; their records before (only where locals can't hold them); how many
    I0, H0, K0      direct table, hash slots and keys of table 0, for keys that vary in loops
    O4, N4, ret     output column 4; its nulls; which return was taken
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mainstem.lang import ir
from mainstem.schema import TableSchema, Type

# What a transaction gives that met a key without a row, or more rows than it has room to save. In the serial kernel, it
# runs once more after the key slices have; elsewhere these or `asks` ran before, and no transaction gives this code.
INTERNAL = 65535


@dataclass
class Body:
    """One bound function, ready to be written out."""

    index: int
    name: str
    kind: int
    block: ir.Block
    sites: list[ir.Site]
    fields: dict[str, Type]  # event fields that it reads
    slice: ir.Block | None
    tables_schemas: tuple[TableSchema, ...]
    first_return: int = 1  # the program-wide number of this function's first return with columns
    ids: dict[str, int] = field(default_factory=dict)  # output column -> its number in the program
    null_columns: set[str] = field(default_factory=set)  # columns that a return may leave null

    @property
    def tables(self) -> list[int]:
        return sorted({s.table for s in self.sites})

    @property
    def written(self) -> list[int]:
        return sorted({s.table for s in self.sites if s.writes})

    def stored(self, table: int) -> dict[int, list[str]]:
        """Per written site of the table: the fields that the function stores; all of them when it deletes the row."""
        found: dict[int, dict[str, None]] = {s.index: {} for s in self.sites if s.table == table and s.writes}
        for s in ir.walk(self.block):
            if isinstance(s, ir.Store) and s.site in found:
                found[s.site][s.field] = None
            elif isinstance(s, ir.Delete) and s.site in found:
                found[s.site].update(dict.fromkeys(f.name for f in self.tables_schemas[table].fields))
        return {site: list(names) for site, names in found.items()}

    def kept_in_locals(self, table: int) -> bool:
        """Whether old values fit in locals: rows known from the start, plain fields. Else records are copied."""
        schema = self.tables_schemas[table]
        arrays = {f.name for f in schema.fields if f.type.length}
        return all(
            self.sites[site].columns is not None and not arrays.intersection(names)
            for site, names in self.stored(table).items()
        )

    @property
    def undone(self) -> list[int]:
        """Tables whose records the caller copies back after an abort."""
        return [i for i in self.written if not self.kept_in_locals(i)]

    @property
    def unbounded(self) -> list[int]:
        """Tables of which it may write more rows than it has sites."""
        return sorted({s.table for s in self.sites if s.writes and s.dynamic})

    @property
    def computes_keys(self) -> bool:
        """Whether it may give `INTERNAL`."""
        return any(s.columns is None for s in self.sites)

    @property
    def columns(self) -> list[str]:
        names = {c: None for s in ir.walk(self.block) if isinstance(s, ir.Return) for c, _ in s.columns}
        return list(names)


class Lines:
    def __init__(self) -> None:
        self.text: list[str] = []
        self.depth = 0

    def add(self, *lines: str) -> None:
        self.text.extend("    " * self.depth + line for line in lines)


def event_parameters(fields: dict[str, Type]) -> list[str]:
    names = []
    for name, type_ in fields.items():
        names.append(f"x_{name}")
        if type_.nullable:
            names.append(f"ok_{name}")
        if type_.is_list:
            names.append(f"off_{name}")
    return names


def load_event(lines: Lines, fields: dict[str, Type]) -> None:
    for name, type_ in fields.items():
        if name == "ts":
            lines.add("e_ts = x_ts[j]")
        elif type_.is_list:
            lines.add(f"lo_{name} = natural(off_{name}[p])", f"hi_{name} = natural(off_{name}[p + 1])")
        else:
            test = " != 0" if type_.base == "bool" else ""
            lines.add(f"e_{name} = x_{name}[p]{test}")
        if type_.nullable:
            lines.add(f"ne_{name} = ok_{name}[p] == 0")


class Writer:
    """Writes blocks of one generated function; subclasses say what leaving it means."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines

    def leave(self, code: str) -> None:
        raise AssertionError("a subclass says how a function ends")

    def block(self, block: ir.Block) -> None:
        self.lines.depth += 1
        before = len(self.lines.text)
        for statement in block:
            self.statement(statement)
        if len(self.lines.text) == before:
            self.lines.add("pass")
        self.lines.depth -= 1

    def statement(self, s: ir.Statement) -> None:
        add = self.lines.add
        match s:
            case ir.Let():
                add(f"{s.target} = {s.text}")
            case ir.Item():
                add(f"{s.target} = {self.item(s)}")
            case ir.Checked():
                self.checked(s)
            case ir.If():
                add(f"if {s.condition.text}:")
                self.block(s.then)
                if s.otherwise:
                    add("else:")
                    self.block(s.otherwise)
            case ir.For():
                add(f"for {s.variable} in range({s.start.text}, {s.stop.text}, {s.step}):")
                self.block(s.body)
            case ir.Once():
                add("for _ in range(1):")
                self.block(s.body)
            case ir.While():
                add("while True:")
                self.block(
                    [
                        *s.head,
                        ir.If(s.line, ir.Value(f"not ({s.condition.text})", "bool"), [ir.Break(s.line)], []),
                        *s.body,
                    ]
                )
            case ir.Break():
                add("break")
            case ir.Continue():
                add("continue")
            case ir.AbortIf():
                add(f"if {s.condition.text}:")
                self.lines.depth += 1
                self.leave(str(s.code))
                self.lines.depth -= 1
            case _:
                self.special(s)

    def item(self, s: ir.Item) -> str:
        return f"x_{s.field}[lo_{s.field} + {s.index.text}]{' != 0' if s.is_bool else ''}"

    def call(self, s: ir.Checked) -> str:
        arguments = [a.text for a in s.arguments]
        return f"{s.call}({', '.join(arguments)}{', S' if s.call.startswith('h') and s.call[1:2].isdigit() else ''})"

    def checked(self, s: ir.Checked) -> None:
        self.lines.add(f"{s.target}, c = {self.call(s)}", "if c != 0:")
        self.lines.depth += 1
        self.leave("c")
        self.lines.depth -= 1

    def special(self, s: ir.Statement) -> None:
        raise AssertionError(f"{type(s).__name__} in {type(self).__name__}")


class TransactionWriter(Writer):
    """The body on resolved rows: `(code, undo count per written table …)`."""

    def __init__(self, lines: Lines, body: Body) -> None:
        super().__init__(lines)
        self.body, self.undone, self.unbounded = body, body.undone, body.unbounded

    def leave(self, code: str) -> None:
        counts = [f"u{i}" for i in self.body.written] or ["0"]
        self.lines.add(f"return {code}, {', '.join(counts)}")

    def special(self, s: ir.Statement) -> None:
        add = self.lines.add
        match s:
            case ir.Resolve():
                self._resolve(s)
            case ir.Load():
                add(f"{s.target} = {self._cell(s.site, s.field, s.index)}")
            case ir.Exists():
                add(f"{s.target} = {self._cell(s.site, '_alive')} != 0")
            case ir.Store():
                self._save(s.site)
                text = f"1 if {s.value.text} else 0" if s.value.base == "bool" else s.value.text
                add(f"{self._cell(s.site, s.field, s.index)} = {text}", f"{self._cell(s.site, '_alive')} = 1")
            case ir.Delete():
                self._save(s.site)
                table = self._site(s.site).table
                add(f"T{table}[r{s.site}] = Z{table}[0]")
            case ir.Return():
                self._return(s)
            case _:
                super().special(s)

    def _site(self, index: int) -> ir.Site:
        return self.body.sites[index]

    def _cell(self, site: int, field_name: str, index: str | None = None) -> str:
        return f"T{self._site(site).table}[r{site}]['{field_name}']{f'[{index}]' if index else ''}"

    def _resolve(self, s: ir.Resolve) -> None:
        site = self._site(s.site)
        if site.columns is not None:
            return
        if site.dynamic:
            self.lines.add(f"r{s.site} = {look_up([k.text for k in s.key], site.table)}")
            if site.writes:
                seen = f"saved(V{site.table}, u{site.table}, r{s.site})" if site.repeats else "False"
                self.lines.add(f"w{s.site} = {seen}")
        else:
            self.lines.add(f"r{s.site} = R{s.site}[j]")
        self._leave_if(f"r{s.site} < 0")

    def _leave_if(self, condition: str) -> None:
        self.lines.add(f"if {condition}:")
        self.lines.depth += 1
        self.leave(str(INTERNAL))
        self.lines.depth -= 1

    def _save(self, site: int) -> None:
        """Notes the row once per site, with its record; one record twice is harmless, because undo runs backwards."""
        table = self._site(site).table
        self.lines.add(f"if not w{site}:")
        if table in self.unbounded:
            self.lines.depth += 1
            self._leave_if(f"u{table} >= len(V{table})")
            self.lines.depth -= 1
        if table in self.undone:
            self.lines.add(f"    U{table}[u{table}] = T{table}[r{site}]")
        self.lines.add(
            f"    V{table}[u{table}] = r{site}",
            f"    u{table} += 1",
            f"    w{site} = True",
        )

    def _return(self, s: ir.Return) -> None:
        ids = self.body.ids
        for column, value in s.columns:
            if value.base != "none":
                text = f"1 if {value.text} else 0" if value.base == "bool" else value.text
                self.lines.add(f"O{ids[column]}[t] = {text}")
            if column in self.body.null_columns:
                self.lines.add(f"N{ids[column]}[t] = {f'1 if {value.null} else 0' if value.null else '0'}")
        if s.number:
            self.lines.add(f"ret[t] = {self.body.first_return + s.number - 1}")
        self.leave("0")


def look_up(key: Sequence[str], table: int) -> str:
    """The row of a key that varies in a loop, or -1."""
    if len(key) == 1:
        return f"row_of(I{table}, H{table}, K{table}, {key[0]})"
    return f"probe{len(key)}(H{table}, K{table}, {', '.join(key)})"


def index_parameters(table: int, schemas: tuple[TableSchema, ...]) -> list[str]:
    """What `look_up` reads."""
    return [f"I{table}"] * (len(schemas[table].key) == 1) + [f"H{table}", f"K{table}"]


def transaction_parameters(body: Body) -> list[str]:
    names = ["j", "p", "t", "S", *event_parameters(body.fields)]
    names += [f"R{s.index}" for s in body.sites if not s.dynamic]
    for i in body.tables:
        names.append(f"T{i}")
        if i in body.undone:
            names.append(f"U{i}")
        if i in body.written:
            names.append(f"V{i}")
        if any(isinstance(s, ir.Delete) and body.sites[s.site].table == i for s in ir.walk(body.block)):
            names.append(f"Z{i}")
        if any(s.dynamic and s.table == i for s in body.sites):
            names += index_parameters(i, body.tables_schemas)
    ids = body.ids
    for column in body.columns:
        names.append(f"O{ids[column]}")
        if column in body.null_columns:
            names.append(f"N{ids[column]}")
    if body.columns:
        names.append("ret")
    return names


def transaction_source(body: Body, checked: set[int]) -> list[str]:
    """`body_f` is the function; `txn_f` adds the checks of what it wrote, and puts back what it kept in locals."""
    lines = Lines()
    parameters = transaction_parameters(body)
    lines.add("@inlined", f"def body_{body.index}({', '.join(parameters)}):")
    lines.depth += 1
    load_event(lines, body.fields)
    lines.add(*(f"r{s.index} = R{s.index}[j]" for s in body.sites if s.columns is not None))
    lines.add(*(f"w{s.index} = False" for s in body.sites if s.writes and not s.dynamic))
    lines.add(*(f"u{i} = 0" for i in body.written))
    lines.depth -= 1
    TransactionWriter(lines, body).block(body.block)
    counts = [f"u{i}" for i in body.written] or ["_"]
    lines.add("", "@inlined", f"def txn_{body.index}({', '.join(parameters)}):")
    kept = _kept_values(body)
    lines.add(*(f"    {name} = {cell}" for name, cell in kept))
    lines.add(f"    code, {', '.join(counts)} = body_{body.index}({', '.join(parameters)})")
    for i in body.written:
        if i in checked:
            lines.add("    if code == 0:", f"        code = checks_{i}(T{i}, V{i}, u{i}, S)")
    if kept:
        lines.add("    if code != 0:", *(f"        {cell} = {name}" for name, cell in kept))
    lines.add(f"    return code, {', '.join(counts)}")
    return lines.text


def _kept_values(body: Body) -> list[tuple[str, str]]:
    """(local, cell) of every value that an abort puts back; all are read before the first write, so order is free."""
    kept = []
    for i in body.written:
        if i not in body.undone:
            for site, fields in body.stored(i).items():
                cells = ["_alive", *fields]
                kept += [(f"o{site}_{name}", f"T{i}[R{site}[j]]['{name}']") for name in cells]
    return kept
