"""A second look at windows: what the last window of every key must hold, computed from the sorted log in columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa


def same_last_windows(
    table: pa.Table,
    ts: np.ndarray,
    key: np.ndarray,
    size: int,
    advance: int,
    *,
    count: str,
    first: Mapping[str, np.ndarray],
    mean: Mapping[str, np.ndarray] | None = None,
) -> bool:
    """Whether the table of a window is that of these events (in total order), which have one integer key.

    The last window of a key is the one that begins last before its last event. `count`, `first` and `mean` name fields:
    how many events it has, the value of its first one, and the mean of values.
    """
    order = np.argsort(key, kind="stable")
    ts, key = ts[order], key[order]
    keys, last = np.unique(key[::-1], return_index=True)
    last = len(key) - 1 - last
    start = ts[last] // advance * advance
    first_of_key = np.searchsorted(key, keys)
    begin = np.array(
        [lo + np.searchsorted(ts[lo : hi + 1], s) for lo, hi, s in zip(first_of_key, last, start, strict=True)]
    )
    wanted = {"key": keys, "start": start, "end": start + size, count: last + 1 - begin}
    begin = begin.astype(np.int64)
    wanted |= {name: values[order][begin] for name, values in first.items()}
    for name, values in (mean or {}).items():
        total = np.concatenate([[0], np.cumsum(values[order])])
        wanted[name] = (total[last + 1] - total[begin]) / (last + 1 - begin)
    return all(np.array_equal(table[name].to_numpy(), column) for name, column in wanted.items())


def events_per_window(ts: np.ndarray, key: np.ndarray, size: int, advance: int) -> tuple[np.ndarray, np.ndarray]:
    """The key of each window that has events, sorted, and how many it has."""
    number = ts[:, None] // advance - np.arange(-(-size // advance))
    inside = number * advance + size > ts[:, None]
    windows = np.stack([np.broadcast_to(key[:, None], number.shape)[inside], number[inside]])
    found, counts = np.unique(windows, axis=1, return_counts=True)
    return found[0], counts
