"""What every test may use: one Spark session per run, and a clean place for generated code."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Generated programs take seconds to compile, so no deadline; a failure prints the blob that repeats it.
settings.register_profile(
    "mainstem", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("mainstem")
ROOT = Path(__file__).parent
# Compiling leaves millions of objects that stay; Python's collector would walk them again and again.
gc.set_threshold(100_000, 20, 20)
# Measuring strategies in the background takes the cores that tests run on.
os.environ.setdefault("MAINSTEM_CALIBRATE", "0")
# Sessions of tests live for a minute or two: optimising Spark's bytecode takes more time than it saves, on the cores
# that tests run on. Spark passes these on to the JVM of a driver.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


SLOW_FIRST = ("spark", "property", "replay", "bench", "store", "run", "test_docs.py", "test_cli.py")
"""Files of these folders take minutes with few tests: begun last, they would leave the other worker idle at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow folders first, and in them files that start processes of their own; else in the usual order."""

    def rank(item: pytest.Item) -> tuple[int, bool]:
        folder = item.path.relative_to(ROOT).parts[0]
        return SLOW_FIRST.index(folder) if folder in SLOW_FIRST else len(SLOW_FIRST), "crash" not in item.path.name

    items.sort(key=rank)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session on two cores, shared by all tests; tests must not stop it."""
    from mainstem.spark.session import local_session

    folder = tmp_path_factory.mktemp("spark")
    options = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "local")}
    session = local_session(2, options=options, name="mainstem tests")
    yield session
    session.stop()


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A machine on which neither JAVA_HOME nor PATH leads to a Java."""
    monkeypatch.setenv("JAVA_HOME", "")  # set first, so that it is put back even if the test's subject sets it
    monkeypatch.delenv("JAVA_HOME")
    tools = tmp_path_factory.mktemp("tools")
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in ("bash", "sh", "env"):
            if os.path.exists(os.path.join(folder, tool)) and not (tools / tool).exists():
                (tools / tool).symlink_to(os.path.join(folder, tool))
    monkeypatch.setenv("PATH", str(tools))
