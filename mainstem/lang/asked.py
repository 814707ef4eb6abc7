"""What generated code does for each row that a transaction asks for: notes the request, and with whom it may conflict.

Who asked for a row last stands at a place that its low bits tell, so rows may share one: then they count as one, and a
transaction may seem to conflict where it does not. Stamps grow from transaction to transaction and from batch to batch,
so places never have to be cleared.
"""

from __future__ import annotations

import numpy as np

from mainstem.jit import inlined

# Words of a place.
ANY = 0  # stamp of the last transaction that asked for the row
WRITE = 1  # and of the last that may write it
PLACE_WORDS = 2

ROOM_MAX, PLACES_MAX = 2**62 - 1, 2**31 - 1  # tell the compiler that an index is not negative
REQUEST_BITS = 2**31 - 1  # of a request: rows with the same low bits count as one


@inlined
def asked(
    request: np.ndarray, n: int, last: np.ndarray, found: int, stamp: int, row: int, writes: int
) -> tuple[int, int]:
    """Notes request number `n`; where there is no room left, in the last place. -> (the number of the next one, the
    later of `found` and the last stamp before `stamp` whose transaction may conflict with this one)"""
    request[min(n, len(request) - 1) & ROOM_MAX] = (row << 1 | writes) & REQUEST_BITS
    at = (row & (len(last) // PLACE_WORDS - 1) & PLACES_MAX) * PLACE_WORDS
    other, wrote = last[at + ANY], last[at + WRITE]
    last[at + ANY] = stamp
    if writes == 1:
        last[at + WRITE] = stamp
        if other < stamp:
            return n + 1, max(found, other)
        # Its own read of the row hides who read it before: that may have been the last one.
        return n + 1, max(found, stamp - 1) if wrote < stamp else found
    return n + 1, max(found, wrote) if wrote < stamp else found
