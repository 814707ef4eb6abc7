"""Compiled loops of routing: every item is moved once, by its number."""

from __future__ import annotations

import numpy as np

from mainstem.jit import kernel


@kernel
def rank(shard: np.ndarray, counts: np.ndarray, number: np.ndarray) -> None:
    """`number[j]`: how many items before j have its shard; `counts` (zeros) becomes the items of each shard."""
    for j in range(len(shard)):
        s = shard[j]
        number[j] = counts[s]
        counts[s] += 1


@kernel
def places(shard: np.ndarray, number: np.ndarray, starts: np.ndarray, place: np.ndarray) -> None:
    """Where each item stands when all are sorted by shard."""
    for j in range(len(shard)):
        place[j] = starts[shard[j]] + number[j]


@kernel
def scatter(values: np.ndarray, pos: np.ndarray, place: np.ndarray, out: np.ndarray) -> None:
    for j in range(len(pos)):
        out[place[j]] = values[pos[j]]


@kernel
def gather(values: np.ndarray, pos: np.ndarray, out: np.ndarray) -> None:
    for j in range(len(pos)):
        out[j] = values[pos[j]]


@kernel
def put(number: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    for j in range(len(number)):
        out[number[j]] = values[j]


@kernel
def put_places(number: np.ndarray, first: int, out: np.ndarray) -> None:
    """The inverse of a permutation: item `number[j]` is found at `first + j`."""
    for j in range(len(number)):
        out[number[j]] = first + j


@kernel
def interleave(
    kind: np.ndarray, count: np.ndarray, local: np.ndarray, shards: np.ndarray, next_shard: np.ndarray,
    cursor: np.ndarray, out: np.ndarray,
) -> None:  # fmt: skip
    """The pieces of a stage in the order (row, piece), sorted by shard.

    An event of type k has `count[k]` pieces here, with the numbers `local[k]`. The shards of the items of one piece
    stand in `shards` one after the other, from `next_shard[k, turn]` on. `cursor` starts as the starts of the shards.
    """
    for row in range(len(kind)):
        k = kind[row]
        for turn in range(count[k]):
            s = shards[next_shard[k, turn]]
            next_shard[k, turn] += 1
            out[cursor[s]] = local[k, turn]
            cursor[s] += 1
