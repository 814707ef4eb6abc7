"""Compiled code is kept by content: a second process does not compile again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import mainstem as ms
from mainstem.engine.load import load

app = ms.App("cached")

@app.event
class Add:
    key: int
    amount: int

@app.table(key=int)
class Total:
    amount: int = 0

@app.on(Add)
def add(e):
    Total[e.key].amount += e.amount

app.run([Add(ts=1, key=1, amount=2)])
stats = load(app.program.source, True)["serial"].stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), app.state["Total"].to_pylist())
"""


def test_a_second_process_loads_what_the_first_compiled(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    environment = {**os.environ, "MAINSTEM_CACHE": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("MAINSTEM_JIT", None)
    command = [sys.executable, str(script)]
    printed = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)
    ]
    assert printed == ["0 1 [{'key': 1, 'amount': 2}]\n", "1 0 [{'key': 1, 'amount': 2}]\n"]
