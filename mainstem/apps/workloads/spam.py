"""The workload of `mainstem.apps.spam`: a social network with spammers, and what must hold at the end.

Popularity and activity follow a power law: the r-th most active user has a weight of r ** (-1 / (alpha - 1)), so a
smaller `alpha` concentrates events on fewer users. Ordinary users write mostly to friends of theirs; early in a log
many of these friendships are still to be made, later few are. Spammers write to anybody, often with an e-mail address,
and half of them from a handful of IP addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.apps.workloads import check, common
from mainstem.apps.workloads.texts import Inserts, corpus_of, texts
from mainstem.errors import InputError

USERS = 100_000
ALPHA = 2.0
SPAMMERS = 0.01  # of the users; they have the highest numbers
SPAM_MESSAGES = 0.05  # of the messages are written by spammers
FRIENDSHIPS_FIRST, FRIENDSHIPS_LAST = 0.40, 0.05  # of the events, at the start and at the end of a long log
FRIENDSHIPS_FADE = 5  # events per user until about two thirds of that change is over
TO_FRIENDS = 0.9  # of an ordinary user's messages
FROM_HOME = 0.9  # of the messages come from the user's own IP address
FRIENDS_MIN, FRIENDS_MAX = 2, 500
USERS_PER_IP, FARM_ACCOUNTS_PER_IP = 4, 25
EMAILS_OF_USERS, EMAILS_OF_SPAMMERS, DECOYS = 0.02, 0.6, 0.02  # of their messages hold an address, of all only an @
TEXT_MIN, TEXT_MAX = 40, 160  # bytes without the address; an event has about 125 bytes in all


def initial() -> dict[str, pa.Table]:
    """Nobody has friends and nobody has written yet."""
    return {}


def generate(
    events: int = 1_000_000,
    *,
    users: int = USERS,
    alpha: float = ALPHA,
    spammers: float = SPAMMERS,
    spam: float = SPAM_MESSAGES,
    seed: int = 0,
) -> pa.Table:
    """`events` friendships and messages in one table: `ts`, `event` and the fields of both (null where not used).

    `has_email` says which texts hold an e-mail address. `spammers` is their share of the users, `spam` the share of the
    messages that they write. A smaller log with the same arguments is a prefix of a larger one.
    """
    return pa.concat_tables(_chunks(events, users, alpha, spammers, spam, seed))


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


def conserved(
    before: Mapping[str, pa.Table], events: pa.Table, outputs: pa.Table, after: Mapping[str, pa.Table]
) -> bool:
    """Whether `outputs` and `after` are what `events` in this order make of an empty start (`before` is empty)."""
    from mainstem.apps import spam  # the rule's numbers, as they are now

    is_message = check.kind_codes(events, ["Friendship", "Message"]) == 1
    log = {name: check.numbers(events, name) for name in ("a", "b", "sender", "recipient", "ip")}
    emails = events["has_email"].fill_null(False).to_numpy()
    friend = _is_friend(is_message, log)
    to_friends = counts_so_far(log["sender"], is_message & friend)
    to_others = counts_so_far(log["sender"], is_message & ~friend)
    messages = counts_so_far(log["ip"], is_message)
    with_email = counts_so_far(log["ip"], is_message & emails)
    flagged = (to_others > spam.SPAM_RATIO * to_friends) & (with_email > spam.SPAM_SHARE * messages)
    same = check.same_outputs(outputs, np.ones(events.num_rows), spam=flagged)
    same &= np.array_equal(outputs["spam"].is_valid().to_numpy(), is_message)
    for table, key, counts in (
        ("Sender", "sender", {"to_friends": to_friends, "to_others": to_others}),
        ("Origin", "ip", {"messages": messages, "emails": with_email}),
    ):
        same &= _same_last(after[table], log[key][is_message], {n: c[is_message] for n, c in counts.items()})
    pairs = np.unique(_pair(log["a"], log["b"])[~is_message])
    marked = _pair(*(after["Friends"][name].to_numpy() for name in ("key_0", "key_1")))
    return bool(same and np.array_equal(marked, pairs) and after["Friends"]["yes"].to_numpy().all())


def counts_so_far(key: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Per row, how many rows up to and with it have its key and are `counted`."""
    order = np.argsort(key, kind="stable")
    running = np.cumsum(counted[order])
    first = np.flatnonzero(np.diff(key[order], prepend=key[order[:1]] - 1))
    sizes = np.diff(first, append=key.size)
    running -= np.repeat(running[first] - counted[order][first], sizes)
    counts = np.empty_like(running)
    counts[order] = running
    return counts


def _is_friend(is_message: np.ndarray, log: Mapping[str, np.ndarray]) -> np.ndarray:
    """Per message, whether an earlier friendship has its pair."""
    pair = np.where(is_message, _pair(log["sender"], log["recipient"]), _pair(log["a"], log["b"]))
    friend: np.ndarray = counts_so_far(pair, ~is_message) > 0
    return friend


