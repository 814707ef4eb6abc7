"""Every snippet of the README and the docs runs, and prints what the page says it prints.

In one page all ```python blocks share a namespace and a folder, as a reader who follows along would have it. A ```text
block right after one is its exact output. In ```console blocks, lines with `$ mainstem` are run; the lines below
are among its output (`…` stands for anything).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from mainstem.cli.commands import cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND_TIMEOUT_S = 300
OWN_PROCESS = ("replay",)  # commands that start Spark, and stop it


@dataclass(frozen=True)
class Block:
    language: str
    line: int  # of its first line of content, from 1
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    language, first, content = None, 0, []
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        fence = re.match(r"```(\w*)", line)
        if language is None and fence:
            language, first, content = fence.group(1), number + 1, []
        elif language is not None and fence:
            yield Block(language, first, "\n".join(content))
            language = None
        elif language is not None:
            content.append(line)


def as_script(page: Path, python: list[Block]) -> str:
    """The page with everything but its Python blanked out: line numbers are those of the page."""
    lines = [""] * len(page.read_text().splitlines())
    for block in python:
        content = block.text.split("\n")
        lines[block.line - 1 : block.line - 1 + len(content)] = content
    return "\n".join(lines) + "\n"


def run_python(block: Block, script: Path, namespace: dict[str, object]) -> str:
    """What the block prints. It is compiled as a part of `script`, so that functions find their source there."""
    printed = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, str(script), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def run_console(page: Path, block: Block) -> None:
    """Runs the `$ mainstem` lines and looks for the lines below each in its output."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, *expected = part.splitlines()
        words = shlex.split(command, comments=True)
        if words[0] != "mainstem":
            continue
        exit_code, output, errors = run_process(words) if words[1] in OWN_PROCESS else run_here(words)
        assert exit_code == 0, f"{page.name}:{block.line}: {command}\n{output}{errors}"
        printed = [line.rstrip() for line in output.splitlines()]
        for line in filter(str.strip, expected):
            pattern = ".*".join(re.escape(piece) for piece in line.rstrip().split("…"))
            assert any(re.fullmatch(pattern, p) for p in printed), f"{page.name}: {line!r} is not in\n{output}"


def run_process(words: list[str]) -> tuple[int, str, str]:
    environment = {**os.environ, "COLUMNS": "120", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, env=environment, timeout=COMMAND_TIMEOUT_S
    )
    return done.returncode, done.stdout, done.stderr


def run_here(words: list[str]) -> tuple[int, str, str]:
    """A process of its own would take most of its time to start."""
    done = CliRunner().invoke(cli, words[1:], env={"COLUMNS": "120"})
    return done.exit_code, done.stdout, done.stderr


def move_session(spark: SparkSession, folder: Path) -> None:
    """Lets Spark resolve relative paths in `folder`; the page's own getOrCreate() returns this session."""
    hadoop = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    hadoop.FileSystem.get(spark._jsc.hadoopConfiguration()).setWorkingDirectory(hadoop.Path(str(folder)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    found = list(blocks(page))
    python = [block for block in found if block.language == "python"]
    monkeypatch.chdir(tmp_path)
    if any("pyspark" in block.text for block in python):
        move_session(request.getfixturevalue("spark"), tmp_path)
    script = tmp_path / f"{page.stem.replace('-', '_')}_page.py"
    script.write_text(as_script(page, python))
    namespace: dict[str, object] = {"__name__": script.stem, "__file__": str(script)}
    printed = ""
    for before, block in zip([None, *found], found, strict=False):
        if block.language == "python":
            printed = run_python(block, script, namespace)
        elif block.language == "console":
            run_console(page, block)
        elif block.language == "text" and before is not None and before.language == "python":
            assert printed.rstrip() == block.text.rstrip(), f"{page.name}:{block.line} says something else"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in set(anchors(file)), f"{page.name} links to {target}: no such heading"


def test_the_architecture_names_files_that_exist() -> None:
    named = set(re.findall(r"`((?:mainstem/|tests/)?\w+/\w+\.py)", (ROOT / "ARCHITECTURE.md").read_text()))
    assert len(named) > 20
    assert {name for name in named if not any((ROOT / base / name).exists() for base in (".", "mainstem"))} == set()


def anchors(page: Path) -> Iterator[str]:
    """The anchors that a page's headings get."""
    for heading in re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def test_examples_run(tmp_path: Path) -> None:
    """All at once: most of their time Spark starts."""
    examples = sorted((ROOT / "examples").glob("*.py"))
    assert examples
    running = [
        subprocess.Popen(
            [sys.executable, str(example)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for example in examples
    ]  # fmt: skip
    outputs = [process.communicate(timeout=COMMAND_TIMEOUT_S)[0] for process in running]
    for example, process, output in zip(examples, running, outputs, strict=True):
        assert process.returncode == 0, f"{example.name}\n{output}"
