"""How much one client, and all of them together, may ask for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of a server. Each answers 4xx when it is met, and says which one it was."""

    body_bytes: int = 1 << 20
    query_letters: int = 64 << 10  # of SQL, which DuckDB reads while all threads wait: 0.2 s at worst
    head_bytes: int = 16 << 10  # request line and headers: what other servers take, and far more than a client needs
    rows: int = 100_000  # of one answer; the rest is cut off, and the answer says so
    query_seconds: float = 30.0  # waiting for a thread included; as long again to load an older version
    answer_bytes: int = 64 << 20  # of the Arrow table behind an answer
    memory_mb: int = 2048  # of DuckDB, for all queries together; the tables themselves not included
    queries: int = 4  # at once; DuckDB uses all cores for each
    queries_waiting: int = 64
    versions: int = 4  # older states that are kept loaded for `as_of`
    watchers: int = 32
    watch_seconds: float = 300.0  # of one answer; a client goes on from the last epoch that it saw
    connections: int = 256
    pipelined: int = 16  # requests of one connection that may wait for their turn
    arrival_seconds: float = 15.0  # from the first byte of a request to its last
    idle_seconds: float = 75.0  # of a connection between two requests
    stalled_seconds: float = 30.0  # of a client that does not read its answer
