"""Strategies that run a transaction as a whole: prepare the arrays of their kernels, and let all workers run them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mainstem.engine.kernels import load
from mainstem.engine.kernels.control import LINE
from mainstem.engine.kernels.inflight import OPEN, PLACE_WORDS
from mainstem.engine.kernels.locks import LOCK_WORDS
from mainstem.engine.work import Work
from mainstem.team import Crew

PARTITIONS_PER_THREAD = 16  # enough that most transactions of different partitions do not meet
LOCKS_MOST, LOCKS_LEAST = 1 << 14, 64  # half a megabyte; rows that share a lock only wait for each other
PLACES_PER_REQUEST, PLACES_LEAST, PLACES_MOST = 16, 64, 1 << 13  # rows of one transaction that share a place are as one
BINS_PER_THREAD = 8  # a thread that is slow, or whose bin is heavy, leaves the others to the rest


def run_serial(work: Work, team: Crew) -> None:
    """In order, on one thread: a group of a nested run."""
    bound, kernels = work.direct(), load("locks", work.jit)

    def one(w: int) -> None:
        if w == 0:
            kernels.nolock_run(bound.function, bound.context, work.todo, work.control, work.clock, w)

    team.run(one, work.control)


def run_nolock(work: Work, team: Crew) -> None:
    """All at once, guarded by nothing: wrong where transactions meet. An upper bound for the others."""
    bound = work.direct()
    team.run(work.task("locks", "nolock_run", bound, work.todo, work.control, work.clock), work.control)


def run_lock(work: Work, team: Crew) -> None:
    """Ordered two-phase locking with lockAhead."""
    bound, kernels, requests = work.direct(), load("locks", work.jit), work.numbered.requests
    locks = _locks(work)
    claim = kernels.choose_lock_claim(work.todo, requests.lo, requests.of, team.threads)
    task = work.task(
        "locks", "lock_run", bound, work.todo, requests.lo, requests.of, *locks, claim, work.control, work.clock
    )
    team.run(task, work.control)


def _locks(work: Work) -> tuple[np.ndarray, np.ndarray]:
    """Tickets, and locks: a power of two of them, so many that rows hardly ever share one."""
    count = work.numbered.requests.count
    number = min(LOCKS_MOST, max(2 * count, LOCKS_LEAST), work.layout.all_rows)
    return work.room("ticket", count), work.zeros("lock", _power_of_two(number) * LOCK_WORDS)


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


def run_inflight(work: Work, team: Crew) -> None:
    """Every transaction waits for those still running that it conflicts with."""
    bound, requests = work.direct(), work.numbered.requests
    count, claims = len(work.todo), load("claims", work.jit)
    claim = claims.choose_claim(count, team.threads, requests.near)
    places = _power_of_two(min(PLACES_MOST, max(PLACES_LEAST, PLACES_PER_REQUEST * requests.count // count)))
    own = work.zeros("own", team.threads * places * PLACE_WORDS).reshape(team.threads, -1)
    opened = work.room("opened", team.threads**2 * OPEN).reshape(team.threads, -1)
    waiting = work.room("waiting", team.threads * OPEN).reshape(team.threads, OPEN)
    done = work.zeros("done", claims.count_claims(count, claim, team.threads) * LINE)
    task = work.task(
        "inflight", "inflight_run", bound, work.todo, requests.lo, requests.of, requests.before, claim, done, own,
        opened, waiting, work.control, work.clock,
    )  # fmt: skip
    team.run(task, work.control)


def run_mvlk(work: Work, team: Crew) -> None:
    """Versions, and a counter of finished writes for each row."""
    bound, kernels = work.versioned(), load("mvlk", work.jit)
    lwm = work.zeros("lwm", work.batch.rows)
    team.run(
        lambda w: kernels.mvlk_run(
            bound.function, bound.context, work.todo, work.txn_lo, work.op_row, work.op_write, work.op_writes_before,
            work.op_slot, work.op_src, work.op_ver, lwm, work.v_code, work.control, work.clock, w,
        ),
        work.control,
    )  # fmt: skip


def run_pat(work: Work, team: Crew) -> None:
    """Like `lock`, with a counter for each partition of the rows."""
    bound, kernels, requests = work.direct(), load("locks", work.jit), work.numbered.requests
    partitions = work.strategy.partitions or PARTITIONS_PER_THREAD * team.threads
    count, locks = len(work.todo), _locks(work)
    entries = (work.room("entry lo", count + 1), *(work.room(n, requests.count) for n in ("entry id", "entry turn")))
    scratch = (work.room("next", partitions), work.room("seen", partitions))
    kernels.pat_prepare(work.todo, requests.lo, requests.of, len(locks[1]), partitions, *entries, *scratch)
    counters = work.zeros("counter", partitions * LINE)
    task = work.task(
        "locks", "pat_run", bound, work.todo, requests.lo, requests.of, *entries, counters, *locks, work.control,
        work.clock,
    )  # fmt: skip
    team.run(task, work.control)


def run_components(work: Work, team: Crew) -> None:
    """Connected components of the conflict graph, packed by measured weight, each in order."""
    bound, kernels, count = work.direct(), load("components", work.jit), len(work.todo)
    found = find_components(work)
    bins = BINS_PER_THREAD * team.threads
    bin_lo, bin_txn = work.room("bin lo", bins + 1), work.room("bin txn", count)
    kernels.pack(
        work.todo, found.number, found.total, found.component, found.size, found.weight,
        work.room("heavy", bins * kernels.LIGHT_PART), work.room("place", count), work.room("bins", bins),
        bin_lo, bin_txn,
    )  # fmt: skip
    sheet = work.weights.sheet(team.threads)
    team.run(
        lambda w: kernels.components_run(
            bound.function, bound.context, bin_lo, bin_txn, work.fn, sheet, work.control, work.clock, w
        ),
        work.control,
    )
    work.weights.learn(sheet)


class Components(NamedTuple):
    """Transactions that may conflict, directly or through others, are in one component."""

    number: int
    heaviest: int
    total: int
    component: np.ndarray  # of each transaction of `todo`
    size: np.ndarray
    weight: np.ndarray


def find_components(work: Work) -> Components:
    count, rows = len(work.todo), work.batch.rows
    scratch = (work.room("parent", rows), work.room("row component", rows))
    per = [work.room(n, count) for n in ("component", "size", "weight")]
    numbers = load("components", work.jit).find_components(
        work.todo, work.txn_lo, work.op_row, work.op_write, work.fn, work.weights.whole_numbers(), *scratch, *per
    )
    return Components(*numbers, *per)
