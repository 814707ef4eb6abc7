"""The key index against a dict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.jit import plain
from mainstem.state import KeyIndex, index, probe1, probe2, probe3, probe4, row_of
from mainstem.state.mixing import mix

EDGES = [0, 1, -1, 2**16 - 1, 2**16, 2**31, 2**32, -(2**32), 2**63 - 1, -(2**63)]
int64s = st.one_of(st.sampled_from(EDGES), st.integers(0, 50), st.integers(-(2**63), 2**63 - 1))
PROBES = {1: probe1, 2: probe2, 3: probe3, 4: probe4}


def columns(keys: list[tuple[int, ...]], ncomp: int) -> list[np.ndarray]:
    return [np.array([key[c] for key in keys], np.int64) for c in range(ncomp)]


def expected_rows(known: dict[tuple[int, ...], int], keys: list[tuple[int, ...]], ok: list[bool]) -> list[int]:
    return [known.setdefault(key, len(known)) if good else -1 for key, good in zip(keys, ok, strict=True)]


@given(st.data(), st.integers(1, 5))
@settings(max_examples=60)
def test_resolve_and_find_equal_a_dict(data: st.DataObject, ncomp: int) -> None:
    entries = st.lists(st.tuples(st.tuples(*[int64s] * ncomp), st.booleans()), max_size=40)
    found, known = KeyIndex(ncomp), {}
    for batch in data.draw(st.lists(entries, max_size=4)):
        keys, ok = [key for key, _ in batch], [good for _, good in batch]
        parts, flags = columns(keys, ncomp), np.array(ok, np.uint8)
        before = [known.get(key, -1) if good else -1 for key, good in batch]
        assert found.find(parts, flags).tolist() == before
        assert found.resolve(parts, flags).tolist() == expected_rows(known, keys, ok)
        assert found.count == len(known)
        assert [tuple(key) for key in found.keys[: found.count].tolist()] == list(known)


def spread(kind: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(7)
    return {
        "dense": rng.permutation(n),
        "negative": -rng.permutation(n) - 1,
        "random": rng.integers(-(2**63), 2**63 - 1, n),
        "strided": np.arange(n) << 40,
        "mixed": np.where(np.arange(n) % 3 == 0, np.arange(n), rng.integers(2**40, 2**41, n)),
        "dense, then random": np.where(np.arange(n) < n // 2, np.arange(n), rng.integers(2**40, 2**62, n)),
        "random, then dense": np.where(np.arange(n) < 2000, -1 - np.arange(n), np.arange(n)),
    }[kind].astype(np.int64)


@pytest.mark.parametrize(
    "kind", ["dense", "negative", "random", "strided", "mixed", "dense, then random", "random, then dense"]
)
def test_rows_stay_through_growth(kind: str) -> None:
    keys = spread(kind, 150_000)
    found, known = KeyIndex(1), {}
    for first in range(0, len(keys), 40_000):
        batch = keys[first : first + 40_000]
        rows = found.resolve([batch])
        assert rows.tolist() == [known.setdefault(key, len(known)) for key in batch.tolist()]
    everything = np.fromiter(known, np.int64)
    assert np.array_equal(found.find([everything]), np.arange(len(known)))
    assert np.array_equal(found.resolve([everything]), np.arange(len(known)))
    assert found.count == len(known) <= len(found.keys)
    assert 2 * found.count <= len(found.slots)


def test_dense_keys_are_addressed_directly_and_others_are_not() -> None:
    dense, sparse = KeyIndex(1), KeyIndex(1)
    dense.resolve([np.arange(100_000)])
    sparse.resolve([np.arange(100_000) * 10**9])
    assert len(dense.direct) >= 100_000
    assert len(sparse.direct) == 0
    assert dense.find([np.array([99_999, 100_000, -1, 2**40])]).tolist() == [99_999, -1, -1, -1]
    assert sparse.find([np.array([10**9, 1])]).tolist() == [1, -1]


@pytest.mark.parametrize("ncomp", [2, 3, 5])
def test_tuple_keys_grow(ncomp: int) -> None:
    rng = np.random.default_rng(ncomp)
    parts = [rng.integers(-20, 20, 20_000) for _ in range(ncomp)]
    found, known = KeyIndex(ncomp), {}
    expected = [known.setdefault(key, len(known)) for key in zip(*(p.tolist() for p in parts), strict=True)]
    assert found.resolve(parts).tolist() == expected
    assert found.find(parts).tolist() == expected
    assert found.find([np.full(1, 99)] * ncomp).tolist() == [-1]


@pytest.mark.parametrize("ncomp", [1, 2, 3, 4])
@pytest.mark.parametrize("form", ["compiled", "plain"])
def test_probes_find_what_resolve_added(ncomp: int, form: str) -> None:
    probe = PROBES[ncomp] if form == "compiled" else plain(PROBES[ncomp])
    rng = np.random.default_rng(3)
    keys = np.concatenate([np.array(EDGES)[:, None].repeat(ncomp, 1), rng.integers(-(2**63), 2**63 - 1, (2000, ncomp))])
    found = KeyIndex(ncomp)
    rows = found.resolve(list(keys.T))
    for key, row in zip(keys[:300], rows[:300], strict=True):
        assert probe(found.slots, found.keys, *key) == row
    assert probe(found.slots, found.keys, *[12345] * ncomp) == -1


@pytest.mark.parametrize("form", ["compiled", "plain"])
@pytest.mark.parametrize("kind", ["dense", "random", "mixed", "dense, then random"])
def test_row_of_finds_what_resolve_added_with_and_without_a_direct_table(kind: str, form: str) -> None:
    look_up = row_of if form == "compiled" else plain(row_of)
    keys = spread(kind, 3_000)
    found = KeyIndex(1)
    rows = found.resolve([keys])
    assert (len(found.direct) > 0) == (kind == "dense")
    for key, row in zip(keys[::7].tolist(), rows[::7].tolist(), strict=True):
        assert look_up(found.direct, found.slots, found.keys, key) == row
    for key in (-1, 60_000, 2**16, 2**63 - 1):
        assert look_up(found.direct, found.slots, found.keys, key) == -1


def test_colliding_tags_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hash that gives all keys one tag, only the keys themselves tell them apart."""
    monkeypatch.setattr(index, "mix", lambda state, word: 5)
    slots, keys, direct = np.zeros(64, np.int64), np.zeros((32, 1), np.int64), np.zeros(0, np.int32)
    monkeypatch.setattr(index, "_probe_any", plain(index._probe_any))
    monkeypatch.setattr(index, "_tag_of", plain(index._tag_of))
    wanted, out = np.array([[3], [9], [3], [-4]]), np.full(4, -1)
    stop, count = plain(index._settle)(slots, keys, direct, 0, wanted, np.zeros(0, np.uint8), out, 0, True)
    assert (stop, count, out.tolist()) == (4, 3, [0, 1, 0, 2])
    assert [plain(probe1)(slots, keys, key) for key in (3, 9, -4, 5)] == [0, 1, 2, -1]


def test_empty_batches_and_readonly_strided_input() -> None:
    found = KeyIndex(1)
    assert found.resolve([np.array([], np.int64)]).tolist() == []
    keys = np.arange(10)[::2]
    keys.flags.writeable = False
    assert found.resolve([keys]).tolist() == [0, 1, 2, 3, 4]
    assert found.resolve([np.array([4, 8], np.int32)]).tolist() == [2, 4]


def test_wrong_number_of_components() -> None:
    with pytest.raises(ValueError, match="a key of 2 components was looked up with 1"):
        KeyIndex(2).resolve([np.arange(3)])


@given(st.integers(0, 2**63 - 1), int64s)
def test_mixing_is_the_same_compiled_and_plain(state: int, word: int) -> None:
    assert mix(state, word) == plain(mix)(state, word)
