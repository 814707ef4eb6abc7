"""Transactions that a thread takes at once, in event order.

Neighbours write their results to the same cache lines, so threads that take turns one by one send these lines, and that
of the counter, back and forth.
"""

from __future__ import annotations

from .base import inlined, kernel

CLAIM = 4
CLAIMS_PER_THREAD = 32  # in the smallest batch for which it pays
LAST_CLAIMS = 4  # per thread: their transactions are claimed one by one, so that threads end together


@kernel
def choose_claim(transactions: int, threads: int) -> int:
    """How many transactions to take at once."""
    return CLAIM if transactions >= CLAIM * CLAIMS_PER_THREAD * threads else 1


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
