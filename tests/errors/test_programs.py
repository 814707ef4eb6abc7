"""Every program in `programs/` is refused with a message that names the place, the thing and the remedy.

A file says what it expects in its head: `# expect: …` lines are fragments of the message, `# line: N` is the place.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mainstem.errors import ProgramError
from mainstem.testing import load_program

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))


def refusal(source: str, name: str) -> ProgramError:
    """The error of a program that is loaded and then planned; either step may be the one that refuses it."""
    with pytest.raises(ProgramError) as caught:
        load_program(source, name).app.explain()
    return caught.value


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_message_names_place_thing_and_remedy(path: Path) -> None:
    source = path.read_text()
    fragments = re.findall(r"^# expect: (.*)$", source, re.MULTILINE)
    (line,) = re.findall(r"^# line: (\d+)$", source, re.MULTILINE)
    assert fragments, f"{path.name} says nothing about its message"
    error = refusal(source, path.stem)
    message = str(error)
    assert message.startswith(f"<{path.stem}>:{line}: "), message
    assert not [f for f in fragments if f not in message], message
    assert error.remedy, f"no remedy: {message}"


def test_there_are_enough_bad_programs() -> None:
    assert len(PROGRAMS) >= 15
