"""The critical path of a batch: its longest chain of state accesses that need each other (ReStream, section 5.4).

However many machines there are, the accesses of one chain run one after the other. An access is what one piece of one
event does in its stage. It comes after

- the last access before it, in the batch, that writes a row that it reads, and
- the pieces of its own event that hand it values.

What a function does not say in so many words is not taken into account: that additions commute, that a branch is not
taken, that a transaction aborts. So the chain is the longest that can be, and the one that a replay really waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mainstem.engine.layout import Batch, Layout
from mainstem.engine.load import load
from mainstem.engine.operations import Operations
from mainstem.gate import EventBatch
from mainstem.jit import JIT_ENABLED, kernel
from mainstem.lang.dataflow import Dataflow, Piece
from mainstem.lang.ir import Site
from mainstem.state import State

_READS, _WRITES = 1, 2


def critical_paths(flow: Dataflow, batches: Iterable[EventBatch]) -> list[int]:
    """For each batch, the number of accesses on its longest chain."""
    accesses = Accesses(flow)
    return [path for batch in batches for path in accesses.paths(batch, max(len(batch), 1))]


def paths_by_size(flow: Dataflow, batch: EventBatch, sizes: Sequence[int]) -> dict[int, list[int]]:
    """The critical paths of a batch cut into smaller ones of each size; a rest that is too short is left out."""
    accesses = Accesses(flow)
    return {size: accesses.paths(batch, size, whole_only=True) for size in sizes}


class Accesses:
    """Finds which rows the pieces of a batch meet, and walks along them."""

    def __init__(self, flow: Dataflow) -> None:
        program = flow.program
        self._roles = _Roles.of(flow)
        state = State({table.name: table for table in program.tables})
        self._operations = Operations(program, state, load(program.source, JIT_ENABLED))
        self._layout = Layout(program, self._operations.tables, JIT_ENABLED)
        self._functions_of_kind = np.array([len(group) for group in program.per_kind], np.int64)

    def paths(self, batch: EventBatch, size: int, whole_only: bool = False) -> list[int]:
        """One number for every `size` events."""
        ends = np.concatenate([[0], np.cumsum(self._functions_of_kind[batch.kind])])
        laid_out = self._laid_out(batch, int(ends[-1]))
        walk = _Walk(self._roles, laid_out)
        stop = len(batch) - size + 1 if whole_only else max(len(batch), 1)
        firsts = range(0, max(stop, 0), size)
        return [walk.longest(int(ends[first]), int(ends[min(first + size, len(batch))])) for first in firsts]

    def _laid_out(self, batch: EventBatch, transactions: int) -> Batch:
        arrays = self._operations.build(batch)
        self._operations.list_keys(arrays)
        return self._layout.batch(arrays, transactions, self._operations.scratch)


@dataclass(frozen=True)
class _Roles:
    """What the pieces of each function do, as arrays: pieces of function f are `piece_lo[f]` to `piece_lo[f + 1]`."""

    piece_lo: np.ndarray
    role: np.ndarray  # [piece, site of the function]: whether the piece reads and writes there
    giver_lo: np.ndarray
    giver: np.ndarray  # pieces of the same function, by their place in it

    @classmethod
    def of(cls, flow: Dataflow) -> _Roles:
        functions = flow.program.functions
        most_sites = max((len(function.sites) for function in functions), default=0)
        piece_lo, roles, giver_lo, givers = [0], [], [0], []
        for function in functions:
            pieces = _in_order(flow, function.index)
            turn = {piece.number: place for place, piece in enumerate(pieces)}
            for piece in pieces:
                roles.append(_role_of(flow, piece, most_sites))
                givers += [turn[carry.producer] for carry in piece.given if carry.producer in turn]
                giver_lo.append(len(givers))
            piece_lo.append(len(roles))
        role = np.array(roles, np.uint8).reshape(len(roles), most_sites)
        return cls(np.array(piece_lo), role, np.array(giver_lo), np.array(givers, np.int64))


def _in_order(flow: Dataflow, function: int) -> list[Piece]:
    """The pieces of a function that meet state; one takes values only from pieces before it."""
    found = [(stage.wave, piece.number, piece) for stage in flow.stages for piece in stage.pieces]
    return [piece for _, _, piece in sorted(found, key=lambda entry: entry[:2]) if piece.function == function]


def _role_of(flow: Dataflow, piece: Piece, most_sites: int) -> list[int]:
    role = [0] * most_sites
    program = flow.stages[piece.stage].program
    for own in program.functions[piece.local].sites:
        table = program.tables[own.table].name
        for site in flow.program.functions[piece.function].sites:
            if flow.program.tables[site.table].name == table and _same_row(own, site):
                role[site.index] |= _READS * own.reads | _WRITES * own.writes
    return role


def _same_row(own: Site, site: Site) -> bool:
    """Whether a piece's site and one of the whole function, both of one table, stand for the same row."""
    return (site.line, site.text) == (own.line, own.text) or (site.columns is not None and site.columns == own.columns)


class _Walk:
    """Chains through one batch that is laid out."""

    def __init__(self, roles: _Roles, batch: Batch) -> None:
        self._roles, self._batch = roles, batch
        self._depth = np.zeros(max(len(roles.role), 1), np.int64)
        self._last = np.zeros(batch.rows, np.int64)
        self._stamp = np.zeros(batch.rows, np.int64)
        self._mark = 0

    def longest(self, first: int, end: int) -> int:
        """Among transactions `first` to `end`, as if nothing had been before."""
        self._mark += 1
        batch, roles = self._batch, self._roles
        return int(
            _longest_chain(
                first, end, batch.fn, batch.inst_lo, batch.inst_site, batch.inst_op, batch.op_row,
                roles.piece_lo, roles.role, roles.giver_lo, roles.giver,
                self._depth, self._last, self._stamp, self._mark,
            )
        )  # fmt: skip


@kernel
def _longest_chain(
    first: int, end: int, fn: np.ndarray, inst_lo: np.ndarray, inst_site: np.ndarray, inst_op: np.ndarray,
    op_row: np.ndarray, piece_lo: np.ndarray, role: np.ndarray, giver_lo: np.ndarray, giver: np.ndarray,
    depth: np.ndarray, last: np.ndarray, stamp: np.ndarray, mark: int,
) -> int:  # fmt: skip
    """`last[row]`: length of the chain that ends with the row's last write, where `stamp[row] == mark`."""
    longest = 0
    for t in range(first, end):
        begin = piece_lo[fn[t]]
        for piece in range(begin, piece_lo[fn[t] + 1]):
            before = 0
            for g in range(giver_lo[piece], giver_lo[piece + 1]):
                before = max(before, depth[giver[g]])
            met = False
            for k in range(inst_lo[t], inst_lo[t + 1]):
                what = role[piece, inst_site[k]]
                if what != 0 and inst_op[k] >= 0:
                    met = True
                    row = op_row[inst_op[k]]
                    if what & 1 and stamp[row] == mark:
                        before = max(before, last[row])
            own = before + 1 if met else before
            depth[piece - begin] = own
            longest = max(longest, own)
            for k in range(inst_lo[t], inst_lo[t + 1]):
                if role[piece, inst_site[k]] & 2 and inst_op[k] >= 0:
                    row = op_row[inst_op[k]]
                    stamp[row] = mark
                    last[row] = own
    return longest
