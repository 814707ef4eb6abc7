"""Runs batches of one program on one state."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numba.core.errors import NumbaError

from mainstem.engine.changes import CHANGES_FIELD, Changes, with_changes
from mainstem.engine.load import compiling, load
from mainstem.engine.operations import Operations
from mainstem.engine.outputs import OutputBuilder, Verdicts
from mainstem.engine.pipeline import one_by_one
from mainstem.engine.result import BatchResult, BatchStats, Ran, RawResult
from mainstem.errors import MainstemError
from mainstem.gate import EventBatch
from mainstem.gate.batch import fresh
from mainstem.lang import Program
from mainstem.lang.serial import END, EVENTS, FIRST, TRANSACTION
from mainstem.state import State

_CODE = np.dtype(np.int16)


class Executor:
    """The compiled engine on one thread. `track` keeps note of changed rows, for `BatchResult.deltas`."""

    def __init__(self, program: Program, state: State, *, jit: bool = True, track: bool = False) -> None:
        self.program, self.state, self.jit, self.track = program, state, jit, track
        self.functions = load(program.source, jit)
        self.operations = Operations(program, state, self.functions)
        self.outputs = OutputBuilder(program, state)
        self._serial_kernel = self.functions["serial"]
        self._serial_arguments = itemgetter(*program.parameters)
        self._result_plans = [
            (f"O{n}", f"N{n}", type_.storage, name in program.nullable_outputs)
            for n, (name, type_) in enumerate(program.outputs)
        ]
        self._functions_of_kind = np.array([len(group) for group in program.per_kind], np.int64)
        self._one_each = bool(np.all(self._functions_of_kind == 1))  # events and transactions have the same numbers
        self._mark = 0
        count = len(program.tables)
        self._marks = [np.zeros(0, np.int64) for _ in range(count)]
        self._lists = [np.zeros(0, np.int64) for _ in range(count)]
        self._tracking_names = [(f"M{i}", f"L{i}") for i in range(count)]
        self.changes: Changes | None = None  # set to collect what each transaction changes
        if jit:
            self._compile()

    def _compile(self) -> None:
        """Compiles, or loads from disk, by running no event at all."""
        try:
            with compiling(self.program.source):
                self.run(_empty_batch(self.program), 0)
                self.operations.list_keys(self.operations.build(_empty_batch(self.program)))
        except NumbaError as error:
            raise MainstemError(
                f"the kernels of app {self.program.name} did not compile: this is a bug in Mainstem; "
                "run with jit=False meanwhile, and report the functions"
            ) from error

    @property
    def output_schema(self) -> pa.Schema:
        return self.outputs.schema if self.changes is None else with_changes(self.program)

    def run(self, batch: EventBatch, first_seq: int) -> BatchResult:
        """Execute one batch; its events are `first_seq`, `first_seq + 1`, … of the total order."""
        with self._quietly():
            return self._run(batch, first_seq)

    def run_all(self, batches: Iterable[EventBatch], first_seq: int = 0) -> Iterator[BatchResult]:
        """Execute batches one after the other. A result may come when transactions of the next batch are running
        already: what it says of changed rows, and the state itself, is to be read when no more results come, or from
        executors that `track`."""
        return one_by_one(self.run, batches, first_seq)

    def run_raw(self, batch: EventBatch) -> RawResult:
        """Execute one batch, and leave its results as they are: for those who do not want output rows."""
        with self._quietly():
            return self._run_raw(batch)

    def _quietly(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self.jit else _quiet()

    def _run_raw(self, batch: EventBatch) -> RawResult:
        arrays = self.operations.build(batch)
        count = self.outputs.transactions(batch)
        columns, nulls = self._result_arrays(count, arrays)
        self._execute(arrays, count)
        return RawResult(arrays["code"], arrays["ret"], columns, nulls, _judged(arrays["code"]).aborted)

    def _run(self, batch: EventBatch, first_seq: int) -> BatchResult:
        start = time.perf_counter()
        arrays = self.operations.build(batch)
        count = self.outputs.transactions(batch)
        columns, nulls = self._result_arrays(count, arrays)
        keyed = time.perf_counter()
        how = self._execute(arrays, count)
        listing = self.operations.listing
        seconds = (keyed - start + listing, time.perf_counter() - keyed - listing)
        return self._result(batch, first_seq, arrays, columns, nulls, how, seconds)

    def _result(
        self, batch: EventBatch, first_seq: int, arrays: dict[str, Any], columns: list[np.ndarray],
        nulls: list[np.ndarray | None], how: Ran, seconds: tuple[float, float],
    ) -> BatchResult:  # fmt: skip
        """Outputs and statistics of a batch that has run; `seconds` of keys and of running."""
        start = time.perf_counter()
        verdicts = _judged(arrays["code"])
        outputs = self.outputs.build(batch, first_seq, verdicts, arrays["ret"], columns, nulls)
        if self.changes is not None:
            outputs = outputs.append_column(CHANGES_FIELD, self.changes.take(arrays["code"] == 0))
        count, aborted = len(arrays["code"]), verdicts.aborted
        stats = BatchStats(
            len(batch), count, count - aborted, aborted, how.engine, *seconds, time.perf_counter() - start, how.why,
            how.threads, how.breakdown, how.retries,
        )  # fmt: skip
        return BatchResult(outputs, stats, self._deltas)

    def _execute(self, arrays: dict[str, Any], count: int) -> Ran:
        """Runs the transactions; `code`, `ret` and the output columns of `arrays` are filled, the tables changed."""
        self._run_serially(arrays, 0, len(arrays["kind"]))
        return Ran("serial")

    def _run_serially(self, arrays: dict[str, Any], first: int, end: int) -> None:
        """Runs some events of the batch, those before `first` having run."""
        self._serial_call(arrays, first, end)()
        if self._stopped_early(arrays):
            if not self.list_keys(arrays):
                raise _unresolved()
            self._go_on_serially(arrays)

    def _serial_call(self, arrays: dict[str, Any], first: int, end: int) -> Callable[[], None]:
        """A call of the serial kernel with the arrays as they are now."""
        begin = arrays["begin"] = np.zeros(EVENTS + len(self.program.events), np.int64)
        begin[END] = end
        if first > 0:
            begin[FIRST] = first
            begin[EVENTS:] = np.bincount(arrays["kind"][:first], minlength=len(self.program.events))
            begin[TRANSACTION] = begin[EVENTS:] @ self._functions_of_kind
        return partial(self._serial_kernel, *self._serial_arguments(arrays))

    @staticmethod
    def _stopped_early(arrays: dict[str, Any]) -> bool:
        """Whether the serial kernel met a new key, or more keys than ever before."""
        return bool(arrays["begin"][FIRST] < arrays["begin"][END])

    def _go_on_serially(self, arrays: dict[str, Any]) -> None:
        """From where it stopped, all keys being listed now."""
        self._serial_kernel(*self._serial_arguments(arrays))
        if self._stopped_early(arrays):
            raise _unresolved()

    def list_keys(self, arrays: dict[str, Any], before_new: Callable[[], None] = lambda: None) -> bool:
        """Has all rows that transactions of the batch may reach, and room to note them; False when it had before.

        `before_new` is called before tables and their indices change.
        """
        if not self.operations.list_keys(arrays, before_new):
            return False
        self._add_marks(arrays)
        return True

    def _result_arrays(self, count: int, arrays: dict[str, Any]) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
        arrays["code"] = fresh(count, _CODE)
        arrays["ret"] = self.operations.scratch.array("ret", count, self.outputs.return_dtype)
        columns: list[np.ndarray] = []
        nulls: list[np.ndarray | None] = []
        for name, null_name, storage, nullable in self._result_plans:
            arrays[name] = fresh(count, storage)
            arrays[null_name] = self.operations.scratch.array(null_name, count, np.uint8) if nullable else None
            columns.append(arrays[name])
            nulls.append(arrays[null_name])
        self._tracking_arrays(arrays)
        return columns, nulls

    def _tracking_arrays(self, arrays: dict[str, Any]) -> None:
        self._mark += 1
        arrays["mark"] = self._mark if self.track else 0
        arrays["changed"] = self._changed = np.zeros(max(1, len(self.program.tables)), np.int64)
        self._add_marks(arrays)

    def _add_marks(self, arrays: dict[str, Any]) -> None:
        for i, table in enumerate(self.operations.tables):
            if self.track and len(self._marks[i]) < len(table.rows):
                grown = np.zeros(len(table.rows), np.int64)
                grown[: len(self._marks[i])] = self._marks[i]
                listed = np.zeros(len(table.rows), np.int64)
                listed[: len(self._lists[i])] = self._lists[i]
                self._marks[i], self._lists[i] = grown, listed
            mark_name, list_name = self._tracking_names[i]
            arrays[mark_name], arrays[list_name] = self._marks[i], self._lists[i]

    def _deltas(self) -> dict[str, pa.Table]:
        if not self.track:
            raise MainstemError("this executor does not keep note of changed rows; make it with track=True")
        found = {}
        for i, table in enumerate(self.operations.tables):
            rows = self._lists[i][: self._changed[i]]
            if len(rows):
                found[table.schema.name] = table.delta(rows)
        return found


def _judged(code: np.ndarray) -> Verdicts:
    verdicts = Verdicts(code)
    if verdicts.broken:
        raise _unresolved()
    return verdicts


def _unresolved() -> MainstemError:
    return MainstemError(
        "a transaction reached a row that was not resolved before: this is a bug in Mainstem; "
        "run with engine='oracle' and report the function"
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Compiled code neither warns nor raises about float overflow; NumPy's scalars would."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _empty_batch(program: Program) -> EventBatch:
    return EventBatch(np.zeros(0, np.uint8), np.zeros(0, np.int64), [None] * len(program.events), ())
