"""From the APP argument of a command to an `App`: a built-in name, `module:app` or `path/to/file.py:app`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem import App
from mainstem.apps import APPS
from mainstem.errors import InputError, ProgramError

BUILT_IN = tuple(APPS)
FORMS = f"{', '.join(BUILT_IN)}, module:app or path/to/file.py:app"


@dataclass(frozen=True)
class Loaded:
    app: App
    module: ModuleType

    def initial(self, folder: Path | None) -> Mapping[str, pa.Table] | None:
        """The tables to start from: `folder`/<Table>.parquet, else what a built-in app starts from."""
        if folder is not None:
            return read_tables(folder)
        return self.module.initial() if self.module.__name__.startswith("mainstem.apps.") else None


def load_app(name: str) -> Loaded:
    """The app that `name` stands for; a `ProgramError` says what was looked for."""
    if name in BUILT_IN:
        return _take(importlib.import_module(f"mainstem.apps.{name}"), "app", name)
    place, _, attribute = name.rpartition(":")
    if not place or not attribute:
        raise ProgramError(f"{name!r} names no app", remedy=f"give one of: {FORMS}")
    module = _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    return _take(module, attribute, name)


def load_generator(name: str) -> Callable[..., list[Path]]:
    """`write_log` of a built-in app."""
    if name not in BUILT_IN:
        raise ProgramError(f"no generator for {name!r}", remedy=f"give one of: {', '.join(BUILT_IN)}")
    write_log: Callable[..., list[Path]] = importlib.import_module(f"mainstem.apps.{name}").write_log
    return write_log


def read_tables(folder: Path) -> dict[str, pa.Table]:
    """Every `<Table>.parquet` of a folder."""
    tables = {path.stem: pq.read_table(path) for path in sorted(folder.glob("*.parquet"))}
    if not tables:
        raise InputError(f"{folder} holds no tables: expected files named <Table>.parquet")
    return tables


def _take(module: ModuleType, attribute: str, name: str) -> Loaded:
    app = getattr(module, attribute, None)
    if not isinstance(app, App):
        there = [key for key, value in vars(module).items() if isinstance(value, App)]
        remedy = f"it has: {', '.join(there)}" if there else "define one there: app = ms.App('name')"
        raise ProgramError(f"{name!r}: {module.__name__} has no App called {attribute!r}", remedy=remedy)
    return Loaded(app, module)


def _import_module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # something that the module itself imports is missing
        raise ProgramError(f"there is no module {name!r}", remedy=f"give one of: {FORMS}") from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ProgramError(f"there is no file {path}", remedy=f"give one of: {FORMS}")
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
