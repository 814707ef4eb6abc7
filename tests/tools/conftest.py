"""Directories of durable state with every kind of file in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tools_support import make_directory


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two snapshots, an increment, log segments, shard files; see `make_directory`."""
    return make_directory(tmp_path / "state")
