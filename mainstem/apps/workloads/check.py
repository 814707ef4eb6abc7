"""Building blocks of the apps' checks: columns as arrays for kernels, and the comparison with what a run left.

A check of a workload goes through its events once more, in order, in a loop of its own that shares no code with
the engines, and compares every decision, every output and every row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Fields = Sequence[tuple[str, str]]
"""Places of state: (table, field)."""


def kind_codes(events: pa.Table, names: list[str]) -> np.ndarray:
    """Per event, the position of its type in `names`."""
    return pc.index_in(events["event"].cast(pa.string()), pa.array(names)).to_numpy()


def numbers(table: pa.Table, column: str) -> np.ndarray:
    """An int64 column, 0 where it is null."""
    return table[column].fill_null(0).to_numpy()


def list_parts(table: pa.Table, column: str) -> tuple[np.ndarray, np.ndarray]:
    """A list column as (offsets of the rows, all values)."""
    array = table[column].combine_chunks()
    return array.offsets.to_numpy(), array.values.to_numpy()


def rows(tables: Mapping[str, pa.Table], fields: Fields) -> list[np.ndarray]:
    """Copies of fields of tables whose keys are 0 to n-1, each in key order."""
    return [tables[table].sort_by("key")[field].to_numpy().copy() for table, field in fields]


def same_rows(tables: Mapping[str, pa.Table], fields: Fields, wanted: list[np.ndarray]) -> bool:
    return all(map(np.array_equal, wanted, rows(tables, fields)))


def same_outputs(outputs: pa.Table, committed: np.ndarray, **columns: np.ndarray) -> bool:
    """Whether exactly the `committed` events did commit, with these values where an output has one."""
    did = pc.equal(outputs["status"].cast(pa.string()), "committed").to_numpy()
    if not np.array_equal(did, committed.astype(bool)):
        return False
    for name, wanted in columns.items():
        (given,) = np.nonzero(outputs[name].is_valid().to_numpy())
        if not np.array_equal(outputs[name].take(given).to_numpy(), wanted[given]):
            return False
    return True
