"""Memory of batches. Touching new pages costs more than most kernels, so what can be used again is."""

from __future__ import annotations

from typing import Any

import numpy as np

_SPARE = 1.25  # batches of one size need a little more or less from one to the next


class Scratch:
    """Arrays by name that live from one batch to the next; their content does not."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        self._given: dict[str, np.ndarray] = {}  # the parts of them that were asked for last

    def array(self, name: str, count: int, dtype: Any) -> np.ndarray:
        """`count` values of undefined content, valid until this name is asked for again."""
        given = self._given.get(name)
        if given is not None and len(given) == count:
            return given
        known = self._arrays.get(name)
        if known is None or len(known) < count:
            size = count if known is None else int(count * _SPARE)
            known = self._arrays[name] = np.empty(size, dtype)
        given = self._given[name] = known[:count]
        return given
