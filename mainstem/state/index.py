"""Key -> dense row number: an open-addressing hash table over int64 components."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mainstem.jit import inlined, kernel
from mainstem.state.mixing import frozen, mix

_FIRST_CAPACITY = 1024
_CAPACITY_MAX = 2**29  # a hash has 30 bits, of which the slots of the largest table use all
# Direct addressing covers at least these keys: 256 KiB, which typical small integer keys fit in.
_DIRECT_MIN = 2**16
_DIRECT_SHARE = 7 / 8  # of the keys; the others are looked up twice
_NO_DIRECT = np.empty(0, np.int32)
_NO_FLAGS = frozen(np.empty(0, np.uint8))

# A slot is the key's tag in the high half and row + 1 in the low half; 0 is empty. The tag is the hash with a top bit
# that is always set, so that no tag looks like an empty slot. It spares most visits to `keys` for colliding keys, and
# lets the table grow without reading the keys again.
_TAG_SHIFT = 32
_ROW_BITS = 0xFFFF_FFFF
_TAG_TOP = 1 << 62
_MASK_MAX = 2**30 - 1  # tells the compiler that places are not negative, which spares a check per access


def _nothing() -> None:
    """Nobody is to be told."""


class KeyIndex:
    """Rows are numbered in order of first appearance and never move.

    `slots` is the hash table (a power of two, at most half used); `keys[row]` holds the components. While most keys are
    small non-negative integers, the usual case, `direct[k]` is row + 1 of key `k` (0: missing) beside it, and a look-up
    costs one load; else `direct` is empty.
    """

    def __init__(self, ncomp: int) -> None:
        self.ncomp, self.count = ncomp, 0
        self.keys = np.empty((_FIRST_CAPACITY, ncomp), np.int64)
        self.slots = np.zeros(2 * _FIRST_CAPACITY, np.int64)
        self.direct = _NO_DIRECT

    def resolve(
        self,
        components: Sequence[np.ndarray],
        ok: np.ndarray | None = None,
        out: np.ndarray | None = None,
        before_new: Callable[[], None] = _nothing,
    ) -> np.ndarray:
        """The row of each key; missing keys are added in order of appearance. Entries with `ok` 0 give -1.

        `out` is filled and returned when given: memory touched for the first time costs more than the look-up.
        `before_new` is called before keys are added: others may be reading the index until then.
        """
        return self._look_up(components, ok, out, before_new)

    def resolve_at(
        self,
        components: Sequence[np.ndarray],
        positions: np.ndarray,
        out: np.ndarray,
        before_new: Callable[[], None] = _nothing,
    ) -> np.ndarray:
        """`resolve` of the keys at these positions; dense integer keys are looked up in place, not gathered.

        All arrays are as kernels take them: contiguous, int64 and, but for `out`, read-only.
        """
        if len(self.direct) and _find_direct_at(self.direct, components[0], positions, out) >= 0:
            return out
        return self.resolve([part[positions] for part in components], None, out, before_new)

    def find(self, components: Sequence[np.ndarray], ok: np.ndarray | None = None) -> np.ndarray:
        """The row of each key, -1 when it is missing. Adds nothing."""
        return self._look_up(components, ok)

    def _look_up(
        self,
        components: Sequence[np.ndarray],
        ok: np.ndarray | None,
        out: np.ndarray | None = None,
        before_new: Callable[[], None] | None = None,
    ) -> np.ndarray:
        """Adds missing keys when there is a `before_new`, and calls it before."""
        if len(components) != self.ncomp:
            raise ValueError(f"a key of {self.ncomp} components was looked up with {len(components)}")
        parts = [_component(part) for part in components]
        out = np.empty(len(parts[0]), np.int64) if out is None else out
        found = self._find(parts, out)
        if found >= 0 and ok is None:
            return out
        known = self.count
        flags = _NO_FLAGS if ok is None else frozen(np.ascontiguousarray(ok, np.uint8))
        if _count_missing(flags, out):
            if before_new is not None:
                before_new()
            self._settle(_stacked(parts), flags, out, insert=before_new is not None)
        # A small table has not grown yet, which is when `direct` is chosen; choosing costs microseconds here.
        if self.ncomp == 1 and known < self.count <= _FIRST_CAPACITY:
            self.direct = self._direct_for(_DIRECT_MIN)
        return out

    def _find(self, parts: list[np.ndarray], out: np.ndarray) -> int:
        """Fill `out` with what the fast loop for this kind of key finds, else -1; negative when a key was not found."""
        if len(self.direct):
            return _find_direct(self.direct, parts[0], out)
        if self.ncomp == 1:
            return _find1(self.slots, self.keys, parts[0], out)
        if self.ncomp == 2:
            return _find2(self.slots, self.keys, parts[0], parts[1], out)
        if self.ncomp == 3:
            return _find3(self.slots, self.keys, parts[0], parts[1], parts[2], out)
        return _find_any(self.slots, self.keys, _stacked(parts), out)

    def _settle(self, wanted: np.ndarray, flags: np.ndarray, out: np.ndarray, insert: bool) -> None:
        """Look up thoroughly, and add, what the fast loop did not find."""
        done = 0
        while True:
            done, self.count = _settle(self.slots, self.keys, self.direct, self.count, wanted, flags, out, done, insert)
            if done == len(out):
                return
            self._grow()

    def _grow(self) -> None:
        """Double the capacity. The old arrays stay valid for whoever still reads them."""
        capacity = 2 * len(self.keys)
        if capacity > _CAPACITY_MAX:
            raise MemoryError(f"a table holds at most {_CAPACITY_MAX:,} keys; split it into several tables")
        keys = np.empty((capacity, self.ncomp), np.int64)
        keys[: self.count] = self.keys[: self.count]
        slots = np.zeros(2 * capacity, np.int64)
        _move_slots(self.slots, slots)
        self.keys, self.slots = keys, slots
        if self.ncomp == 1:
            self.direct = self._direct_for(len(slots))

    def _direct_for(self, size: int) -> np.ndarray:
        """A direct table of `[0, size)` when nearly all keys are there, else an empty one."""
        size = max(size, _DIRECT_MIN)
        known = self.keys[: self.count, 0]
        inside = (known >= 0) & (known < size)
        if np.count_nonzero(inside) < _DIRECT_SHARE * self.count:
            return _NO_DIRECT
        if size == len(self.direct):
            return self.direct
        direct = np.zeros(size, np.int32)
        direct[: len(self.direct)] = self.direct
        new = np.flatnonzero(inside & (known >= len(self.direct)))
        direct[known[new]] = new + 1
        return direct


@inlined
def _tag_of(state: int) -> int:
    return (state | _TAG_TOP) >> _TAG_SHIFT


@inlined
def probe1(slots: np.ndarray, keys: np.ndarray, a: int) -> int:
    """Row of a key of one component, or -1."""
    mask = (len(slots) - 1) & _MASK_MAX
    tag = _tag_of(mix(0, int(a)))
    at = tag & mask
    while slots[at] != 0:
        slot = int(slots[at])
        row = (slot & _ROW_BITS) - 1
        if slot >> _TAG_SHIFT == tag and keys[row, 0] == a:
            return row
        at = (at + 1) & mask
    return -1


@inlined
def row_of(direct: np.ndarray, slots: np.ndarray, keys: np.ndarray, a: int) -> int:
    """The same, by one load where the direct table covers the key."""
    if 0 <= a < len(direct) and direct[int(a)] > 0:
        return int(direct[int(a)]) - 1
    return probe1(slots, keys, a)


@inlined
def probe2(slots: np.ndarray, keys: np.ndarray, a: int, b: int) -> int:
    """Row of a key of two components, or -1."""
    mask = (len(slots) - 1) & _MASK_MAX
    tag = _tag_of(mix(mix(0, int(a)), int(b)))
    at = tag & mask
    while slots[at] != 0:
        slot = int(slots[at])
        row = (slot & _ROW_BITS) - 1
        if slot >> _TAG_SHIFT == tag and keys[row, 0] == a and keys[row, 1] == b:
            return row
        at = (at + 1) & mask
    return -1


@inlined
def probe3(slots: np.ndarray, keys: np.ndarray, a: int, b: int, c: int) -> int:
    """Row of a key of three components, or -1."""
    mask = (len(slots) - 1) & _MASK_MAX
    tag = _tag_of(mix(mix(mix(0, int(a)), int(b)), int(c)))
    at = tag & mask
    while slots[at] != 0:
        slot = int(slots[at])
        row = (slot & _ROW_BITS) - 1
        if slot >> _TAG_SHIFT == tag and keys[row, 0] == a and keys[row, 1] == b and keys[row, 2] == c:
            return row
        at = (at + 1) & mask
    return -1


@inlined
def probe4(slots: np.ndarray, keys: np.ndarray, a: int, b: int, c: int, d: int) -> int:
    """Row of a key of four components, or -1."""
    mask = (len(slots) - 1) & _MASK_MAX
    tag = _tag_of(mix(mix(mix(mix(0, int(a)), int(b)), int(c)), int(d)))
    at = tag & mask
    while slots[at] != 0:
        slot = int(slots[at])
        row = (slot & _ROW_BITS) - 1
        same = keys[row, 0] == a and keys[row, 1] == b and keys[row, 2] == c and keys[row, 3] == d
        if slot >> _TAG_SHIFT == tag and same:
            return row
        at = (at + 1) & mask
    return -1


@inlined
def _probe_any(slots: np.ndarray, keys: np.ndarray, wanted: np.ndarray, i: int) -> tuple[int, int, int]:
    """The same for the key in row `i` of `wanted`, of any number of components. -> (row or -1, tag, place)."""
    mask = (len(slots) - 1) & _MASK_MAX
    state = 0
    for c in range(wanted.shape[1]):
        state = mix(state, int(wanted[i, c]))
    tag = _tag_of(state)
    at = tag & mask
    while slots[at] != 0:
        slot = int(slots[at])
        if slot >> _TAG_SHIFT == tag:
            row = (slot & _ROW_BITS) - 1
            same = True
            for c in range(wanted.shape[1]):
                same &= keys[row, c] == wanted[i, c]
            if same:
                return row, tag, at
        at = (at + 1) & mask
    return -1, tag, at


def _component(values: np.ndarray) -> np.ndarray:
    flags = values.flags
    if values.dtype == np.int64 and flags.c_contiguous:
        return frozen(values) if flags.writeable else values
    return frozen(np.ascontiguousarray(values, np.int64))


def _stacked(parts: list[np.ndarray]) -> np.ndarray:
    """One key per row."""
    return frozen(parts[0].reshape(-1, 1) if len(parts) == 1 else np.stack(parts, axis=1))


# The loops that every event goes through. Their bodies hold nothing but the look-up and one bit operation (a count of
# the missing keys was measured at 20 %), so that the processor works on many keys at once while it waits for memory.
# All give a negative number when a key was not found: -1 has every bit set, and so stays.


@kernel
def _find_direct(direct: np.ndarray, wanted: np.ndarray, out: np.ndarray) -> int:
    found = 0
    for i in range(len(out)):
        key = wanted[i]
        row = int(direct[key]) - 1 if 0 <= key < len(direct) else -1
        out[i] = row
        found |= row
    return found


@kernel
def _find_direct_at(direct: np.ndarray, values: np.ndarray, positions: np.ndarray, out: np.ndarray) -> int:
    found = 0
    for i in range(len(out)):
        key = values[positions[i]]
        row = int(direct[key]) - 1 if 0 <= key < len(direct) else -1
        out[i] = row
        found |= row
    return found


@kernel
def _find1(slots: np.ndarray, keys: np.ndarray, a: np.ndarray, out: np.ndarray) -> int:
    found = 0
    for i in range(len(out)):
        row = probe1(slots, keys, a[i])
        out[i] = row
        found |= row
    return found


@kernel
def _find2(slots: np.ndarray, keys: np.ndarray, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> int:
    found = 0
    for i in range(len(out)):
        row = probe2(slots, keys, a[i], b[i])
        out[i] = row
        found |= row
    return found


@kernel
def _find3(slots: np.ndarray, keys: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, out: np.ndarray) -> int:
    found = 0
    for i in range(len(out)):
        row = probe3(slots, keys, a[i], b[i], c[i])
        out[i] = row
        found |= row
    return found


@kernel
def _find_any(slots: np.ndarray, keys: np.ndarray, wanted: np.ndarray, out: np.ndarray) -> int:
    found = 0
    for i in range(len(out)):
        row = _probe_any(slots, keys, wanted, i)[0]
        out[i] = row
        found |= row
    return found


@kernel
def _count_missing(flags: np.ndarray, out: np.ndarray) -> int:
    """How many keys were not found; those whose flag is 0 are set to -1 and don't count."""
    missing = 0
    for i in range(len(out)):
        if len(flags) != 0 and flags[i] == 0:
            out[i] = -1
        else:
            missing += out[i] < 0
    return missing


