"""One store and one server for all tests that only ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from serve_support import TOKEN, Client, make_store

from mainstem.serve import Limits, Running, serving


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("serve") / "store")


@pytest.fixture(scope="package")
def running(folder: Path) -> Iterator[Running]:
    limits = Limits(rows=15, body_bytes=10_000, query_seconds=10.0, versions=2)
    with serving(folder, token=TOKEN, limits=limits) as started:
        yield started


@pytest.fixture
def client(running: Running) -> Iterator[Client]:
    opened = Client(running.url)
    yield opened
    opened.close()
