"""What all structures of this folder have in common."""

from __future__ import annotations

import numpy as np

from .base import kernel

# How far all inputs are, beside the place itself: some input has not shown anything, or all are closed.
SILENT, MOVING, FINISHED = 0, 1, 2


@kernel
def places_of(inputs: np.ndarray, starts: np.ndarray, order: np.ndarray) -> None:
    """Where each row stands when the rows of each input lie together, those of input i from `starts[i]` on."""
    for at in range(len(inputs)):
        order[at] = starts[inputs[at]]
        starts[inputs[at]] += 1
