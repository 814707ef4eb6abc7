"""`Gate`: sorted inputs that grow while they are read, in one order that depends on what comes, never on when."""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from typing import Any

import pyarrow as pa

from mainstem.errors import InputError
from mainstem.gate.assemble import assemble
from mainstem.gate.batch import EventBatch
from mainstem.gate.live.blocks import Blocks
from mainstem.gate.live.forms import raws_of, schemas_of, table_of
from mainstem.gate.live.kernels import queues, skiplist
from mainstem.gate.live.lane import Lane
from mainstem.gate.live.listed import Listed
from mainstem.gate.live.order import Mark, Next, Order
from mainstem.gate.raw import Request
from mainstem.gate.rejects import Rejects
from mainstem.gate.validate import OnBad, check_on_bad
from mainstem.schema import INT64_MAX, INT64_MIN, EventSchema

ORDERS: dict[str, Callable[[int], Order]] = {
    "blocks": Blocks,
    "list": Listed,
    "queues": lambda inputs: Listed(inputs, queues),
    "skiplist": lambda inputs: Listed(inputs, skiplist),
}
"""By `kind`. The last two are what T-Gate is measured against (docs/gate.md)."""

AUTO = "blocks"  # whole batches are inserted through Python, and for them columns are faster in every case
INPUTS_MAX = 1 << 14
_ROWS = 65_536  # of a table that `ready` gives, at most