def _pair(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Two users as one number; both are below 2 ** 31."""
    return left << 32 | right


def _same_last(table: pa.Table, key: np.ndarray, counts: Mapping[str, np.ndarray]) -> bool:
    """Whether the table has exactly these keys, each with its last counts."""
    keys, from_end = np.unique(key[::-1], return_index=True)
    last = key.size - 1 - from_end
    return np.array_equal(table["key"].to_numpy(), keys) and all(
        np.array_equal(table[name].to_numpy(), count[last]) for name, count in counts.items()
    )


@dataclass(frozen=True)
class _Network:
    """Who there is: ordinary users (first) and spammers, their friends and IP addresses."""

    active: common.ZipfKeys
    active_spammers: common.ZipfKeys
    ordinary: int
    first_friend: np.ndarray  # of user u in `friends`; the next users' begin where u's end
    friends: np.ndarray
    home: np.ndarray  # per user, ordinary or spammer: IP address
    ips: int  # shared by everybody; the spammers' own come behind

    @staticmethod
    def of(users: int, alpha: float, spammers: float, seed: int) -> _Network:
        bad = max(1, round(users * spammers))
        ordinary = users - bad
        if ordinary < 2:
            raise InputError(f"users={users} with spammers={spammers} leaves {ordinary} others: at least 2 are needed")
        skew = 1 / (alpha - 1)
        active = common.ZipfKeys(ordinary, skew, seed)
        degree = np.clip(np.ceil(2 * ordinary * active.share), FRIENDS_MIN, FRIENDS_MAX).astype(np.int64)
        first_friend = np.concatenate([[0], np.cumsum(degree)])
        random = np.random.default_rng([seed, users, 1])
        friends = common.ZipfKeys(ordinary, skew, seed + 1).draw(random, int(first_friend[-1]))
        friends += friends == np.repeat(np.arange(ordinary), degree)  # nobody is a friend of their own
        ips = max(1, users // USERS_PER_IP)
        home = random.integers(0, ips, users)
        farm = np.arange(ordinary, users, 2)
        home[farm] = ips + random.integers(0, 1 + bad // (2 * FARM_ACCOUNTS_PER_IP), farm.size)
        spam_accounts = common.ZipfKeys(bad, skew, seed + 2)
        return _Network(active, spam_accounts, ordinary, first_friend, friends % ordinary, home, ips)

    def friend_of(self, random: np.random.Generator, user: np.ndarray) -> np.ndarray:
        """A friend of each; a user's first friends are the closest."""
        degree = self.first_friend[user + 1] - self.first_friend[user]
        closeness = random.random(user.size) ** 2
        return self.friends[self.first_friend[user] + (degree * closeness).astype(np.int64)]


def _chunks(events: int, users: int, alpha: float, spammers: float, spam: float, seed: int) -> Iterator[pa.Table]:
    common.share_of("spammers", spammers)
    common.share_of("spam", spam)
    if not alpha > 1:
        raise InputError(f"alpha={alpha} is no exponent of a power law: give a number above 1, such as 2.0")
    network = _Network.of(users, alpha, spammers, seed)
    corpus, inserts = corpus_of(seed), _inserts()

    def make(random: np.random.Generator, first: int, rows: int) -> dict[str, pa.Array]:
        faded = np.exp(-np.arange(first, first + rows) / (FRIENDSHIPS_FADE * users))
        share = FRIENDSHIPS_LAST + (FRIENDSHIPS_FIRST - FRIENDSHIPS_LAST) * faded
        is_message = random.random(rows) >= share
        user = network.active.draw(random, rows)
        # Also those who hardly write have friends.
        newcomer = ~is_message & (random.random(rows) < 0.5)
        user[newcomer] = random.integers(0, network.ordinary, int(newcomer.sum()))
        other = network.friend_of(random, user)
        stranger = is_message & (random.random(rows) >= TO_FRIENDS)
        is_spammer = is_message & (random.random(rows) < spam)
        user[is_spammer] = network.ordinary + network.active_spammers.draw(random, int(is_spammer.sum()))
        anybody = stranger | is_spammer
        other[anybody] = random.integers(0, users, int(anybody.sum()))
        away = ~is_spammer & (random.random(rows) >= FROM_HOME)
        ip = np.where(away, random.integers(0, network.ips, rows), network.home[user])
        chance = random.random(rows)
        email = is_message & (chance < np.where(is_spammer, EMAILS_OF_SPAMMERS, EMAILS_OF_USERS))
        decoy = is_message & ~email & (chance > 1 - DECOYS)
        return {
            "event": common.kinds(["Friendship", "Message"], is_message),
            "a": common.only(user, ~is_message),
            "b": common.only(other, ~is_message),
            "sender": common.only(user, is_message),
            "recipient": common.only(other, is_message),
            "ip": common.only(ip, is_message),
            "content": texts(random, corpus, inserts, is_message, (email, decoy), TEXT_MIN, TEXT_MAX),
            "has_email": common.only(email, is_message),
        }

    return common.chunks(events, seed, common.STEP_MAX, make)


def _inserts() -> Inserts:
    """E-mail addresses, and texts that only have an @."""
    addresses = [f" offer{i}@shop{i * 7 % 31}.example " for i in range(64)]
    addresses += [f" first.last+{i}@mail.town-{i}.example.org " for i in range(64)]
    decoys = [" @ann ", " tea @ 4.30 ", " two@each ", " me@localhost, ", " @@@ ", " see you @ noon.ok "]
    return Inserts.of(addresses, decoys)
