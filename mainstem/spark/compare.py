"""Results of several variants of a program over one log, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING

from mainstem.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OUTCOME = ("status", "reason")
"""What every output row has that a rule may change; its own columns follow."""


class Replays(Mapping[str, "DataFrame"]):
    """Outputs by the name of the variant. Rows of all variants stand for the same transactions, known by `seq` (and
    `function`, where an event type has several)."""

    def __init__(self, frames: Mapping[str, DataFrame]) -> None:
        self._frames = dict(frames)

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._frames:
            raise InputError(f"there is no variant {name!r}\n  variants: {', '.join(self._frames)}")
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def __repr__(self) -> str:
        return f"Replays of {', '.join(self._frames)}"

    def changes(self, before: str | None = None, after: str | None = None) -> DataFrame:
        """Transactions that ended otherwise: `seq`, `ts`, `event`, `function`, the names of the columns that differ,
        and those columns before and after. Without names: the first variant against the last."""
        names = list(self._frames)
        old, new = self[before or names[0]], self[after or names[-1]]
        keys: list[str] = [name for name in ("ts", "seq", "event", "function") if name in old.columns]
        compared = [name for name in old.columns if name not in keys]
        differs = {name: _differs(name) for name in compared}
        joined = old.alias("old").join(new.alias("new"), on=keys)
        changed = joined.where(reduce(lambda a, b: a | b, differs.values()))
        return changed.select(*keys, _names(differs).alias("changed"), *_pairs(compared)).orderBy("seq")

    def counts(self) -> DataFrame:
        """How many transactions of each function ended how, per variant and per value of each true/false column."""
        from pyspark.sql import functions as F

        parts = []
        for name, frame in self._frames.items():
            flags = [column for column, kind in frame.dtypes if kind == "boolean"]
            by = [column for column in ("event", "function", *OUTCOME, *flags) if column in frame.columns]
            parts.append(frame.groupBy(*by).count().select(F.lit(name).alias("variant"), *by, "count"))
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)


def _differs(name: str) -> Column:
    from pyspark.sql import functions as F

    return ~F.col(f"old.`{name}`").eqNullSafe(F.col(f"new.`{name}`"))


def _names(differs: Mapping[str, Column]) -> Column:
    from pyspark.sql import functions as F

    return F.filter(
        F.array(*(F.when(found, F.lit(name)) for name, found in differs.items())), lambda name: name.isNotNull()
    )


def _pairs(names: list[str]) -> list[Column]:
    from pyspark.sql import functions as F

    sides = (("old", "before"), ("new", "after"))
    return [F.col(f"{side}.`{name}`").alias(f"{name}_{when}") for name in names for side, when in sides]
