"""Is a directory sound? Every byte is read, and every way to the last state is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mainstem.errors import CorruptError, StoreError
from mainstem.query.asof import oldest_epoch
from mainstem.store.disk import store_error
from mainstem.store.format import Format, read_format
from mainstem.store.frame import REMEDY
from mainstem.store.layout import Layout
from mainstem.store.lock import holder
from mainstem.store.recovery import Told, recover
from mainstem.tools.files import Damage, Files, Meter, size_of
from mainstem.tools.pinned import pinned
from mainstem.tools.ways import Way, bases, walk

ATTEMPTS_MAX = 5

SPARE_REMEDY = "the next snapshot of a run makes up for it; until then the next damage may cost something"


@dataclass(frozen=True)
class Report:
    """What `verify` has found. `ok`: nothing is damaged, and all ways give the same state."""

    path: Path
    format: int
    oldest: int  # epochs whose state can be read
    epoch: int
    commits: int  # in the log
    events: int
    files: int
    bytes: int
    seconds: float
    digest: str  # of the last state; empty when no way leads to it
    ways: tuple[Way, ...]
    damages: tuple[Damage, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.damages

    def __str__(self) -> str:
        """What was read, then each way, each note and each damage."""
        lines = [
            f"{self.path}: format {self.format}, epochs {self.oldest} to {self.epoch}, {self.events:,} events; read "
            f"{self.files:,} files, {self.bytes:,} bytes, {self.commits:,} commits in {self.seconds:.2f} s"
        ]
        for way in self.ways:
            found = f"fails: {way.error}" if way.error else f"{way.rows:,} rows, state digest {way.digest}"
            lines.append(f"  from {way.start} to epoch {way.epoch}: {found} ({way.seconds:.2f} s)")
        lines += [f"  note: {note}" for note in self.notes]
        lines += [f"damage: {damage}" for damage in self.damages]
        return "\n".join(lines)


def verify(path: str | Path, *, progress: Told | None = None) -> Report:
    """Read all of a directory, beside its writer if there is one, and report whether it is sound.

    `progress` is called with the bytes read so far, and about how many there are to read.
    """
    layout = Layout(Path(path))
    with pinned(layout) as held:
        if held != layout:
            return _renamed(_verify(held, progress), held.path, layout.path)
        return _twice(layout, progress)


def _twice(layout: Layout, progress: Told | None) -> Report:
    """The files as they are. What a writer drops meanwhile looks like damage; damage is found a second time, too."""
    seen: set[str] = set()
    for _ in range(ATTEMPTS_MAX):
        alone = holder(layout.lock) is None
        try:
            report = _verify(layout, progress)
        except FileNotFoundError as error:
            if alone:
                raise store_error("read", layout.path, error) from error
            continue
        again = tuple(damage for damage in report.damages if damage.what in seen)
        if report.ok or (alone and holder(layout.lock) is None):
            return report
        if again:
            return replace(report, damages=again)
        seen |= {damage.what for damage in report.damages}
    raise StoreError(f"{layout.path} changes faster than it can be read\n  try again when less is written to it")


def _renamed(report: Report, held: Path, real: Path) -> Report:
    """With the directory's own name. What is unfinished at the end of its log is just being written."""

    def text(value: str) -> str:
        return value.replace(str(held), str(real))

    damages = tuple(
        replace(d, file=Path(text(str(d.file))), what=text(d.what), lost=text(d.lost), remedy=text(d.remedy))
        for d in report.damages
    )
    ways = tuple(replace(way, error=text(way.error)) for way in report.ways)
    return replace(report, path=real, damages=damages, ways=ways, notes=())


def _verify(layout: Layout, progress: Told | None) -> Report:
    begun = time.perf_counter()
    try:
        stored = read_format(layout)
    except CorruptError as error:
        return _without_format(layout, error)
    meter = Meter(progress, 3 * size_of(layout))  # read once as files, and about twice on the ways
    files = Files.read(layout, stored, meter)
    ways = tuple(walk(layout, stored, base, files.epoch, meter) for base in bases(files))
    whole = [way for way in ways if not way.error]
    refusal = _refusal(layout, stored)
    damages = [*_costs(files, ways, whole if refusal is None else []), *_disagreements(layout, whole)]
    if not damages:
        damages += [refusal] if refusal is not None else _dead_ends(layout, ways)
    return Report(
        layout.path, stored.version, oldest_epoch(layout), files.epoch, files.commits, int(files.meta.get("seq", 0)),
        files.count, files.bytes, time.perf_counter() - begun, whole[-1].digest if whole else "", ways, tuple(damages),
        tuple(files.notes),
    )  # fmt: skip


def _without_format(layout: Layout, error: CorruptError) -> Report:
    first = str(error).splitlines()[0]
    damage = Damage(layout.format, first, "what the tables are; their rows may be whole", REMEDY)
    return Report(layout.path, 0, 0, 0, 0, 0, 1, 0, 0.0, "", (), (damage,), ())


def _costs(files: Files, ways: tuple[Way, ...], whole: list[Way]) -> Iterator[Damage]:
    """Damages of files with what they cost: no state, as long as one way is `whole`."""
    saved = max((way.epoch for way in ways if way.digest), default=0)
    for damage in files.damages:
        if not damage.costs_state:
            yield damage
        elif whole:
            yield replace(damage, lost=f"nothing: the state is whole from {whole[-1].start}", remedy=SPARE_REMEDY)
        elif saved:
            rescue = f"`mainstem restore {files.layout.path} NEW_DIR --as-of-batch {saved}` saves what came before"
            yield replace(damage, remedy=f"{REMEDY}; {rescue}")
        else:
            yield damage


def _disagreements(layout: Layout, ways: list[Way]) -> Iterator[Damage]:
    for way in ways[:-1]:
        if way.digest != ways[-1].digest:
            what = (
                f"{layout.path}: two ways to the state after epoch {way.epoch} disagree: "
                f"from {way.start} its digest is {way.digest}, from {ways[-1].start} it is {ways[-1].digest}"
            )
            lost = "nobody can tell which of them is right"
            yield Damage(layout.path, what, lost, "replay the input into a new directory and compare")


def _dead_ends(layout: Layout, ways: tuple[Way, ...]) -> list[Damage]:
    """Ways that end too early although no file by itself is damaged."""
    remedy = "copy the directory, and let the next snapshot of a run make up for it"
    return [
        Damage(layout.path, f"from {way.start}: {way.error}", "a second copy, no state", remedy)
        for way in ways
        if way.error
    ]


def _refusal(layout: Layout, stored: Format) -> Damage | None:
    """Why a program could not open the directory."""
    try:
        recover(layout, stored.store, spares=False).cursor.close()
    except CorruptError as error:
        return Damage.of(layout.path, error)
    return None
