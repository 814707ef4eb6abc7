"""Which shard owns a key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.jit import kernel
from mainstem.state import stable_hash


def shards_of(keys: list[pa.Array], shards: int, dtype: Any = np.int64) -> np.ndarray:
    """The shard of each key: the same in every process, and for events as for rows of tables."""
    hashes = stable_hash(keys).view(np.int64)
    out = np.empty(len(hashes), dtype)
    _remainders(hashes, shards, out)
    return out


@kernel
def _remainders(hashes: np.ndarray, shards: int, out: np.ndarray) -> None:
    """Hashes are not negative. A division takes longer than all else here, and most numbers of shards need none."""
    if shards & (shards - 1) == 0:
        for j in range(len(hashes)):
            out[j] = int(hashes[j]) & (shards - 1)
    else:
        for j in range(len(hashes)):
            out[j] = int(hashes[j]) % shards
