"""The stable hash: by content, the same everywhere, balanced."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mainstem.state import stable_hash


def test_representation_makes_no_difference() -> None:
    values = ["a", None, "", "longer than eight bytes", "é"]
    plain = stable_hash([pa.array(values)])
    assert plain.dtype == np.uint64
    for type_ in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        assert np.array_equal(stable_hash([pa.array(values, type_)]), plain)
    assert np.array_equal(stable_hash([pa.array(values)[2:]]), plain[2:])
    assert np.array_equal(stable_hash([pa.chunked_array([values[:2], values[2:]])]), plain)
    assert np.array_equal(stable_hash([pa.array([1, -2], pa.int32())]), stable_hash([pa.array([1, -2])]))
    binary = pa.array([None if v is None else v.encode() for v in values])
    assert np.array_equal(stable_hash([binary]), plain)


def test_values_do_not_change_between_processes_and_versions() -> None:
    pairs = stable_hash([pa.array(["", "a", "user-0001", None]), pa.array([0, -1, 2**63 - 1, 5])])
    assert pairs.tolist() == [2178141594092696418, 5786063593323902239, 1485319756961559353, 4098541726333576404]
    numbers = stable_hash([pa.array([0, 1, -1, None])])
    assert numbers.tolist() == [3103391252215237532, 8881089728422211758, 3203757708623043565, 1679981555973597866]


@pytest.mark.parametrize("shards", [2, 3, 4, 7, 8, 16])
@pytest.mark.parametrize("kind", ["consecutive", "multiples of 16", "large strides", "negative", "text", "pairs"])
def test_shards_are_balanced(kind: str, shards: int) -> None:
    n = 20_000
    numbers = np.arange(n)
    columns = {
        "consecutive": [pa.array(numbers)],
        "multiples of 16": [pa.array(numbers * 16)],
        "large strides": [pa.array(numbers << 32)],
        "negative": [pa.array(-numbers)],
        "text": [pa.array([f"user-{i:06d}" for i in range(n)])],
        "pairs": [pa.array(numbers % 100), pa.array(numbers // 100)],
    }[kind]
    counts = np.bincount((stable_hash(columns) % np.uint64(shards)).astype(np.int64), minlength=shards)
    # Six standard deviations of an even throw.
    assert np.abs(counts - n / shards).max() < 6 * np.sqrt(n / shards)


def test_all_columns_and_their_order_count() -> None:
    a, b = pa.array([1, 2, 3]), pa.array([4, 5, 6])
    hashes = [stable_hash(columns).tolist() for columns in ([a], [b], [a, b], [b, a], [a, a])]
    assert len({tuple(h) for h in hashes}) == 5
    zeros = pa.array([0])
    assert len({int(stable_hash([zeros] * n)[0]) for n in range(1, 6)}) == 5


def test_no_collisions_among_many_keys() -> None:
    assert len(np.unique(stable_hash([pa.array(np.arange(-100_000, 100_000))]))) == 200_000
    assert len(np.unique(stable_hash([pa.array([b"\0" * n for n in range(500)])]))) == 500


def test_times_and_bools_by_value_and_other_types_named() -> None:
    times = pa.array([1, None], pa.timestamp("us"))
    assert np.array_equal(stable_hash([times]), stable_hash([pa.array([1, None])]))
    assert np.array_equal(stable_hash([pa.array([True, False])]), stable_hash([pa.array([1, 0])]))
    with pytest.raises(TypeError, match="a column of type double can't be hashed"):
        stable_hash([pa.array([1.0])])
    with pytest.raises(ValueError, match="at least one column"):
        stable_hash([])
