"""Which jobs of a staged replay may run: a grid of epochs and steps.

    step 0              ranges: needs nothing but room among the epochs in flight
    steps 1 … waves     needs the step before it in its epoch, and the same step of the epoch before
    step waves + 1      home: needs the last wave, and the number of events in all epochs before

A step that has what it needs may run beside any other.
"""

from __future__ import annotations

from dataclasses import dataclass

RANGES = 0


@dataclass(frozen=True)
class Cell:
    """One Spark job."""

    epoch: int
    step: int


class Schedule:
    """Epochs before `first` are committed already; at most `ahead` epochs are under way at once."""

    def __init__(self, epochs: int, waves: int, *, first: int = 0, ahead: int = 3) -> None:
        self.epochs, self.home, self.committed, self.ahead = epochs, waves + 1, first, ahead
        self._started: set[Cell] = set()
        self._done: set[Cell] = set()

    @property
    def finished(self) -> bool:
        return self.committed == self.epochs

    def start_ready(self) -> list[Cell]:
        """Cells that may run now and did not yet, older epochs first; they count as started."""
        end = min(self.epochs, self.committed + self.ahead)
        cells = [Cell(epoch, step) for epoch in range(self.committed, end) for step in range(self.home + 1)]
        ready = [cell for cell in cells if cell not in self._started and self._may_run(cell)]
        self._started.update(ready)
        return ready

    def done(self, cell: Cell) -> list[int]:
        """Note the end of a job; the epochs that can be committed now, in order."""
        self._done.add(cell)
        complete = []
        while not self.finished and Cell(self.committed, self.home) in self._done:
            complete.append(self.committed)
            self.committed += 1
        return complete

    def _may_run(self, cell: Cell) -> bool:
        if cell.step == RANGES:
            return True
        if not self._is_done(cell.epoch, cell.step - 1):
            return False
        if cell.step < self.home:
            return self._is_done(cell.epoch - 1, cell.step)
        return all(self._is_done(epoch, RANGES) for epoch in range(self.committed, cell.epoch))

    def _is_done(self, epoch: int, step: int) -> bool:
        return epoch < self.committed or Cell(epoch, step) in self._done