@kernel
def _settle(
    slots: np.ndarray,
    keys: np.ndarray,
    direct: np.ndarray,
    count: int,
    wanted: np.ndarray,
    flags: np.ndarray,
    out: np.ndarray,
    start: int,
    insert: bool,
) -> tuple[int, int]:
    """Probe for the keys whose row is -1, from `start` on, and add those that are missing, until the table is full.

    -> (stop, count)
    """
    for i in range(start, len(out)):
        if out[i] >= 0 or (len(flags) != 0 and flags[i] == 0):
            continue
        row, tag, at = _probe_any(slots, keys, wanted, i)
        if row < 0 and insert:
            if count == len(keys):
                return i, count
            row = count
            count += 1
            slots[at] = tag << _TAG_SHIFT | row + 1
            for c in range(wanted.shape[1]):
                keys[row, c] = wanted[i, c]
            if 0 <= wanted[i, 0] < len(direct):
                direct[wanted[i, 0]] = row + 1
        out[i] = row
    return len(out), count


@kernel
def _move_slots(old: np.ndarray, new: np.ndarray) -> None:
    """Fill a table of twice the size. A key goes to its old place or half the table further: two sequential streams."""
    mask = (len(new) - 1) & _MASK_MAX
    for slot in old:
        if slot != 0:
            at = (int(slot) >> _TAG_SHIFT) & mask
            while new[at] != 0:
                at = (at + 1) & mask
            new[at] = slot
