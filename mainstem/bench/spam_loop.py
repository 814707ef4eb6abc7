"""The spam rules as somebody would write them by hand for one core: decoded columns, dense arrays, one Numba loop.

It shares nothing with the engine but the e-mail scan, so it is the best that a serial run can be: users and
IP addresses index arrays directly, friends are one number in an open hash set, and nothing can abort.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mainstem.apps.spam import SPAM_RATIO, SPAM_SHARE, has_email
from mainstem.bench.spam_answers import open_log
from mainstem.jit import inlined, kernel

SCHEMA = pa.schema({"ts": pa.int64(), "seq": pa.int64(), "spam": pa.bool_()})
READ_ROWS = 1 << 15  # their texts stay in the second-level cache between decoding and the scan
_KEYS = ("a", "b", "sender", "recipient", "ip")
_EMPTY = -1


@dataclass
class Counts:
    """All state. Arrays grow between batches."""

    friends: np.ndarray  # open addressing, a power of two of slots
    friends_used: np.ndarray  # one number
    senders: np.ndarray  # int64[users, 2]: to friends, to others
    origins: np.ndarray  # int64[ips, 2]: messages, with an e-mail address

    @staticmethod
    def empty() -> Counts:
        slots = np.full(1 << 16, _EMPTY, dtype=np.int64)
        return Counts(slots, np.zeros(1, np.int64), np.zeros((1 << 10, 2), np.int64), np.zeros((1 << 10, 2), np.int64))

    def reserve(self, events: int, user_max: int, ip_max: int) -> None:
        """Room for a batch of so many events with keys up to these."""
        while 2 * (int(self.friends_used[0]) + events) > self.friends.size:
            old, self.friends = self.friends, np.full(2 * self.friends.size, _EMPTY, dtype=np.int64)
            rehash(old, self.friends)
        self.senders = _grown(self.senders, user_max)
        self.origins = _grown(self.origins, ip_max)


def replay(log: Path, out: Path, *, scan: bool) -> int:
    """Runs the log and writes `ts`, `seq`, `spam` per message into one file of `out`; gives the number of events."""
    out.mkdir(parents=True, exist_ok=True)
    counts, seq = Counts.empty(), 0
    with pq.ParquetWriter(out / "part-0.parquet", SCHEMA) as writer:
        for batch in batches(log, scan):
            writer.write_batch(run(counts, batch, seq, scan))
            seq += batch.num_rows
    return seq


def batches(log: Path, scan: bool) -> Iterator[pa.RecordBatch]:
    """The log, without the columns that are not needed."""
    columns = ["ts", "event", *_KEYS, "content" if scan else "has_email"]
    for file in open_log(log).files:
        yield from pq.ParquetFile(file.path).iter_batches(READ_ROWS, columns=columns, use_threads=False)


def run(counts: Counts, batch: pa.RecordBatch, first_seq: int, scan: bool) -> pa.RecordBatch:
    """One batch: changes the counts, gives the verdicts."""
    is_message = _codes(batch["event"])
    a, b, sender, recipient, ip = (_values(batch[name]) for name in _KEYS)
    email = (has_email(batch["content"]) if scan else batch["has_email"].fill_null(False)).to_numpy(False)
    counts.reserve(batch.num_rows, _largest(batch["sender"]), _largest(batch["ip"]))
    spam, row = np.zeros(batch.num_rows, bool), np.zeros(batch.num_rows, np.int64)
    found = judge(
        is_message, a, b, sender, recipient, ip, email,
        counts.friends, counts.friends_used, counts.senders, counts.origins, spam, row,
    )  # fmt: skip
    rows = row[:found]
    columns = [pa.array(batch["ts"].to_numpy()[rows]), pa.array(first_seq + rows), pa.array(spam[:found])]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


@inlined
def slot_of(slots: np.ndarray, pair: int) -> int:
    """Where the pair is in the set, or where it would be."""
    mixed = np.uint64(pair) * np.uint64(0x9E3779B97F4A7C15)
    place = np.int64((mixed >> np.uint64(20)) & np.uint64(len(slots) - 1))
    while slots[place] != _EMPTY and slots[place] != pair:
        place = (place + 1) & (len(slots) - 1)
    return place  # type: ignore[return-value]  # NumPy's integer


@kernel
def rehash(old: np.ndarray, new: np.ndarray) -> None:
    for pair in old:
        if pair != _EMPTY:
            new[slot_of(new, pair)] = pair


@kernel
def judge(
    is_message: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    sender: np.ndarray,
    recipient: np.ndarray,
    ip: np.ndarray,
    email: np.ndarray,
    friends: np.ndarray,
    friends_used: np.ndarray,
    senders: np.ndarray,
    origins: np.ndarray,
    spam: np.ndarray,
    row: np.ndarray,
) -> int:
    """Fills `spam` and `row` (place in the batch) for the messages, in order; gives their number."""
    found = 0
    for i in range(len(is_message)):
        if is_message[i] == 0:
            pair = a[i] << 32 | b[i]
            place = slot_of(friends, pair)
            if friends[place] == _EMPTY:
                friends[place] = pair
                friends_used[0] += 1
            continue
        who, where = sender[i], ip[i]
        pair = who << 32 | recipient[i]
        senders[who, 0 if friends[slot_of(friends, pair)] == pair else 1] += 1
        origins[where, 0] += 1
        if email[i]:
            origins[where, 1] += 1
        by_sender = senders[who, 1] > SPAM_RATIO * senders[who, 0]
        spam[found] = by_sender and origins[where, 1] > SPAM_SHARE * origins[where, 0]
        row[found] = i
        found += 1
    return found


def _codes(event: pa.Array) -> np.ndarray:
    """1 for messages, 0 for friendships; the column is dictionary-encoded."""
    wanted = np.array([name == "Message" for name in event.dictionary.to_pylist()], dtype=np.uint8)
    codes: np.ndarray = wanted[event.indices.to_numpy()]
    return codes


def _values(column: pa.Array) -> np.ndarray:
    """The numbers of a column as they lie in memory: anything where it is null."""
    return np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column)]


def _largest(column: pa.Array) -> int:
    return pc.max(column).as_py() or 0


def _grown(counts: np.ndarray, key_max: int) -> np.ndarray:
    if key_max < len(counts):
        return counts
    larger = np.zeros((max(2 * len(counts), key_max + 1), 2), dtype=np.int64)
    larger[: len(counts)] = counts
    return larger
