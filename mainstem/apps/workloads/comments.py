"""The workload of `mainstem.apps.comments`: comments on songs, some with an e-mail or an IP address.

Songs are as popular as a power law makes them. Many comments come in the same unit of `ts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.apps.workloads import check, common
from mainstem.apps.workloads.inputs import split
from mainstem.apps.workloads.texts import Inserts, corpus_of, texts
from mainstem.apps.workloads.windowed import events_per_window, same_last_windows
from mainstem.errors import InputError

SONGS, USERS = 40_000, 40_000
SKEW = 0.8  # of the songs' popularity
RATE = 1_000  # comments per unit of `ts`
EMAILS, IPS, DECOYS = 0.05, 0.02, 0.05  # of the comments; decoys only look like addresses
TEXT_MIN, TEXT_MAX = 20, 120  # bytes without the address


def initial() -> dict[str, pa.Table]:
    """Nobody has commented yet."""
    return {}


def generate(
    events: int = 1_000_000,
    *,
    songs: int = SONGS,
    users: int = USERS,
    skew: float = SKEW,
    rate: int = RATE,
    emails: float = EMAILS,
    ips: float = IPS,
    seed: int = 0,
) -> pa.Table:
    """`events` comments in one table: `ts`, `event`, `user`, `song`, `text`, and what a scan of the text would find.

    `rate` comments come per unit of `ts`; shares of `emails` and `ips` hold such an address (`has_email`, `has_ip`),
    never both. A smaller log with the same arguments is a prefix of a larger one.
    """
    return pa.concat_tables(_chunks(events, songs, users, skew, rate, emails, ips, seed))


def write_log(
    path: str | Path,
    events: int,
    *,
    files: int = common.FILES,
    row_group: int = common.ROW_GROUP,
    progress: Callable[[int], None] | None = None,
    **knobs: Any,
) -> list[Path]:
    """Write what `generate(events, **knobs)` returns into a folder of Parquet files, in the memory of a few chunks."""
    tables = _chunks(events, **common.with_defaults(generate, knobs))
    return common.write_log(path, tables, events, files=files, row_group=row_group, progress=progress)


def inputs(events: pa.Table, count: int, *, seed: int = 0) -> list[pa.Table]:
    """The log as it comes by `count` ways, each sorted by `ts`."""
    return split(events, count, by="song", seed=seed)


def conserved(
    before: Mapping[str, pa.Table], events: pa.Table, outputs: pa.Table, after: Mapping[str, pa.Table]
) -> bool:
    """Whether every comment was counted, the best window of every song is known, and the last ones are those of
    `events`."""
    from mainstem.apps import comments  # the sizes, as they are now

    ts, song, user = (check.numbers(events, name) for name in ("ts", "song", "user"))
    email, ip = (events[name].to_numpy() for name in ("has_email", "has_ip"))
    keys, counts = np.unique(song, return_counts=True)
    table = after["Song"]
    same = np.array_equal(table["key"].to_numpy(), keys) and np.array_equal(table["comments"].to_numpy(), counts)
    window_key, in_window = events_per_window(ts, song, comments.SIZE, comments.ADVANCE)
    best = np.maximum.reduceat(in_window, np.searchsorted(window_key, keys)) if len(keys) else counts
    same = same and np.array_equal(table["hottest"].to_numpy(), best)
    short = (comments.ADDRESS_SIZE, comments.ADDRESS_ADVANCE)
    for name, count, chosen, shape in (
        ("popular", "comments", np.ones_like(email), (comments.SIZE, comments.ADVANCE)),
        ("advertised", "emails", email, short),
        ("addressed", "addresses", email | ip, short),
    ):
        first = {"first_user": user[chosen]}
        same = same and same_last_windows(after[name], ts[chosen], song[chosen], *shape, count=count, first=first)
    return same


def _chunks(
    events: int, songs: int, users: int, skew: float, rate: int, emails: float, ips: float, seed: int
) -> Iterator[pa.Table]:
    common.share_of("emails + ips", common.share_of("emails", emails) + common.share_of("ips", ips))
    for name, value in (("songs", songs), ("users", users), ("rate", rate)):
        if value < 1:
            raise InputError(f"{name}={value} is not positive: give 1 or more")
    popular = common.ZipfKeys(songs, skew, seed)
    corpus, inserts = corpus_of(seed), _inserts()

    def make(random: np.random.Generator, first: int, rows: int) -> dict[str, pa.Array]:
        place = first + np.sort(random.integers(0, rows, rows))
        chance = random.random(rows)
        email, ip = chance < emails, (chance >= emails) & (chance < emails + ips)
        decoy = (chance >= emails + ips) & (chance < emails + ips + DECOYS)
        everybody = np.ones(rows, dtype=bool)
        return {
            "ts": pa.array(place // rate),
            "event": common.kinds(["Comment"], np.zeros(rows)),
            "user": pa.array(random.integers(0, users, rows)),
            "song": pa.array(popular.draw(random, rows)),
            "text": texts(random, corpus, inserts, everybody, (email, ip, decoy), TEXT_MIN, TEXT_MAX),
            "has_email": pa.array(email),
            "has_ip": pa.array(ip),
        }

    return common.chunks(events, seed, common.STEP_MAX, make)


def _inserts() -> Inserts:
    """E-mail addresses, IP addresses, and what only looks like one."""
    emails = [f" fan{i}@band{i * 7 % 31}.example " for i in range(64)]
    ips = [f" 10.{i * 37 % 256}.{i * 11 % 256}.{i} " for i in range(64)]
    decoys = [" @dj ", " gig @ 8.30 ", " me@home ", " v1.2.3 ", " 300.1.2.3 ", " 1.2.3.256 ", " 3.5.. ", " @ noon.ok "]
    return Inserts.of(emails, ips, decoys)
