"""The architecture as a test: who may import whom, and what the package exports."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import mainstem

PACKAGE = Path(mainstem.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# From the bottom to the top; a module imports only from its own layer and those before it. Names in one tuple are
# independent of each other. `testing` works without Spark.
LAYERS: list[tuple[str, ...]] = [
    ("errors",),
    ("jit",),
    ("atomics", "atomics_plain", "bits", "bits_plain"),
    ("pointers", "thread_words"),
    ("waiting",),
    ("team",),
    ("schema",),
    ("gate",),
    ("progress",),
    ("state",),
    ("windows",),
    ("lang",),
    ("engine",),
    ("store",),
    ("query",),
    ("serve",),
    ("tools",),
    ("why",),
    ("result",),
    ("run",),
    ("replay",),
    ("spark", "testing"),
    ("declare",),
    ("groups",),
    ("windowed",),
    ("options",),
    ("app",),
    ("variants",),
    ("__init__",),
    ("apps",),
    ("bench", "cli"),
    ("__main__",),
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
MAY_IMPORT_PYSPARK = {"spark", "bench"}


def layer_of(path: Path) -> str:
    """`mainstem/lang/parse.py` -> lang; `mainstem/app.py` -> app."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[int, str, bool]]:
    """(line, module, whether only for type checkers) for every import of a file, also those inside functions."""
    tree = ast.parse(path.read_text(), filename=str(path))
    typing_only = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    package = ["mainstem", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            # `from mainstem import errors` imports a module, `from mainstem import App` a name of `mainstem/__init__`.
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            yield node.lineno, name, node in typing_only


@cache
def imports_of(path: Path) -> tuple[tuple[int, str, bool], ...]:
    return tuple(imported(path))


def target_layer(name: str) -> str | None:
    """The layer that an import of `name` reaches; None for other packages."""
    first, *rest = name.split(".")
    if first != "mainstem":
        return None
    return rest[0] if rest and rest[0] in RANK else "__init__"


def test_every_module_is_in_a_known_layer() -> None:
    assert {layer_of(path) for path in MODULES} <= set(RANK)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path: Path) -> None:
    own = layer_of(path)
    for line, name, _ in imports_of(path):
        target = target_layer(name)
        if target is None or target == own:
            continue
        assert RANK[target] < RANK[own], f"{path}:{line}: {own} must not import {name}: {target} is not below it"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_spark_and_bench_import_pyspark(path: Path) -> None:
    if layer_of(path) in MAY_IMPORT_PYSPARK:
        return
    for line, name, typing_only in imports_of(path):
        assert typing_only or name.split(".")[0] not in ("pyspark", "py4j"), f"{path}:{line} imports {name}"


def test_all_names_exactly_what_is_exported() -> None:
    own = {name for name, value in vars(mainstem).items() if getattr(value, "__module__", "").startswith("mainstem")}
    assert sorted(name for name in own if not name.startswith("_")) == sorted(mainstem.__all__)


def test_importing_mainstem_does_not_import_pyspark() -> None:
    code = "import sys, mainstem; print([name for name in ('pyspark', 'py4j') if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
