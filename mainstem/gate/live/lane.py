"""One input of a live gate: its rows are checked as they come, and wait as columns until their turn."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence

from mainstem.gate.assemble import Slice
from mainstem.gate.flaws import Flaw, after_heartbeat, after_silence
from mainstem.gate.piece import Chunk
from mainstem.gate.raw import Input, Raw, Request
from mainstem.gate.rejects import Rejects
from mainstem.gate.validate import OnBad, Validator
from mainstem.schema import INT64_MIN


class LiveInput(Input):
    """Rows are brought, not read."""

    what = "live"

    def read(self, request: Request) -> Iterator[Raw]:
        return iter(())


class LiveValidator(Validator):
    """Knows why a row is too old: because of a row before it, a heartbeat, or a silence that was too long."""

    promised, skipped = INT64_MIN, False

    def promise(self, ts: int, skipped: bool) -> None:
        self.clock = self.promised = ts
        self.skipped = skipped

    def _goes_back(self, ts: int, reached: int) -> Flaw:
        if reached != self.promised:
            return super()._goes_back(ts, reached)
        return after_silence(ts, reached) if self.skipped else after_heartbeat(ts, reached)


class Lane:
    """The lock makes one step of accepting rows and queueing them; threads of different inputs never share one."""

    def __init__(self, number: int, request: Request, on_bad: OnBad, rejects: Rejects, now: float) -> None:
        self.lock = threading.Lock()
        self.validator = LiveValidator(number, LiveInput(), request, on_bad, Rejects(), "error")
        self.closed, self.heard = False, now
        self.reached = INT64_MIN
        """What counts of the input's rows and heartbeats: others may read it while rows are being accepted."""
        self.consumed = 0
        self._rejects = rejects
        self._chunks: deque[Chunk] = deque()
        self._at = 0

    def accept(self, raws: Sequence[Raw]) -> list[Chunk]:
        """The good rows; when a row is refused, none of them counts, nor do those that were set aside."""
        offset, clock = self.validator.offset, self.validator.clock
        self.validator.rejects = aside = Rejects()
        try:
            chunks = [chunk for raw in raws if len(chunk := self.validator.accept(raw))]
        except BaseException:
            self.validator.offset, self.validator.clock = offset, clock
            raise
        self._rejects.extend(aside)
        return chunks

    def put(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)

    def take(self, count: int) -> list[Slice]:
        """The next rows, without copying them."""
        taken = []
        while count:
            chunk = self._chunks[0]
            stop = min(len(chunk), self._at + count)
            taken.append(Slice(chunk, self._at, stop))
            self.consumed = chunk.consumed(stop)
            count -= stop - self._at
            self._at = stop
            if stop == len(chunk):
                self._chunks.popleft()
                self._at = 0
        return taken
