"""Output files: hidden, committed, published; finished after a crash; done twice without harm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from store_driver import SCHEMAS

from mainstem.errors import StoreError
from mainstem.store import Store, discard_staged, pending, publish, publish_pending, stage


def text(content: str) -> Callable[[Path], None]:
    """A function that writes this content."""
    return lambda target: target.write_text(content) and None


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_staged_files_are_hidden_until_published(tmp_path: Path) -> None:
    staged = stage(tmp_path / "out", "part-1.json", text("one"))
    assert names(tmp_path / "out") == [staged]
    assert staged.startswith(".part-1.json.")
    assert publish(tmp_path / "out", staged) == tmp_path / "out" / "part-1.json"
    assert names(tmp_path / "out") == ["part-1.json"]
    assert (tmp_path / "out" / "part-1.json").read_text() == "one"


def test_publishing_twice_does_nothing(tmp_path: Path) -> None:
    staged = stage(tmp_path, "part", text("one"))
    publish(tmp_path, staged)
    publish(tmp_path, staged)
    assert names(tmp_path) == ["part"]
    (tmp_path / "part").unlink()  # taken away by whoever consumes outputs
    publish(tmp_path, staged)
    assert names(tmp_path) == []


def test_recovery_publishes_what_the_last_commit_names_and_drops_the_rest(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Store.open(tmp_path / "s", SCHEMAS) as store:
        staged = [stage(out, f"part-{n}", text(str(n))) for n in (1, 2)]
        store.commit({}, {"batch": 1, **pending(out, staged)})
        stage(out, "part-3", text("never committed"))
    with Store.open(tmp_path / "s", SCHEMAS) as store:
        assert publish_pending(store.meta) == [out / "part-1", out / "part-2"]
        discard_staged(out)
        assert publish_pending(store.meta) == [out / "part-1", out / "part-2"]
    assert {name: (out / name).read_text() for name in names(out)} == {"part-1": "1", "part-2": "2"}


def test_a_commit_without_outputs_has_nothing_pending() -> None:
    assert publish_pending({"batch": 1}) == []


def test_foreign_hidden_files_are_left_alone(tmp_path: Path) -> None:
    for name in (".gitignore", ".notes.staged", ".a.0123.staged"):
        (tmp_path / name).touch()
    stage(tmp_path, "part", text(""))
    discard_staged(tmp_path)
    assert names(tmp_path) == [".a.0123.staged", ".gitignore", ".notes.staged"]


@pytest.mark.parametrize("name", ["", "a/b", "..", "/etc/x"])
def test_names_are_plain(name: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="can't be the name of an output file\n  use a plain file name"):
        stage(tmp_path, name, text(""))


def test_only_staged_names_can_be_published(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="'part' is not the name of a staged file\n  give what `stage` returned"):
        publish(tmp_path, "part")
