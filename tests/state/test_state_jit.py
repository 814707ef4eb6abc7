"""Compile policy: the switch, the cache folder, and kernels that run the same without the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import mainstem
from mainstem.jit import JIT_ENABLED, cache_folder, compile_kernel, frozen_in, kernel, plain

PACKAGE = Path(mainstem.__file__).parent

EXERCISE = """
import numpy as np
import pyarrow as pa
from mainstem.schema import Field, TableSchema, Type
from mainstem.state import State, StringPool, digest, index, stable_hash

rng = np.random.default_rng(1)
numbers = np.concatenate([rng.integers(-2**63, 2**63 - 1, 900), rng.integers(0, 500, 900), [-2**63, 2**63 - 1]])
texts = pa.array([None if n % 7 == 0 else "é\\0x" * int(n % 9) + str(n % 400) for n in numbers.tolist()])
single, pair = index.KeyIndex(1), index.KeyIndex(2)
print(single.resolve([numbers], (numbers % 5 != 0).astype(np.uint8)).tolist())
print(pair.resolve([numbers % 50, numbers % 3]).tolist(), pair.find([numbers % 60, numbers % 3]).tolist())
print([index.probe1(single.slots, single.keys, n) for n in numbers[:100]])
pool = StringPool(str)
codes = pool.intern(texts)
print(codes.tolist(), pool.decode(codes).equals(texts), stable_hash([texts, pa.array(numbers)]).tolist())
fields = (Field("f", Type("float", length=2)), Field("s", Type("str")))
schema = TableSchema("T", (Type("str"), Type("int")), False, fields)
state = State({"T": schema})
keys = texts.drop_null()
n = len(keys)
items = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2.0 * n)), 2)
state.apply("T", pa.table({"key_0": keys, "key_1": np.arange(n) % 3, "f": items, "s": keys}))
print(digest(state.export()), len(state.tables["T"]), type(index.probe1).__name__)
"""


def run(code: str, **environment: str) -> str:
    root = str(Path(mainstem.__file__).parent.parent)
    settings = {**os.environ, "PYTHONPATH": root, **environment}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_everything_is_equal_without_the_compiler() -> None:
    compiled, interpreted = run(EXERCISE, MAINSTEM_JIT="1"), run(EXERCISE, MAINSTEM_JIT="0")
    assert compiled.split()[-1] == "CPUDispatcher"
    assert interpreted.split()[-1] == "function"
    assert compiled.split()[:-1] == interpreted.split()[:-1]


WHERE = "from mainstem.jit import cache_folder; print(cache_folder())"


def test_cache_folder_can_be_chosen_and_is_used(tmp_path: Path) -> None:
    use = f"{WHERE}\nfrom mainstem.state import StringPool; StringPool(str)"
    folder = Path(run(use, MAINSTEM_CACHE=str(tmp_path), MAINSTEM_JIT="1").strip())
    assert folder.parent == tmp_path
    assert list((folder / "numba").rglob("*.nbc"))


def test_cache_folder_is_the_users_or_else_temporary(tmp_path: Path) -> None:
    home, blocked, temporary = tmp_path / "home", tmp_path / "blocked", tmp_path / "temporary"
    temporary.mkdir()
    blocked.write_text("a file where the cache folder should be")
    environment = {"MAINSTEM_CACHE": "", "TMPDIR": str(temporary)}
    assert Path(run(WHERE, XDG_CACHE_HOME=str(home), **environment).strip()).parent == home / "mainstem"
    fallback = Path(run(WHERE, XDG_CACHE_HOME=str(blocked), **environment).strip())
    assert fallback.parent.parent == temporary
    assert fallback.is_dir()


def test_the_users_numba_settings_stay() -> None:
    before = numba.config.CACHE_DIR
    compile_kernel(cubed)
    assert before == numba.config.CACHE_DIR
    assert cache_folder().is_dir()


def cubed(x: int) -> int:
    return x * x * x


def allocating(n: int) -> int:
    return len([0] * n)


def test_kernel_and_its_plain_form() -> None:
    fast = compile_kernel(cubed)
    assert plain(fast) is plain(cubed) is cubed
    assert fast(3) == cubed(3) == 27
    assert kernel(cubed) is not cubed or not JIT_ENABLED


def test_a_kernel_that_allocates_does_not_compile() -> None:
    with pytest.raises(numba.core.errors.NumbaRuntimeError, match="NRT required"):
        compile_kernel(allocating)(3)


def test_the_cache_knows_every_constant_that_kernels_read(tmp_path: Path) -> None:
    package = tmp_path / "mainstem"
    files = {
        "loops.py": "from .words import (\n    LINE,\n)\nfrom . import whole\n@kernel\n",
        "words.py": "from mainstem.deep.base import SIZE\nLINE = SIZE\n",
        "deep/base.py": "SIZE = 8\n",
        "whole.py": "limit = 3\n",
        "words_of_others.py": "LINE = 8\n",
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    found = {path.relative_to(package).as_posix() for path in frozen_in(package)}
    assert found == {"loops.py", "words.py", "deep/base.py", "whole.py"}
    own = {path.relative_to(PACKAGE).as_posix() for path in frozen_in(PACKAGE)}
    assert {"windows/operators/kernels/arrays.py", "gate/live/kernels/base.py", "team.py", "schema.py"} <= own
