"""Tables in memory: key index, records, string pools; export, digest and hash of their content."""

from mainstem.state.digest import Digest, digest
from mainstem.state.entries import entries
from mainstem.state.hashing import stable_hash
from mainstem.state.index import KeyIndex, probe1, probe2, probe3, probe4, row_of
from mainstem.state.pool import StringPool
from mainstem.state.state import State
from mainstem.state.table import DELETED, TableState, key_order, words

__all__ = [
    "DELETED",
    "Digest",
    "KeyIndex",
    "State",
    "StringPool",
    "TableState",
    "digest",
    "entries",
    "key_order",
    "probe1",
    "probe2",
    "probe3",
    "probe4",
    "row_of",
    "stable_hash",
    "words",
]
