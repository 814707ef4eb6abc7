"""The commands that look after a folder of state."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools_support import EPOCHS
from typer.testing import CliRunner, Result

import mainstem as ms
from mainstem import tools
from mainstem.cli.commands import cli


def mainstem(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], env={"COLUMNS": "160"})


def succeed(*words: object) -> str:
    done = mainstem(*words)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_verify_tells_the_ways_and_ends_with_0_or_1(directory: Path) -> None:
    shown = succeed("verify", directory)
    assert "from snapshot 12, 1 increments up to 21 to epoch 23" in shown
    assert f"sound, state digest {tools.verify(directory).digest}" in shown
    file = max((directory / "log").iterdir())
    file.write_bytes(file.read_bytes()[:-20] + b"x" * 20)
    done = mainstem("verify", directory)
    assert done.exit_code == 1
    for text in (f"damage: {file}, byte ", "lost: epoch 23", "mainstem restore", "damaged: 1 found"):
        assert text in done.stdout


def test_inspect_for_people_and_for_programs(directory: Path) -> None:
    shown = succeed("inspect", directory)
    for text in ("epochs 9 to 23 can be asked for", "in 2 shards", "balance: int, owner: str", "writer     none"):
        assert text in shown
    assert json.loads(succeed("inspect", directory, "--json"))["epoch"] == EPOCHS
    shown = succeed("inspect", directory, "--epoch", 20)
    assert "commit 20" in shown
    assert '"seq": 200' in shown
    assert json.loads(succeed("inspect", directory, "--epoch", 20, "--json"))["changed"] == {"Account": 2, "Visit": 2}


def test_out_and_back(directory: Path, tmp_path: Path) -> None:
    shown = succeed("export", directory, tmp_path / "out", "--as-of-batch", 20)
    assert "epoch 20, 200 events, ts 120" in shown
    shown = succeed("restore", tmp_path / "out", tmp_path / "again")
    assert "of epoch 20" in shown
    assert succeed("verify", tmp_path / "again").count("sound") == 1
    shown = succeed("export", directory, tmp_path / "csv", "--table", "Visit", "--as-of-ts", 121, "--format", "csv")
    assert "Visit.csv" in shown
    succeed("restore", directory, tmp_path / "third", "--as-of-batch", 20)
    with ms.open(tmp_path / "third") as one, ms.open(tmp_path / "again") as other:
        assert one.table("Account").equals(other.table("Account"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["verify", "nowhere"], ["nowhere is not a Mainstem directory"]),
        (["inspect", "nowhere"], ["nowhere is not a Mainstem directory"]),
        (["inspect", "state", "--epoch", "99"], ["no commit 99", "10 to 23"]),
        (["export", "state", "state"], ["state exists and is not empty"]),
        (["export", "state", "new", "--as-of-batch", "2"], ["keeps the versions after epoch 9 to 23, not 2"]),
        (["export", "state", "new", "--table", "Nothing"], ["unknown table Nothing", "Account, Visit"]),
        (["restore", "state", "state"], ["state exists and is not empty"]),
        (["restore", "nowhere", "new"], ["nowhere is not a Mainstem directory"]),
    ],
)
def test_errors_are_messages(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], told: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    done = mainstem(*words)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    for text in told:
        assert text in done.stderr
    assert not (tmp_path / "new").exists()
