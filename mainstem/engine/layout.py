"""A batch as transactions, these as operations, and operations as vertices (`docs/design/engine.md`). Every strategy
reads these arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from mainstem.engine.buffers import Scratch
from mainstem.engine.kernels import load
from mainstem.engine.kernels.link import MARK, ROW_WORDS
from mainstem.engine.operations import Listed
from mainstem.engine.requests import Asking, Requests
from mainstem.lang import Program
from mainstem.state import TableState, words


@dataclass
class Batch:
    """Transactions and operations of one batch. Arrays live until the next batch."""

    fn: np.ndarray
    ev: np.ndarray
    inst_lo: np.ndarray
    inst_op: np.ndarray
    inst_site: np.ndarray
    inst_turn: np.ndarray
    alias: np.ndarray
    txn_lo: np.ndarray
    op_row: np.ndarray
    op_write: np.ndarray
    op_prev: np.ndarray
    op_writes_before: np.ndarray
    row_table: np.ndarray
    row_at: np.ndarray
    row_base: np.ndarray
    row_last: np.ndarray
    row_writes: np.ndarray
    row_ops: np.ndarray
    rows: int
    bases: np.ndarray  # distinct rows of each table

    @property
    def transactions(self) -> int:
        return len(self.fn)

    @property
    def ops(self) -> int:
        return int(self.txn_lo[self.transactions])


@dataclass
class Versions:
    """Slots of operations, and the records that they number, per table."""

    op_slot: np.ndarray
    op_src: np.ndarray
    op_ver: np.ndarray
    op_owner: np.ndarray
    slots: np.ndarray  # how many slots each table has handed out
    records: list[np.ndarray]


@dataclass
class Graph:
    """Vertices of some transactions of a batch."""

    todo: np.ndarray
    v_txn: np.ndarray
    v_part: np.ndarray
    v_turn: np.ndarray
    v_lo: np.ndarray
    t_lo: np.ndarray
    ref_op: np.ndarray
    ref_mode: np.ndarray
    ref_slot: np.ndarray
    ref_table: np.ndarray
    ref_row: np.ndarray
    A: np.ndarray
    v_code: np.ndarray

    @property
    def vertices(self) -> int:
        return int(self.t_lo[len(self.todo)])


@dataclass
class Numbered:
    """The transactions of a batch in their order. What only some strategies need is made when it is asked for."""

    layout: Layout
    arrays: dict[str, Any]
    scratch: Scratch
    fn: np.ndarray
    ev: np.ndarray
    start: int  # transactions before it have run

    def __len__(self) -> int:
        return len(self.fn)

    @cached_property
    def txns(self) -> list[np.ndarray]:
        """The transactions of each function, in the order of their events."""
        return self.layout.transactions(self)

    @cached_property
    def batch(self) -> Batch:
        return self.layout.operations(self)

    @cached_property
    def requests(self) -> Requests:
        return self.layout.requests(self)


class Layout:
    """Builds batches and graphs of one program on one state."""

    def __init__(self, program: Program, tables: list[TableState], jit: bool) -> None:
        self.program, self.tables, self.jit = program, tables, jit
        self.link, self.vertices = load("link", jit), load("vertices", jit)
        self._asking = Asking(program, jit)
        groups = program.per_kind
        self._group_lo = np.cumsum([0, *(len(g) for g in groups)])
        self._group_fn = np.array([f for g in groups for f in g], np.int64)
        # Static sites come in the order of their numbers; the refs of whole vertices follow it.
        self._static_sites = [[s for s in f.sites if not s.dynamic] for f in program.functions]
        self._static = np.array([len(sites) for sites in self._static_sites], np.int64)
        self._most_sites = max((len(f.sites) for f in program.functions), default=0)
        self._positions = [f"pos{f.kind}" for f in program.functions]
        self._parts = _PartTables(program, self._static_sites, self._most_sites)
        self._mark = 0
        self._seen = np.zeros(0, np.int64)
        self._sizes: list[int] = []
        self._table_lo = np.zeros(1, np.int64)

    # -- operations ---------------------------------------------------------------------------------------------

    def number(self, arrays: dict[str, Any], transactions: int, scratch: Scratch, start: int = 0) -> Numbered:
        """The transactions of a batch, of which those before `start` have run."""
        fn, ev = (scratch.array(f"layout {name}", transactions, np.int32) for name in ("fn", "ev"))
        numbered = Numbered(self, arrays, scratch, fn, ev, start)
        numbered.txns = self.transactions(numbered)
        return numbered

    def ask(self, arrays: dict[str, Any], transactions: int, scratch: Scratch) -> Numbered | None:
        """The same, with what they ask for, all in one pass; None where a key has no row yet."""
        self._number_rows()
        requests = self._asking.list(arrays, transactions, scratch, self._table_lo)
        if requests is None:
            return None
        numbered = Numbered(self, arrays, scratch, requests.fn, requests.ev, 0)
        numbered.requests = requests
        return numbered

    def transactions(self, numbered: Numbered) -> list[np.ndarray]:
        """Numbers them, and lists those of each function."""
        fn_txn = numbered.scratch.array("layout fn_txn", len(numbered), np.int64)
        seen = np.zeros(max(1, len(self.program.events)), np.int64)
        fn_lo = list(accumulate((len(numbered.arrays[name]) for name in self._positions), initial=0))
        self.link.number(
            numbered.arrays["kind"], self._group_lo, self._group_fn, seen, np.array(fn_lo), numbered.fn, numbered.ev,
            fn_txn,
        )  # fmt: skip
        return [fn_txn[a:b] for a, b in pairwise(fn_lo)]

    def batch(self, arrays: dict[str, Any], transactions: int, scratch: Scratch) -> Batch:
        """All operations of a batch."""
        return self.number(arrays, transactions, scratch).batch

    def requests(self, numbered: Numbered) -> Requests:
        """What the transactions of a batch ask for whose keys all have rows."""
        self._number_rows()
        found = self._asking.list(numbered.arrays, len(numbered), numbered.scratch, self._table_lo, numbered.start)
        assert found is not None, "keys were listed before"
        return found

    @property
    def all_rows(self) -> int:
        """Of all tables, as the requests of the last batch number them."""
        return int(self._table_lo[-1])

    def operations(self, numbered: Numbered) -> Batch:
        """Links the operations of transactions."""

        def room(name: str, count: int) -> np.ndarray:
            return numbered.scratch.array(f"layout {name}", count, np.int64)

        transactions = len(numbered.fn)
        inst = self._instances(numbered, room)
        total = len(inst["row"])
        self._stamp()
        bases = np.zeros(max(1, len(self.tables)), np.int64)
        known = room("known", min(total, len(self._seen)) * ROW_WORDS)
        per_row = {name: room(f"row_{name}", total) for name in ("table", "at", "base", "last", "writes", "ops")}
        per_op = {name: room(f"op_{name}", total) for name in ("row", "write", "prev", "writes_before")}
        inst_op, alias, txn_lo = room("inst_op", total), room("alias", transactions), room("txn_lo", transactions + 1)
        rows = self.link.link(
            inst["lo"], inst["row"], inst["write"], inst["site"], inst["turn"], inst_op,
            self._mark, self._seen, known, self._table_lo, bases,
            *per_row.values(), txn_lo, *per_op.values(), alias,
        )  # fmt: skip
        return Batch(
            fn=numbered.fn, ev=numbered.ev, inst_lo=inst["lo"], inst_op=inst_op, inst_site=inst["site"],
            inst_turn=inst["turn"], alias=alias, txn_lo=txn_lo, rows=rows, bases=bases,
            **{f"op_{name}": array for name, array in per_op.items()},
            **{f"row_{name}": array for name, array in per_row.items()},
        )  # fmt: skip

    def _instances(self, numbered: Numbered, room: Any) -> dict[str, np.ndarray]:
        """Every (transaction, site) pair, listed keys one by one: its row in the numbering of all tables."""
        arrays, fn, txns, start = numbered.arrays, numbered.fn, numbered.txns, numbered.start
        self._number_rows()
        listed: list[tuple[int, int, Listed]] = []
        for f in self.program.functions:
            tables = sorted({s.table for s in f.sites if s.dynamic})
            listed += [(f.index, i, arrays[f"listed{f.index}_{i}"]) for i in tables]
        count = room("count", len(fn))
        count[:] = 0
        for f_index, _, keys in listed:
            self.link.count_listed(start, txns[f_index], keys.ends, count)
        lo, at = room("inst_lo", len(fn) + 1), room("inst_at", len(fn))
        total = self.link.lay_out(start, count, self._static, fn, lo, at)
        row, write = room("inst_row", total), room("inst_write", total)
        site, turn = room("inst_site", total), room("inst_turn", total)
        for f_index, sites in enumerate(self._static_sites):
            for k, s in enumerate(sites):
                rows, offset = arrays[f"R{f_index}_{s.index}"], int(self._table_lo[s.table])
                self.link.place_static(
                    start, txns[f_index], k, rows, offset, int(s.writes), s.index, lo, row, write, site, turn
                )
        for f_index, i, keys in listed:
            writes = np.array([int(s.writes) for s in self.program.functions[f_index].sites], np.int64)
            self.link.place_listed(
                start, txns[f_index], keys.ends, keys.rows, keys.sites, keys.turns, int(self._table_lo[i]), writes,
                at, row, write, site, turn,
            )  # fmt: skip
        return {"lo": lo, "row": row, "write": write, "site": site, "turn": turn}

    def _number_rows(self) -> None:
        """One numbering for the rows of all tables; it changes only when a table grows."""
        sizes = [len(t.rows) for t in self.tables]
        if sizes != self._sizes:
            self._sizes, self._table_lo = sizes, np.cumsum([0, *sizes])
            self._seen = np.zeros(sum(sizes), np.int64)

    def _stamp(self) -> None:
        self._mark += 1
        if self._mark >> (62 - MARK):  # it shares a word with the number of a row
            self._mark = 1
            self._seen[:] = 0

    # -- versions -----------------------------------------------------------------------------------------------

    def versions(self, batch: Batch, scratch: Scratch) -> Versions:
        """A slot for each operation that may write. Private copies of vertices come after them."""
        ops = batch.ops
        slot, src, ver, owner = (scratch.array(f"layout {n}", ops, np.int64) for n in ("slot", "src", "ver", "owner"))
        slots = batch.bases.copy()
        self.link.give_slots(batch.op_row, batch.op_write, batch.row_table, batch.row_base, ops, slots, slot, ver)
        return Versions(slot, src, ver, owner, slots, [])

    def fill(self, batch: Batch, versions: Versions, scratch: Scratch) -> None:
        """Makes room for all slots and copies the committed records; call it when all graphs are built."""
        versions.records = []
        for i, table in enumerate(self.tables):
            records = scratch.array(f"layout W{i}", int(versions.slots[i]), table.rows.dtype)
            if not self.jit:
                # Unlike compiled code, NumPy does not copy what lies between fields; `install` would see a difference.
                words(records)[:] = 0
            versions.records.append(records)
            self.link.gather(
                i, batch.rows, batch.row_table, batch.row_at, batch.row_base, words(table.rows), words(records)
            )

    def install(self, batch: Batch, versions: Versions, changed: list[np.ndarray]) -> list[int]:
        """Writes the last valid version of each row to the tables; lists the rows that changed, gives their number."""
        return [
            self.link.install(
                i, batch.rows, batch.row_table, batch.row_at, batch.row_last, batch.row_base, versions.op_ver,
                words(versions.records[i]), words(table.rows), changed[i],
            )
            for i, table in enumerate(self.tables)
        ]  # fmt: skip

    def marked(self, batch: Batch, marks: list[np.ndarray], mark: int, changed: list[np.ndarray]) -> list[int]:
        """Rows that transactions marked when they ran in place."""
        return [
            self.link.list_marked(i, batch.rows, batch.row_table, batch.row_at, marks[i], mark, changed[i])
            for i in range(len(self.tables))
        ]

    # -- graphs -------------------------------------------------------------------------------------------------

    def whole(self, batch: Batch, versions: Versions, todo: np.ndarray, scratch: Scratch, name: str = "") -> Graph:
        """One vertex per transaction."""
        refs = self.vertices.count_whole(todo, batch.inst_lo)
        graph = _graph(todo, len(todo), refs, scratch, f"whole {name}")
        first = scratch.array("layout first", batch.ops, np.int64)
        self.vertices.whole(
            todo, batch.fn, batch.inst_lo, batch.inst_op, batch.op_row, batch.op_write, batch.row_table, batch.row_at,
            first, graph.v_txn, graph.v_part, graph.v_turn, graph.v_lo, graph.t_lo,
            graph.ref_op, graph.ref_mode, graph.ref_slot, graph.ref_table, graph.ref_row, versions.op_owner,
        )  # fmt: skip
        return graph

    def parts(
        self, batch: Batch, versions: Versions, arrays: dict[str, Any], todo: np.ndarray, scratch: Scratch,
        name: str = "",
    ) -> Graph:  # fmt: skip
        """Vertices of the parts of functions; a transaction that meets one row twice stays whole."""
        tables = self._parts
        turns = tables.turns(arrays)
        counts = np.zeros(2, np.int64)
        self.vertices.count_parts(
            todo, batch.fn, batch.ev, batch.alias, batch.inst_lo, self._static, batch.inst_site,
            tables.part_lo, tables.static_lo, turns.starts, turns.counts, tables.site_modes, self._most_sites, counts,
        )  # fmt: skip
        graph = _graph(todo, int(counts[0]), int(counts[1]), scratch, f"parts {name}")
        first = scratch.array("layout first", batch.ops, np.int64)
        at = scratch.array("layout v_at", int(counts[0]) + 1, np.int64)
        self.vertices.parts(
            todo, batch.fn, batch.ev, batch.alias, batch.inst_lo, batch.inst_op, batch.inst_site, batch.inst_turn,
            self._static, tables.part_lo, tables.number, tables.static_lo, tables.static_site, tables.static_mode,
            turns.starts, turns.counts, tables.site_modes, self._most_sites,
            batch.op_row, batch.op_write, batch.row_table, batch.row_at, first, versions.slots, at,
            graph.v_txn, graph.v_part, graph.v_turn, graph.v_lo, graph.t_lo,
            graph.ref_op, graph.ref_mode, graph.ref_slot, graph.ref_table, graph.ref_row, versions.op_owner,
        )  # fmt: skip
        return graph


@dataclass(frozen=True)
class _Turns:
    starts: np.ndarray  # per part: where its counts begin in `counts`; -1: it has no turns
    counts: np.ndarray


class _PartTables:
    """The parts of a program's functions as arrays."""

    def __init__(self, program: Program, static_sites: list[list[Any]], most_sites: int) -> None:
        numbers, lo, static_lo, static_site, static_mode, modes = [], [0], [0], [], [], []
        self.loops: list[str | None] = []
        for function, sites in zip(program.functions, static_sites, strict=True):
            place = {s.index: k for k, s in enumerate(sites)}
            for part in function.parts:
                numbers.append(part.number)
                self.loops.append(f"tn_{part.loop}_{function.index}" if part.loop is not None else None)
                by_site = [-1] * most_sites
                for site, mode in part.sites:
                    if site in place:
                        static_site.append(place[site])
                        static_mode.append(mode)
                    else:
                        by_site[site] = mode
                static_lo.append(len(static_site))
                modes += by_site
            lo.append(len(numbers))
        self.number, self.part_lo = np.array(numbers, np.int64), np.array(lo, np.int64)
        self.static_lo = np.array(static_lo, np.int64)
        self.static_site, self.static_mode = np.array(static_site, np.int64), np.array(static_mode, np.int64)
        self.site_modes = np.array(modes, np.int64)

    def turns(self, arrays: dict[str, Any]) -> _Turns:
        starts = np.full(len(self.loops), -1, np.int64)
        pieces, total = [np.zeros(1, np.int64)], 1
        for p, loop in enumerate(self.loops):
            if loop is not None:
                starts[p] = total
                pieces.append(arrays[loop])
                total += len(arrays[loop])
        return _Turns(starts, np.concatenate(pieces))


def _graph(todo: np.ndarray, vertices: int, refs: int, scratch: Scratch, name: str) -> Graph:
    def room(what: str, count: int) -> np.ndarray:
        return scratch.array(f"{name} {what}", count, np.int64)

    return Graph(
        todo=todo,
        v_lo=room("lo", vertices + 1),
        t_lo=room("t_lo", len(todo) + 1),
        A=room("A", refs),
        **{f"v_{n}": room(n, vertices) for n in ("txn", "part", "turn", "code")},
        **{f"ref_{n}": room(f"ref {n}", refs) for n in ("op", "mode", "slot", "table", "row")},
    )
