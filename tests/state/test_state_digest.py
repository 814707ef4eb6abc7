"""The digest sees content, all of it, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.state import digest

COLUMNS: dict[str, pa.Array] = {
    "int": pa.array([1, None, 3, 4]),
    "float": pa.array([0.0, -1.5, None, float("nan")]),
    "bool": pa.array([True, None, False, True]),
    "text": pa.array(["a", "", None, "é"]),
    "binary": pa.array([b"a", b"", None, b"\0"]),
    "time": pa.array([1, 2, None, 3], pa.timestamp("us")),
    "list": pa.array([[1, 2], None, [], [None]], pa.list_(pa.int64())),
    "fixed": pa.array([[1.0, 2.0], None, [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float64(), 2)),
    "null": pa.nulls(4),
}


def of(**columns: Any) -> str:
    return digest({"T": pa.table(columns)})


@pytest.mark.parametrize("name", COLUMNS)
def test_representation_makes_no_difference(name: str) -> None:
    column = COLUMNS[name]
    table = pa.table({"x": column})
    expected = digest({"T": table})
    assert len(expected) == 16
    assert int(expected, 16) >= 0
    assert digest({"T": pa.concat_tables([table[:1], table[1:1], table[1:]])}) == expected
    shifted = pa.concat_arrays([column[3:], column, column[:1]])[1:5]
    assert shifted.offset == 1
    assert digest({"T": pa.table({"x": shifted})}) == expected


@pytest.mark.parametrize("name", COLUMNS)
def test_every_row_counts(name: str) -> None:
    column = COLUMNS[name]
    assert len({of(x=column[:n]) for n in range(5)}) == 5
    assert len({of(x=column[i : i + 1]) for i in range(4)}) == len({repr(value) for value in column.to_pylist()})


def test_dictionary_encoding_makes_no_difference() -> None:
    column = pa.array(["a", "b", None, "a"])
    assert of(x=column.dictionary_encode()) == of(x=column)
    assert of(x=column.dictionary_encode()[1:]) == of(x=column[1:])


@pytest.mark.parametrize(
    "type_",
    [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.large_string())],
    ids=str,
)
def test_encodings_of_text_make_no_difference(type_: pa.DataType) -> None:
    values = ["a", "bé", None, ""]
    assert of(x=pa.array(values, type_)) == of(x=pa.array(values))


def test_wide_offsets_make_no_difference() -> None:
    lists = [[b"a", b"bc"], [], None]
    wide = pa.large_list(pa.large_binary())
    assert of(x=pa.array(lists, wide)) == of(x=pa.array(lists, pa.list_(pa.binary())))
    assert of(x=pa.array([b"ab"], pa.binary(2))) == of(x=pa.array([b"ab"]))


def test_what_lies_under_a_null_makes_no_difference() -> None:
    hidden = [pa.array(np.array([1, value, 3]), mask=np.array([False, True, False])) for value in (5, 6)]
    assert of(x=hidden[0]) == of(x=hidden[1])


def test_a_bitmap_without_nulls_makes_no_difference() -> None:
    bits = pa.py_buffer(b"\xff")
    values = pa.py_buffer(np.arange(3).tobytes())
    assert of(x=pa.Array.from_buffers(pa.int64(), 3, [bits, values])) == of(x=pa.array([0, 1, 2]))


def test_types_names_order_and_bits_count() -> None:
    digests = [
        of(x=pa.array([1, 0])),
        of(x=pa.array([0, 1])),
        of(x=pa.array([1, 0], pa.int32())),
        of(x=pa.array([1, 0], pa.timestamp("us"))),
        of(x=pa.array([True, False])),
        of(x=pa.array([1.0, 0.0])),
        of(x=pa.array([1.0, -0.0])),
        of(y=pa.array([1, 0])),
        of(x=pa.array([1, 0]), y=pa.array([1, 0])),
        of(x=pa.array(["ab", "c"])),
        of(x=pa.array(["a", "bc"])),
        of(x=pa.array([b"a", b"bc"])),
        digest({"U": pa.table({"x": [1, 0]})}),
        digest({"T": pa.table({"x": [1, 0]}), "U": pa.table({"x": [1, 0]})}),
        digest({}),
    ]
    assert len(set(digests)) == len(digests)


def test_order_of_tables_makes_no_difference() -> None:
    a, b = pa.table({"x": [1]}), pa.table({"x": [2]})
    assert digest({"A": a, "B": b}) == digest({"B": b, "A": a}) != digest({"A": b, "B": a})


def test_the_digest_of_stored_data_does_not_change_between_versions() -> None:
    assert of(key=pa.array([1, 2]), name=pa.array(["a", None])) == "493e56f1b4e91995"


def test_types_without_a_digest_are_named() -> None:
    with pytest.raises(TypeError, match="a column of type struct<a: int64> has no digest"):
        of(x=pa.array([{"a": 1}]))


rows = st.lists(st.tuples(st.none() | st.integers(0, 2), st.none() | st.sampled_from(["", "a", "ab"])), max_size=5)


@given(rows, rows)
def test_equal_content_and_only_equal_content(left: list[Any], right: list[Any]) -> None:
    def table(content: list[Any]) -> pa.Table:
        numbers, texts = [n for n, _ in content], [t for _, t in content]
        return pa.table({"n": pa.array(numbers, pa.int64()), "t": pa.array(texts, pa.string())})

    assert (digest({"T": table(left)}) == digest({"T": table(right)})) == (left == right)
