"""The serial run that a history is equivalent to: the oracle runs the transactions in the order that it implies."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.engine import Interpreter, outputs_to_arrow, rows_of_arrow
from mainstem.engine.history import History
from mainstem.engine.interpret import events_seen
from mainstem.testing.compare import Outcome
from mainstem.testing.histories.graph import serialization_graph
from mainstem.testing.histories.versions import order_versions
from mainstem.windows import PlainOperators, open_windowed


def serial_order(history: History) -> list[int]:
    """Transactions in an order that their reads and writes permit, of several the one closest to event order.

    Aborted transactions stand where their reads put them. Raises ValueError when there is no such order.
    """
    everybody = np.ones(history.transactions, np.bool_)
    graph = serialization_graph(history, order_versions(history), everybody)
    waiting = np.bincount(graph.target, minlength=graph.nodes)
    by_source = np.argsort(graph.source, kind="stable")
    starts = np.searchsorted(graph.source[by_source], np.arange(graph.nodes + 1))
    ready = np.flatnonzero(waiting == 0).tolist()
    order: list[int] = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for target in graph.target[by_source[starts[node] : starts[node + 1]]].tolist():
            waiting[target] -= 1
            if waiting[target] == 0:
                heapq.heappush(ready, target)
    if len(order) < graph.nodes:
        raise ValueError("no serial order: transactions depend on each other in a cycle; see check_history")
    return order


def run_in_order(app: Any, events: Any, order: Sequence[int], initial: Mapping[str, pa.Table] | None = None) -> Outcome:
    """What the oracle makes of an app's transactions, one by one in this order. Outputs are in event order."""
    program = app.program
    stream, _ = open_windowed(
        events, program.inputs, PlainOperators(program.windows), batch_size=max(1, len(order)),
        derives=program.derives, columns=program.used_columns,
    )  # fmt: skip
    oracle = Interpreter(app.spec, dict(program.outputs) or None)
    for table in program.tables:
        if initial and table.name in initial:
            oracle.rows[table.name].update(rows_of_arrow(table, initial[table.name]))
    waiting: list[tuple[dict[str, Any], str, Any, Any]] = []
    seq = 0
    for batch in stream:
        readers = [iter(events_seen(batch, kind, schema)) for kind, schema in enumerate(app.spec.events)]
        for ts, kind in zip(batch.ts.tolist(), batch.kind.tolist(), strict=True):
            event, name = next(readers[kind]), app.spec.events[kind].name
            for bound, function_name, function in oracle.functions:
                if bound == name:
                    row = {"ts": ts, "seq": seq, "event": name, "function": function_name}
                    waiting.append((row, function_name, function, event))
            seq += 1
    done = {t: waiting[t][0] | oracle.transaction(*waiting[t][1:]) for t in order}
    schema = program.output_schema
    outputs = outputs_to_arrow([done[t] for t in range(len(waiting))], schema)
    return Outcome(pa.Table.from_batches([outputs], schema), oracle.export())
