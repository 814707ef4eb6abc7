"""Transactions that a thread takes at once, in event order.

Neighbours write their results to the same cache lines, so threads that take turns one by one send these lines, and that
of the counter, back and forth.
"""

from __future__ import annotations

from .base import inlined, kernel

CLAIM = 4
CLAIM_FAR = 32  # where hardly any transaction conflicts with one that is so near that it may be running
CLAIMS_PER_THREAD = 32  # in the smallest batch for which it pays
LAST_CLAIMS = 2  # per thread: their transactions are claimed one by one, so that threads end together
NEAR_SHARE = 8  # one of so many transactions, at most, with a conflict that is near


@kernel
def choose_claim(transactions: int, threads: int, near: int) -> int:
    """How many transactions to take at once; `near` of them conflict with one that may be running then."""
    claim = CLAIM_FAR if near * NEAR_SHARE <= transactions else CLAIM
    while claim > 1 and transactions < claim * CLAIMS_PER_THREAD * threads:
        claim //= 2
    return claim


@inlined
def claims_of_many(transactions: int, claim: int, threads: int) -> int:
    """How many claims have `claim` transactions. Those after them have one."""
    return max(0, transactions // claim - LAST_CLAIMS * threads)


@kernel
def count_claims(transactions: int, claim: int, threads: int) -> int:
    many = claims_of_many(transactions, claim, threads)
    return many + transactions - many * claim


@inlined
def begin_of(number: int, claim: int, many: int) -> int:
    """Where in `todo` a claim begins."""
    return number * claim if number < many else many * claim + number - many
