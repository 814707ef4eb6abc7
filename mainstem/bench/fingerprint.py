"""A digest of the ledger's outputs that does not depend on how they are cut into files or batches.

Every row gives a number made of its `seq`, how it ended and what was left; the digest is their sum. A row that is lost,
doubled, changed or moved to another `seq` changes it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.bench.limit import COMMITTED, REASONS

_ODD = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))


def of_columns(seq: np.ndarray, code: np.ndarray, left: np.ndarray, has_left: np.ndarray) -> int:
    mixed = (seq.astype(np.uint64) + np.uint64(1)) * _ODD[0]  # no row is worth 0
    mixed ^= (code.astype(np.uint64) * np.uint64(2) + has_left.astype(np.uint64)) * _ODD[1]
    mixed ^= np.where(has_left != 0, left, 0).astype(np.uint64) * _ODD[2]
    mixed ^= mixed >> np.uint64(29)
    mixed *= _ODD[1]
    mixed ^= mixed >> np.uint64(32)
    return int(mixed.sum(dtype=np.uint64))


def of_tables(tables: Iterable[pa.Table]) -> str:
    """The digest of output rows with `seq`, `status`, `reason` and `left`, in any order."""
    return text(sum(of_columns(*_columns(table)) for table in tables))


def text(total: int) -> str:
    return f"{total % 2**64:016x}"


def _columns(table: pa.Table) -> tuple[np.ndarray, ...]:
    reasons = pa.array(REASONS, pa.string())
    reason = table["reason"].cast(pa.string())
    code = pc.index_in(reason, reasons).fill_null(len(REASONS))
    # A committed row must have no reason; any other mix is a code of its own, so that it shows.
    committed = pc.equal(table["status"].cast(pa.string()), "committed")
    code = pc.if_else(pc.equal(committed, pc.equal(code, COMMITTED)), code, len(REASONS) + 1)
    left = table["left"]
    return (
        table["seq"].to_numpy(),
        code.to_numpy(),
        left.fill_null(0).to_numpy(),
        left.is_valid().to_numpy().astype(np.uint8),
    )