class Gate:
    """Merges inputs that are sorted by `ts`; see docs/gate.md.

    `events`: the app, or an Arrow schema with `ts`. `kind`: "blocks" (columns), "list" (T-Gate), or "auto".
    `idle`: seconds after which a silent input no longer holds up others; None waits for ever, and only that makes the
    order independent of timing. `on_bad`: "raise", or "reject" to set bad rows aside in `rejects`.
    """

    def __init__(
        self,
        inputs: int,
        *,
        events: Any,
        kind: str = "auto",
        idle: float | None = None,
        on_bad: OnBad = "raise",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        inputs = _check(inputs, kind, idle)
        check_on_bad(on_bad)
        self.inputs, self.schemas, self.rejects = inputs, schemas_of(events), Rejects()
        self.watermark: Mark | None = None
        """Nothing before this place `(ts, input)` will be handed on any more; None until every input has shown
        something. It moves when rows are taken."""
        self._order = ORDERS[AUTO if kind == "auto" else kind](inputs)
        self._idle, self._clock = idle, clock
        request = Request(self.schemas, tuple(schema.fields for schema in self.schemas), _ROWS)
        self._lanes = [Lane(number, request, on_bad, self.rejects, clock()) for number in range(inputs)]
        self._reading = threading.Lock()
        self._changed = threading.Condition()
        self._changes = 0

    # -- inputs -------------------------------------------------------------------------------------------------

    def insert(self, rows: Any, input: int) -> None:
        """Adds rows to an input: Arrow data, event objects or dicts. From any thread, one at a time per input."""
        (input, lane), raws = self._lane(input), raws_of(rows)
        with lane.lock:
            self._check_open(lane, input)
            lane.heard = self._clock()
            for chunk in lane.accept(raws):
                lane.put(chunk)
                self._order.add(input, chunk.ts)
            lane.reached = lane.validator.clock
        self._tell()

    def heartbeat(self, input: int, ts: int) -> None:
        """Nothing before `ts` will come from this input."""
        input, lane = self._lane(input)
        whole = _whole(ts)
        if whole is None or not INT64_MIN <= whole <= INT64_MAX:
            raise InputError(f"heartbeat of input {input}: ts={ts!r} is no 64-bit integer\n  give a ts of its events")
        with lane.lock:
            self._check_open(lane, input)
            lane.heard = self._clock()
            if whole < lane.reached:
                raise InputError(
                    f"heartbeat of input {input}: ts={whole} goes back, the input has already shown {lane.reached}"
                    "\n  a heartbeat says how far the input is: give at least that"
                )
            self._promise(lane, input, whole)
        self._tell()

    def close(self, input: int) -> None:
        """Nothing more will come from this input."""
        input, lane = self._lane(input)
        with lane.lock:
            if not lane.closed:
                self._order.close(input)
                lane.closed = True  # last: who sees all inputs closed finds all their rows ready
        self._tell()

    @property
    def closed(self) -> bool:
        """Whether all inputs are."""
        return all(lane.closed for lane in self._lanes)

    def _promise(self, lane: Lane, number: int, ts: int, skipped: bool = False) -> None:
        lane.validator.promise(ts, skipped)
        self._order.promise(number, ts)
        lane.reached = ts

    def _lane(self, input: int) -> tuple[int, Lane]:
        number = _whole(input)
        if number is None or not 0 <= number < self.inputs:
            raise InputError(f"input={input!r}: the gate has the inputs 0 to {self.inputs - 1}\n  give one of these")
        return number, self._lanes[number]

    def _check_open(self, lane: Lane, number: int) -> None:
        if lane.closed:
            raise InputError(f"input {number} is closed\n  close an input after its last event and heartbeat")

    def _tell(self) -> None:
        with self._changed:
            self._changes += 1
            self._changed.notify_all()

    # -- the order ----------------------------------------------------------------------------------------------

    def ready(self) -> list[pa.Table]:
        """The events that are ready now, in total order; [] if there are none. For one thread at a time."""
        tables = []
        while (batch := self.take(_ROWS)) is not None:
            tables.append(table_of(batch, self.schemas))
        return tables

    def take(self, limit: int) -> EventBatch | None:
        """Up to `limit` ready events as the engine reads them; None if there are none now."""
        with self._reading:
            if self._idle is not None:
                self._pass_idle_inputs(self._idle)
            found = self._order.take(limit)
            self.watermark = found.watermark if found.watermark is not None else self.watermark
            if not len(found):
                return None
            return self._assembled(found)

    def _assembled(self, found: Next) -> EventBatch:
        taken = [lane.take(count) for lane, count in zip(self._lanes, found.counts, strict=True) if count]
        return assemble(taken, len(self.schemas), tuple(lane.consumed for lane in self._lanes), found.merged)

    def batches(self, size: int, skip: int = 0) -> Iterator[EventBatch]:
        """Batches of up to `size` events until all inputs are closed, without the first `skip` events. A batch ends
        where nothing more is ready."""
        while True:
            before, finished = self._changes, self.closed
            while (batch := self.take(min(size, skip or size))) is not None:
                if skip:
                    skip -= len(batch)
                    continue
                yield batch
            if finished:
                break
            self._wait(before)
        if skip:
            raise InputError(
                f"the gate's inputs ended {skip} events before what was already processed\n  insert the same as before"
            )

    def __iter__(self) -> Iterator[pa.Table]:
        return self

    def __next__(self) -> pa.Table:
        """The next ready events; waits for them, and ends when all inputs are closed."""
        while True:
            before, finished = self._changes, self.closed
            batch = self.take(_ROWS)
            if batch is not None:
                return table_of(batch, self.schemas)
            if finished:
                raise StopIteration
            self._wait(before)

    def _wait(self, before: int) -> None:
        """Until something has come since there were `before` changes, or an input may have become idle."""
        with self._changed:
            self._changed.wait_for(lambda: self._changes != before, self._idle)

    # -- idle inputs --------------------------------------------------------------------------------------------

    def _pass_idle_inputs(self, seconds: float) -> None:
        """Lets inputs that are silent for too long promise what the others have reached."""
        late = self._clock() - seconds
        awake = [number for number, lane in enumerate(self._lanes) if not lane.closed and lane.heard > late]
        asleep = [number for number, lane in enumerate(self._lanes) if not lane.closed and lane.heard <= late]
        shown = [Mark(self._lanes[number].reached, number) for number in awake or asleep]
        if not asleep or not shown:
            return
        reached = min(shown) if awake else max(shown)
        for number in asleep:
            lane = self._lanes[number]
            ts = min(reached.ts + (number < reached.input), INT64_MAX)
            with lane.lock:
                if not lane.closed and lane.heard <= late and lane.reached < ts:
                    self._promise(lane, number, ts, skipped=True)


def _check(inputs: int, kind: str, idle: float | None) -> int:
    """The number of inputs."""
    count = _whole(inputs)
    if count is None or not 1 <= count <= INPUTS_MAX:
        raise InputError(f"inputs={inputs!r}: a gate has 1 to {INPUTS_MAX} inputs\n  give their number")
    if kind != "auto" and kind not in ORDERS:
        raise InputError(f"kind={kind!r}\n  use one of: auto, {', '.join(ORDERS)}")
    if idle is not None and (
        isinstance(idle, bool) or not isinstance(idle, Real) or not 0 < float(idle) <= threading.TIMEOUT_MAX
    ):
        raise InputError(f"idle={idle!r}: an input is silent for some time\n  give seconds above 0, or None to wait")
    return count


def _whole(value: Any) -> int | None:
    """The integer that it is, of whatever type; None if it is none."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def same_events(gate: Gate, schemas: Sequence[EventSchema]) -> bool:
    """Whether a gate brings the events of these types."""
    return [(s.name, s.fields) for s in gate.schemas] == [(s.name, s.fields) for s in schemas]
