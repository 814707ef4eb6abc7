"""Generated entry points, ready to be called by strategies: a function, and a context of the batch's arrays."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mainstem.engine.load import compiling, load
from mainstem.lang.program import Entry


@dataclass(frozen=True)
class Bound:
    """An entry point with its arrays. `function` and `context` are what kernels pass to `invoke`."""

    function: Any
    context: Any
    kept: tuple[Any, ...]  # addresses in the context are good only as long as these arrays live


class EntryPoint:
    """`asks`, `direct` or `versioned` of one program, compiled or plain."""

    def __init__(self, name: str, entry: Entry, jit: bool) -> None:
        self.name, self.entry, self.jit = name, entry, jit
        # Arrays with a row per worker count the length of a row.
        self._own = [name[0] in "UV" and name[1:].isdigit() for name in entry.names]
        self._function: Any = None

    @property
    def function(self) -> Any:
        """Compiled on first use: most runs do not need all of them, many none."""
        if self._function is None:
            if self.jit:
                with compiling(self.entry.source):
                    self._function = load(self.entry.source, True)[self.name].address
            else:
                self._function = load(self.entry.source, False)[self.name]
        return self._function

    def bind(self, arrays: dict[str, Any]) -> Bound:
        wanted = tuple(arrays[name] for name in self.entry.names)
        if not self.jit:
            return Bound(self.function, wanted, wanted)
        words: list[int] = []
        for own, values in zip(self._own, wanted, strict=True):
            # Arrow asks the buffer itself where it is, which takes a tenth of the time of NumPy's own ways.
            words += (pa.py_buffer(values).address, values.shape[1 if own else 0])
        context = array("q", words)
        return Bound(self.function, context.buffer_info()[0], (context, *wanted))
