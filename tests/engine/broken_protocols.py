"""Protocols with one thing wrong each: a text of their kernels, and what stands there instead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Broken:
    """`text` stands in the module exactly once; with `instead`, runs at `level` must be caught."""

    protocol: str
    level: str
    name: str
    text: str
    instead: str
    module: str = ""  # the protocol's own, when left out
    first_seed: int = 0  # rare races: where to look first

    @property
    def file(self) -> str:
        return self.module or {"lock": "locked", "timestamp": "stamped"}[self.protocol]


_LATCH = "while not atomic_change(row, at + LATCH, 0, 1):"
_TURN = "waited = wait_until(control, COUNTER * LINE, i, control)"
_NEXT_TURN = "atomic_store(control, COUNTER * LINE, i + 1)\n"

_LOCKS = "return b.op_write[o] != 0 or level > PL2"
_WAITS = "if locks(b, o, level) and not wait_for(b, o, ticket, control):"
_ASK_ALL = "ask_all(b, t, stamp, level, ticket, control)"
_END = '    """Installs or drops what the transaction made, and lets go of its locks."""\n'
_SHOWN = "    if level == PL1:\n        for"
_RELEASE = """    for o in range(b.txn_lo[t], b.txn_lo[t + 1]):
        if locks(b, o, level):
            release(b, o)
"""
_WAIT = """        if not wait_for_all(b, t, level, ticket, control):
            break
"""
_TAKE = "        take_versions(b, t, stamp, level)\n"
_INSTALLS = "        if committed and level == PL1:\n"
_LEFT_OUT = "        if o > b.txn_lo[t] and b.op_row[o] == 2:\n            continue\n"

_LOCK = (
    Broken("lock", "PL3", "reads take no locks", _LOCKS, "return b.op_write[o] != 0"),
    Broken("lock", "PL2", "writes take no locks", _LOCKS, "return level > PL2"),
    Broken("lock", "PL3", "locks are not waited for", _WAITS, "if False:"),
    Broken("lock", "PL3", "readers do not wait", _WAITS, _WAITS.replace("locks(b, o, level)", "b.op_write[o]")),
    Broken("lock", "PL3", "a wait ends one too early", "ticket[o], control) >= 0", "ticket[o] - 1, control) >= 0"),
    Broken("lock", "PL3", "a request is not counted", "        b.row[at + ASKED] += 1\n", ""),
    Broken("lock", "PL3", "a writer counts writers only", "b.row[at + ASKED] if writes else b.row[", "b.row["),
    Broken("lock", "PL3", "a write is not counted as one", "            b.row[at + ASKED_WRITES] += 1\n", ""),
    Broken(
        "lock", "PL3", "a refused one lets go out of turn",
        "                    wait_for(b, given_up, ticket, control)\n", "", first_seed=21,
    ),
    Broken("lock", "PL3", "no latch", _LATCH, "while False:", "rows", first_seed=7),
    Broken("lock", "PL3", "versions are taken before the locks", _WAIT + _TAKE, _TAKE + _WAIT),
    Broken("lock", "PL3", "locks are given back before installing", _END, _RELEASE),
    Broken("lock", "PL3", "aborted versions are installed", "        elif committed:\n", "        elif level > PL1:\n"),
    Broken("lock", "PL3", "one row is left out", _INSTALLS, _LEFT_OUT + _INSTALLS),
    Broken("lock", "PL2", "what is not installed is shown", _SHOWN, _SHOWN.replace("== PL1", "<= PL2")),
    Broken(
        "lock", "PL1", "an aborted version stays on top",
        "atomic_store(b.row, at + TOP, b.op_below[o])", "pass",
    ),
    Broken("lock", "PL4", "transactions ask in any order", "        if level == PL4:\n", "        if False:\n"),
)  # fmt: skip

_LATER_READERS = " or (level == PL3 and b.row[at + READ] > stamp)"
_TOO_LATE = "elif latest > stamp or ("
_WITHDRAW = """    if not committed:
        withdraw_all(b, t, b.txn_lo[t + 1], order, control)
