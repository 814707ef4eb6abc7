"""`durability=` and `keep=` of `app.run`: the same results in every mode, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import programs
import pytest
from typer.testing import CliRunner

from mainstem.cli.commands import cli
from mainstem.errors import ProgramError, StoreError
from mainstem.query import open_db
from mainstem.store import DurableRun, Store

EVENTS = programs.events(500)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a power cut loses what was not synced; tests/store has those."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)


@pytest.mark.parametrize("durability", ["sync", "batch", "none"])
@pytest.mark.parametrize("batch", [1, 7, 500])
def test_every_mode_gives_the_same(durability: str, batch: int, tmp_path: Path) -> None:
    expected = programs.app.run(EVENTS, initial=programs.initial(), engine="oracle")
    folders = {"state": tmp_path / "state", "out": tmp_path / "out"}
    result = programs.app.run(EVENTS, initial=programs.initial(), batch=batch, durability=durability, **folders)
    assert result.digest == expected.digest
    assert result.outputs.to_pylist() == expected.outputs.to_pylist()
    assert not list((tmp_path / "out").glob(".*"))
    with open_db(tmp_path / "state") as db:
        assert db.table("Account") == programs.app.state["Account"].cast(db.table("Account").schema)
        assert db.epoch == 1 + -(-500 // batch)


def test_keep_reaches_the_store(tmp_path: Path) -> None:
    programs.app.run(EVENTS, initial=programs.initial(), state=tmp_path, keep=3)
    with DurableRun(programs.app.program, tmp_path, keep=3) as run:
        for seq in range(5):
            run.store.commit({}, {"seq": 500 + seq, "ts": 10**6})
            run.store.snapshot()
    assert len(list((tmp_path / "snapshots").glob("*.snap"))) == 3


def test_the_default_is_sync(tmp_path: Path) -> None:
    with DurableRun(programs.app.program, tmp_path) as run:
        assert run.store.durability == "sync"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"durability": "maybe"}, "unknown durability 'maybe'\n  use one of: sync, batch, none"),
        ({"keep": 0}, "keep=0 snapshots\n  keep at least one"),
    ],
)
def test_unknown_values_are_refused(options: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=message):
        programs.app.run(EVENTS, state=tmp_path / "s", **options)
    assert not (tmp_path / "s").exists()


def test_a_mode_needs_a_state() -> None:
    with pytest.raises(ProgramError, match=r"durability='batch' without a state\n  pass state=directory"):
        programs.app.run(EVENTS, durability="batch")


def test_the_command_line_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = Store.open.__func__  # type: ignore[attr-defined]

    def opened(cls: type[Store], *arguments: object, **options: str) -> Store:
        seen.append(options["durability"])
        return real(cls, *arguments, **options)

    monkeypatch.setattr(Store, "open", classmethod(opened))
    runner = CliRunner()
    made = runner.invoke(cli, ["generate", "bank", "--events", "1000", "--out", str(tmp_path / "log")])
    assert made.exit_code == 0, made.output
    command = ["run", "bank", str(tmp_path / "log"), "--state", str(tmp_path / "s"), "--durability", "batch"]
    done = runner.invoke(cli, command)
    assert done.exit_code == 0, done.output
    assert seen == ["batch"]
