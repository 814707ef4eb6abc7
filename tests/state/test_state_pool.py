"""The string pool against a dict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.state import StringPool

texts = st.one_of(st.text(max_size=3), st.text(alphabet="ab\0é€😀", max_size=20))
blobs = st.one_of(st.binary(max_size=3), st.binary(max_size=30), st.sampled_from([b"\0" * n for n in range(20)]))

TEXT_TYPES = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
BYTES_TYPES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int8(), pa.binary())]


def encoded(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(type_):
        return pa.array(values, type_.value_type).dictionary_encode().cast(type_)
    return pa.array(values, type_)


def check_against_dict(pool: StringPool, known: dict[Any, int], batch: list[Any], array: pa.Array) -> None:
    codes = pool.intern(array)
    assert codes.dtype == np.int64
    assert [pool.value(code) for code in codes] == batch
    assert pool.decode(codes).to_pylist() == batch
    for value, code in zip(batch, codes.tolist(), strict=True):
        assert code == (-1 if value is None else known.setdefault(value, code))
    assert len(set(known.values())) == len(known) == pool.count


@given(st.lists(st.tuples(st.lists(st.none() | texts, max_size=30), st.sampled_from(TEXT_TYPES)), max_size=4))
def test_text_pool_equals_a_dict(batches: list[tuple[list[str | None], pa.DataType]]) -> None:
    pool, known = StringPool(str), {"": 0}
    for values, type_ in batches:
        check_against_dict(pool, known, values, encoded(values, type_))


@given(st.lists(st.tuples(st.lists(st.none() | blobs, max_size=30), st.sampled_from(BYTES_TYPES)), max_size=4))
def test_bytes_pool_equals_a_dict(batches: list[tuple[list[bytes | None], pa.DataType]]) -> None:
    pool, known = StringPool(bytes), {b"": 0}
    for values, type_ in batches:
        check_against_dict(pool, known, values, encoded(values, type_))


@pytest.mark.parametrize("type_", TEXT_TYPES, ids=str)
def test_slices_and_chunks(type_: pa.DataType) -> None:
    values = ["aa", None, "b", "", "ccc", "aa", None, "dddddddddd"]
    whole = encoded(values, type_)
    pool = StringPool(str)
    for start in range(len(values)):
        for stop in range(start, len(values) + 1):
            assert pool.decode(pool.intern(whole[start:stop])).to_pylist() == values[start:stop]
    chunked = pa.chunked_array([whole[1:3], whole[3:3], whole[5:]])
    assert pool.decode(pool.intern(chunked)).to_pylist() == values[1:3] + values[5:]
    assert pool.intern(pa.chunked_array([], type_)).tolist() == []


def test_codes_are_dense_in_order_of_appearance_and_survive_growth() -> None:
    values = [f"value {i} " + "x" * (i % 40) for i in range(30_000)]
    pool = StringPool(str)
    assert pool.intern(pa.array(values)).tolist() == list(range(1, 30_001))
    assert pool.intern(pa.array(values[::-1])).tolist() == list(range(30_000, 0, -1))
    assert pool.value(12_345) == values[12_344]
    assert pool.decode(np.arange(1, 30_001)).to_pylist() == values
    assert len(pool) == 30_001


def test_one_value_larger_than_the_pool() -> None:
    pool = StringPool(bytes)
    large = bytes(range(256)) * 1000
    code = pool.intern_one(large)
    assert (pool.value(code), pool.intern_one(b"next"), pool.value(code + 1)) == (large, code + 1, b"next")


def test_decoded_values_stay_while_the_pool_grows() -> None:
    pool = StringPool(str)
    before = pool.decode(pool.intern(pa.array(["left", "right"])))
    pool.intern(pa.array([str(i) * 20 for i in range(20_000)]))
    assert before.to_pylist() == ["left", "right"]


def test_empty_value_is_zero_and_null_is_minus_one() -> None:
    for kind, empty in ((str, ""), (bytes, b"")):
        pool = StringPool(kind)
        assert pool.intern_one(empty) == 0
        assert pool.intern(pa.nulls(2)).tolist() == [-1, -1]
        assert pool.value(-1) is None
        assert pool.decode(np.array([-1, 0])).to_pylist() == [None, empty]


def test_find_adds_nothing() -> None:
    pool = StringPool(str)
    pool.intern_one("here")
    assert pool.find(pa.array(["here", "not here", None, ""])).tolist() == [1, -1, -1, 0]
    assert (pool.find_one("not here"), pool.count) == (-1, 2)


def test_a_long_dictionary_of_a_short_slice_is_not_taken_in() -> None:
    pool = StringPool(str)
    array = pa.array([str(i) for i in range(1000)]).dictionary_encode()[500:502]
    assert pool.decode(pool.intern(array)).to_pylist() == ["500", "501"]
    assert pool.count == 3


def test_dictionary_with_null_values() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array(["a", None]))
    pool = StringPool(str)
    assert pool.decode(pool.intern(array)).to_pylist() == ["a", None, None, "a"]


def test_fixed_size_binary_and_text_in_a_bytes_pool() -> None:
    pool = StringPool(bytes)
    fixed = pool.intern(pa.array([b"ab", b"cd"], pa.binary(2)))
    assert pool.intern(pa.array(["cd", "ab"])).tolist() == fixed[::-1].tolist()


def test_wrong_types() -> None:
    with pytest.raises(TypeError, match="a pool of str was given a column of type binary"):
        StringPool(str).intern(pa.array([b"x"]))
    with pytest.raises(TypeError, match=r"a pool of bytes was given 'x' \(str\)"):
        StringPool(bytes).intern_one("x")
    with pytest.raises(TypeError, match="a pool holds str or bytes"):
        StringPool(int)
    with pytest.raises(IndexError, match="no code 7; it holds 1 values"):
        StringPool(str).value(7)
    with pytest.raises(IndexError, match="no code 7; it holds 1 values"):
        StringPool(str).decode(np.array([0, 7]))
