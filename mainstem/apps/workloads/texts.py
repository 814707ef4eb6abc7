"""Made-up texts for the workloads: pieces of one corpus, some with something put in that a scan is to find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mainstem.jit import kernel

CORPUS_WORDS = 50_000


def corpus_of(seed: int) -> np.ndarray:
    """Made-up words, as bytes; texts are pieces of it. No @ and no digit in it."""
    random = np.random.default_rng([seed, CORPUS_WORDS])
    letters = np.frombuffer(b"etaoinshrdlucmfwypvbgk", np.uint8)
    likely = np.arange(letters.size, 0, -1) / np.arange(letters.size, 0, -1).sum()
    sizes = random.integers(2, 9, CORPUS_WORDS)
    text = random.choice(letters, int((sizes + 1).sum()), p=likely)
    text[np.cumsum(sizes + 1) - 1] = ord(" ")
    return text


@dataclass(frozen=True)
class Inserts:
    """Short texts that are put into others: `groups[g]` are those from `first[g]` to `first[g + 1]`."""

    data: np.ndarray  # uint8
    offsets: np.ndarray
    first: np.ndarray

    @staticmethod
    def of(*groups: Sequence[str]) -> Inserts:
        encoded = [text.encode() for group in groups for text in group]
        offsets = np.cumsum([0, *map(len, encoded)])
        first = np.cumsum([0, *map(len, groups)])
        return Inserts(np.frombuffer(b"".join(encoded), np.uint8), offsets, first)


def texts(
    random: np.random.Generator,
    corpus: np.ndarray,
    inserts: Inserts,
    present: np.ndarray,
    given: Sequence[np.ndarray],
    size_min: int,
    size_max: int,
) -> pa.Array:
    """A column of texts where `present`: pieces of the corpus; `given[g]` says which get one of the inserts' group g.

    A text that is in several groups gets one of the last.
    """
    rows = present.size
    size = np.where(present, random.integers(size_min, size_max, rows), 0)
    start = random.integers(0, corpus.size - size_max, rows)
    cut = (size * random.random(rows)).astype(np.int64)
    which = np.full(rows, -1)
    for chosen, first, end in zip(given, inserts.first[:-1], inserts.first[1:], strict=True):
        which = np.where(chosen, random.integers(first, end, rows), which)
    added = np.where(which >= 0, inserts.offsets[which + 1] - inserts.offsets[which], 0)
    offsets = np.concatenate([[0], np.cumsum(size + added)]).astype(np.int32)
    text = np.empty(int(offsets[-1]), np.uint8)
    _fill(corpus, start, size, cut, inserts.data, inserts.offsets, which, offsets, text)
    valid = pa.array(present).buffers()[1]
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text), valid)


@kernel
def _fill(
    corpus: np.ndarray,
    start: np.ndarray,
    size: np.ndarray,
    cut: np.ndarray,
    extra: np.ndarray,
    extra_offsets: np.ndarray,
    which: np.ndarray,
    offsets: np.ndarray,
    text: np.ndarray,
) -> None:
    """Row i: `size[i]` bytes of the corpus from `start[i]` on; the insert `which[i]` (or -1) comes after `cut[i]`."""
    for i in range(len(start)):
        at, begin = offsets[i], start[i]
        for j in range(begin, begin + cut[i]):
            text[at] = corpus[j]
            at += 1
        if which[i] >= 0:
            for j in range(extra_offsets[which[i]], extra_offsets[which[i] + 1]):
                text[at] = extra[j]
                at += 1
        for j in range(begin + cut[i], begin + size[i]):
            text[at] = corpus[j]
            at += 1
