"""Named steps at which a test can kill the process, to prove that recovery works from each of them.

`MAINSTEM_CRASH=log.append.half:3` kills the process with SIGKILL the third time it reaches that step. Without the
variable a step costs one comparison.
"""

from __future__ import annotations

import os
import signal

from mainstem.errors import StoreError

VARIABLE = "MAINSTEM_CRASH"

STEPS: tuple[str, ...] = (
    "create.layout",  # folders and the first log segment exist, the format file does not
    "create.format",  # the format file is complete under its temporary name
    "create.renamed",  # it has its name; the directory is not synced
    "evolve.format",  # a format file with more tables or fields is complete under its temporary name
    "evolve.renamed",  # it has replaced the one before; nothing was written with it yet
    "commit.start",
    "output.stage.start",
    "output.stage.written",  # the hidden file is written, not synced
    "output.stage.synced",
    "commit.staged",  # all outputs of the commit, or of its group, are on disk under hidden names
    "log.append.start",
    "log.append.header",  # only the header of the record is written
    "log.append.half",  # half of the payload is written
    "log.append.written",  # all bytes are written, not yet synced
    "commit.appended",  # so is this commit; more of its group may follow
    "log.append.synced",  # the commits are durable, the caller does not know it
    "commit.logged",  # durable; outputs still have their hidden names, replaced shard files are still there
    "output.publish.start",
    "output.publish.renamed",  # one file has its final name; the directory is not synced
    "commit.published",
    "log.rotate.start",
    "log.rotate.created",  # the next segment exists, the current one is not sealed
    "log.rotate.sealing",  # half of the seal is written
    "log.rotate.sealed",
    "snapshot.rotated",  # the log has a new segment, nothing is folded yet
    "snapshot.start",
    "snapshot.half",  # half of the temporary file is written
    "snapshot.synced",  # complete under its temporary name
    "snapshot.renamed",  # the snapshot counts; the log still reaches back before it
    "increment.start",
    "increment.half",
    "increment.synced",
    "increment.renamed",  # it counts; increments that it covers are still there
    "trim.increment",  # an increment that another file covers was just removed
    "trim.snapshot",  # an old snapshot was just removed
    "trim.segment",  # a log segment was just removed
    "shard.start",
    "shard.half",  # half of a shard file is written
    "shard.synced",  # complete, not named by any commit
    "shard.dropping",  # a replaced shard file was just removed
    "recover.found",  # the state is known; nothing was changed
    "recover.cut",  # an unfinished record was cut off, not yet synced
    "recover.synced",  # all that recovery builds on is on disk
    "recover.sealed",  # an interrupted rotation is finished
    "recover.cleaned",  # leftovers are removed
    "recover.published",  # the outputs of one recovered commit have their final names
)


def _armed() -> tuple[str, int] | None:
    """The step and the count that the environment asks for."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    step, _, count = text.partition(":")
    if step not in STEPS or not (count or "1").isdecimal():
        raise StoreError(f"{VARIABLE}={text} names no step; use <step>:<count> with one of: {', '.join(STEPS)}")
    return step, int(count or "1")


_target = _armed()
_reached = 0


def reach(step: str) -> None:
    """Mark a step; the process ends here when the environment asks for it."""
    global _reached
    if _target is None or _target[0] != step:
        return
    _reached += 1
    if _reached == _target[1]:
        os.kill(os.getpid(), signal.SIGKILL)
