"""Numbers that all kernels share: slots of the control array, clocks, ways to use a row, states of a vertex.

The threads of one strategy run share one int64 array `control` of `CONTROL_WORDS` words. Slot s is word `s * LINE`, so
that every slot has a cache line of its own: `atomic_add(control, NEXT * LINE, 1)`. Compiled kernels hold these numbers
as constants (numba freezes globals).
"""

from __future__ import annotations

LINE = 8  # words of 8 bytes in a cache line

# Slots of `control`; a run starts with all of them 0.
NEXT = 0  # the next piece of work that nobody has taken
DONE = 1  # pieces of work that are finished
STOP = 2  # not 0: a thread has failed, all others return (`STOP_WORD` of mainstem/team.py)
PAUSE = 3  # not 0: threads stand still at the next boundary, for a coordinator
PARKED = 4  # threads that stand still
EPOCH = 5  # rounds that are over: barriers wait for the next one
COUNTER = 6  # the turn of lockAhead: transactions that have asked for their locks
FAILED = 7  # failures that nobody has settled yet
STAMP = 8  # the last execution timestamp that was given out
SLOTS = 16
CONTROL_WORDS = SLOTS * LINE

# Columns of `clock[worker, …]`: ticks by what they were spent on.
USEFUL = 0  # inside the functions of the user
SYNC = 1  # waiting for the turn to ask for locks, for a version, or at a barrier
LOCK = 2  # asking for locks, waiting until they are granted, giving them back
EXPLORE = 3  # looking for work that can run
ABORT = 4  # undoing and repeating
CLOCKS = 5

# How a vertex uses the row of a ref.
READ = 0  # reads the version before its transaction
OWN = 1  # makes the new version
PRIVATE = 2  # works on a copy that nobody else sees
SAME = 3  # an earlier ref of the vertex is the same row

# States of a vertex.
BLK = 0  # a dependency is not done
RDY = 1  # may run
EXE = 2  # done, offers its version
ABT = 3  # done, failed or of an aborted transaction: offers its source
