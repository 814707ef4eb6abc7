"""`mainstem doctor`: what this machine has, what it lacks, and what to do about it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mainstem import __version__
from mainstem.errors import SparkError
from mainstem.jit import cache_folder
from mainstem.spark.java import ensure_java, find_java

DISK_FREE_MIN_GB = 2.0  # the demo's logs, Spark's shuffle files and a first state folder fit
PYSPARK_MIN, PANDAS_MAX = (4, 1), (3,)


@dataclass(frozen=True)
class Check:
    """One line of the report; `remedy` is empty when all is well."""

    name: str
    found: str
    remedy: str = ""

    @property
    def ok(self) -> bool:
        return not self.remedy


def examine() -> Iterator[Check]:
    """All checks, one by one, so that a slow one is seen to be running."""
    for check in CHECKS:
        yield check()


def python() -> Check:
    found = f"{platform.python_implementation()} {platform.python_version()}"
    return Check("Python", found, "" if sys.version_info >= (3, 11) else "install Python 3.11 or newer")


def packages() -> Check:
    versions = {name: _version(name) for name in ("pyarrow", "numpy", "numba", "duckdb")}
    missing = [name for name, version in versions.items() if version is None]
    found = ", ".join(
        f"{name} {version or 'missing'}" for name, version in {"mainstem": __version__, **versions}.items()
    )
    return Check("packages", found, f"pip install {' '.join(missing)}" if missing else "")


def compiled_code() -> Check:
    try:
        folder = cache_folder()
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Check("compiled code", str(error), "set MAINSTEM_CACHE to a folder you can write to")
    return Check("compiled code", f"kept in {folder}")


def pyspark() -> Check:
    version = _version("pyspark")
    if version is None:
        return Check("pyspark", "missing (needed for replay and stream only)", "pip install 'mainstem[spark]'")
    return Check("pyspark", version, "" if _number(version) >= PYSPARK_MIN else "pip install 'pyspark>=4.1,<5'")


def pandas() -> Check:
    version = _version("pandas")
    if version is None:
        return Check("pandas", "missing (Spark needs it)", "pip install 'mainstem[spark]'")
    return Check("pandas", version, "" if _number(version) < PANDAS_MAX else "pip install 'pandas>=2.2,<3'")


def java() -> Check:
    found = find_java()
    try:
        usable = ensure_java()
    except SparkError as error:
        return Check("Java", "none of version 17 or newer", str(error).rpartition(": ")[2])
    how = "" if found else " (from the jdk extra)"
    return Check("Java", f"{usable.version} at {usable.home}{how}")


def cores() -> Check:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Check("cores", str(usable))


def disk() -> Check:
    places = {Path(tempfile.gettempdir()).resolve(), Path.cwd()}
    free = {place: shutil.disk_usage(place).free / 1e9 for place in places}
    found = ", ".join(f"{gb:.0f} GB free in {place}" for place, gb in sorted(free.items()))
    tight = [str(place) for place, gb in free.items() if gb < DISK_FREE_MIN_GB]
    return Check("disk", found, f"free some space in {' and '.join(tight)}, or set TMPDIR" if tight else "")


CHECKS: tuple[Callable[[], Check], ...] = (python, packages, compiled_code, pyspark, pandas, java, cores, disk)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _number(version: str) -> tuple[int, ...]:
    """(4, 1) of "4.1.0.dev3": enough to compare releases."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