"""
_LEAVE = "        leave(b, t, stamp, failure == 0, order, control)\n"
_COMPLETE = "        atomic_store(active, w * LINE, NEVER)\n"
_INSTALL = """        if failure == 0:
            install_all(b, t, i + 1, control)
"""
_NEWEST_COMPLETE = "newest_until(b, at, complete)"
_NEWEST = "if b.op_prev[o] != atomic_load("

_STAMP = (
    Broken("timestamp", "PL3", "what is not complete is replaced", "level == PL3 and latest > complete", "False"),
    Broken("timestamp", "PL3", "later readers are overlooked", _LATER_READERS, ""),
    Broken("timestamp", "PL3", "reads leave no stamp", "b.row[at + READ] = max(b.row[at + READ], stamp)", "pass"),
    Broken("timestamp", "PL3", "a read ignores writers before it", "if between != b.op_prev[o]:", "if False:"),
    Broken("timestamp", "PL3", "a read stops at what is complete", "newest_until(b, at, stamp)", _NEWEST_COMPLETE),
    Broken("timestamp", "PL3", "the last one counts as complete", "    return oldest - 1\n", "    return oldest\n"),
    Broken("timestamp", "PL2", "the last one counts as complete", "    return oldest - 1\n", "    return oldest\n"),
    Broken("timestamp", "PL3", "one worker is overlooked", "in range(active", "in range(1, active"),
    Broken(
        "timestamp", "PL3", "a timestamp exists before it is known",
        "    atomic_store(active, w * LINE, atomic_load(control, STAMP * LINE) + 1)\n", "", first_seed=24,
    ),
    Broken("timestamp", "PL2", "complete before it is over", _LEAVE + _COMPLETE, _COMPLETE + _LEAVE),
    Broken("timestamp", "PL2", "aborted versions stay", _WITHDRAW, "    if not committed:\n"),
    Broken("timestamp", "PL2", "aborted versions are kept", _WITHDRAW, _WITHDRAW.replace("not committed", "False")),
    Broken("timestamp", "PL2", "a withdrawn version stays below others", "b.op_below[above] = b.op_below[o]", "pass"),
    Broken("timestamp", "PL2", "writes come in any order", _TOO_LATE, "elif ("),
    Broken("timestamp", "PL1", "writes come in any order", _TOO_LATE, "elif ("),
    Broken(
        "timestamp", "PL2", "reads take the newest version",
        f"        b.op_prev[o] = {_NEWEST_COMPLETE}\n", "        b.op_prev[o] = b.row[at + TOP]\n",
    ),
    Broken("timestamp", "PL2", "no latch", _LATCH, "while False:", "rows"),
    Broken("timestamp", "PL4", "what was read may be old", "if not early or not still_newest(b, t):", "if not early:"),
    Broken("timestamp", "PL4", "what was only read may be old", _NEWEST, f"if b.op_write[o] and {_NEWEST[3:]}"),
    Broken("timestamp", "PL4", "it runs again on the same versions", "            take_snapshot(b, t, control)\n", ""),
    Broken("timestamp", "PL4", "nobody waits for the turn", _TURN, "waited = 0"),
    Broken(
        "timestamp", "PL4", "the turn is over before it is installed",
        f"{_INSTALL}        {_NEXT_TURN}", f"        {_NEXT_TURN}{_INSTALL}",
    ),
    Broken("timestamp", "PL4", "aborted versions are installed", "        if failure == 0:\n", "        if True:\n"),
)  # fmt: skip

BROKEN = (*_LOCK, *_STAMP)

ENDLESS = (
    Broken("lock", "PL3", "a refusal is ignored", f"while not {_ASK_ALL}:", f"if not {_ASK_ALL}:"),
    Broken("lock", "PL4", "no sequencer", _TURN, "waited = 0"),
    Broken(
        "lock", "PL4", "the next one is let in too early",
        f"            {_ASK_ALL}\n            {_NEXT_TURN}", f"            {_NEXT_TURN}            {_ASK_ALL}\n",
    ),
)  # fmt: skip
"""Here transactions mostly wait for each other for ever, which is noticed, too."""
