"""Where batches were closed: what a log that is not sorted means depends on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cuts:
    """Batches of an earlier run. A span `(size, end)`: batches of `size` events, the last one perhaps smaller, until
    there were `end` events in all."""

    spans: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, spans: Iterable[Sequence[int]]) -> Cuts:
        """From what `as_lists` gave."""
        return cls(tuple((int(size), int(end)) for size, end in spans))

    @classmethod
    def regular(cls, size: int, events: int) -> Cuts:
        """Batches of one size until there were so many events."""
        return cls(((size, events),) if events else ())

    @property
    def events(self) -> int:
        return self.spans[-1][1] if self.spans else 0

    def followed_by(self, size: int, events: int) -> Cuts:
        """One more batch, of `events` events where there could have been `size`."""
        end = self.events + events
        if self.spans and self.spans[-1][0] == size and self._last_is_full:
            return Cuts((*self.spans[:-1], (size, end)))
        return Cuts((*self.spans, (size, end)))

    @property
    def _last_is_full(self) -> bool:
        size, end = self.spans[-1]
        start = self.spans[-2][1] if len(self.spans) > 1 else 0
        return (end - start) % size == 0

    def as_lists(self) -> list[list[int]]:
        """As JSON can hold it."""
        return [list(span) for span in self.spans]
