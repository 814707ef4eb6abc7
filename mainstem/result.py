"""What `app.run` gives back, and the committed state it leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from mainstem.engine import BatchStats
from mainstem.errors import MainstemError
from mainstem.state import digest


class StateView(Mapping[str, pa.Table]):
    """Committed tables by name, as Arrow: key, then the fields, sorted by key."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._tables = dict(tables)

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._tables:
            known = ", ".join(self._tables) or "none: nothing has run yet"
            raise MainstemError(f"there is no table {name!r} in the state; tables: {known}")
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    @property
    def digest(self) -> str:
        """16 hex digits of the content: equal states, equal digests."""
        return digest(self._tables)


@dataclass
class Stats:
    """Totals of a run and the statistics of each batch."""

    seconds: float = 0.0
    batches: list[BatchStats] = field(default_factory=list)
    rejected: int = 0

    @property
    def events(self) -> int:
        return sum(b.events for b in self.batches)

    @property
    def committed(self) -> int:
        return sum(b.committed for b in self.batches)

    @property
    def aborted(self) -> int:
        return sum(b.aborted for b in self.batches)

    @property
    def engines(self) -> tuple[str, ...]:
        """The strategies that ran, in order of first use."""
        return tuple(dict.fromkeys(b.engine for b in self.batches))

    @property
    def table(self) -> pa.Table:
        """One row per batch: counts, engine, seconds per step."""
        names = [f.name for f in fields(BatchStats)]
        return pa.table({name: [getattr(batch, name) for batch in self.batches] for name in names})

    def __str__(self) -> str:
        rate = self.events / self.seconds if self.seconds else 0.0
        return (
            f"{self.events:,} events in {self.seconds:.2f} s ({rate:,.0f}/s), {self.committed:,} committed, "
            f"{self.aborted:,} aborted, {self.rejected:,} rejected, engine {', '.join(self.engines) or 'none'}"
        )


@dataclass
class Result:
    """Outputs in order, rejected rows, statistics, and the digest of the state after the run."""

    rejects: pa.Table
    stats: Stats
    digest: str
    _outputs: pa.Table | None = None
    _folder: Path | None = None
    _schema: pa.Schema | None = None

    @property
    def outputs(self) -> pa.Table:
        """One row per transaction, in order; read from the output directory when `out=` was given."""
        if self._outputs is None:
            assert self._folder is not None
            files = sorted(self._folder.glob("part-*.parquet"))  # named by seq, so this is their order
            self._outputs = ds.dataset(files, format="parquet", schema=self._schema).to_table()
        return self._outputs
