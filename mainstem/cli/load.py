"""From the APP argument of a command to an `App`: a built-in name, `module:app`, or a file with or without `:app`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem import App
from mainstem.apps import APPS
from mainstem.errors import InputError, MainstemError, ProgramError

BUILT_IN = tuple(APPS)
FORMS = f"{', '.join(BUILT_IN)}, module:app, path/to/file.py:app, or path/to/file.py with one App in it"

DEFINE_ONE = "define one there: app = ms.App('name')"


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
    if name.endswith(".py"):
        return _take_only(_import_file(Path(name)), name)
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
    if not folder.is_dir():
        raise InputError(f"--initial {folder} is no folder\n  give one with files named <Table>.parquet")
    tables = {path.stem: _read_table(path) for path in sorted(folder.glob("*.parquet"))}
    if not tables:
        raise InputError(f"{folder} holds no tables: expected files named <Table>.parquet")
    return tables


def _read_table(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} can't be read as Parquet: {str(error).splitlines()[0]}") from error


def _take(module: ModuleType, attribute: str, name: str) -> Loaded:
    app = getattr(module, attribute, None)
    if not isinstance(app, App):
        there = _apps_of(module)
        remedy = f"it has: {', '.join(there)}" if there else DEFINE_ONE
        raise ProgramError(f"{name!r}: {module.__name__} has no App called {attribute!r}", remedy=remedy)
    return Loaded(app, module)


def _take_only(module: ModuleType, file: str) -> Loaded:
    """The app of a file that was given without the name of one."""
    there = _apps_of(module)
    if not there:
        raise ProgramError(f"{file} defines no App", remedy=DEFINE_ONE)
    if len({id(app) for app in there.values()}) > 1:
        forms = " or ".join(f"{file}:{name}" for name in there)
        raise ProgramError(f"{file} defines {len(there)} Apps", remedy=f"say which one: {forms}")
    return Loaded(next(iter(there.values())), module)


def _apps_of(module: ModuleType) -> dict[str, App]:
    return {name: value for name, value in vars(module).items() if isinstance(value, App)}


def _import_module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    try:
        with _told_where(name):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ProgramError(f"there is no module {name!r}", remedy=f"give one of: {FORMS}") from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ProgramError(f"there is no file {path}", remedy=f"give one of: {FORMS}")
    found = path.resolve()
    name = _free_name(found)
    spec = importlib.util.spec_from_file_location(name, found)
    assert spec is not None
    assert spec.loader is not None
    if str(found.parent) not in sys.path:
        sys.path.insert(0, str(found.parent))  # as `python file.py` does: a program may import its neighbours
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = _imported[name] = module
    try:
        with _told_where(name):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]  # as an import that fails leaves nothing
        raise
    return module


_imported: dict[str, ModuleType] = {}  # from files, by name


def _free_name(path: Path) -> str:
    """The file's own name, unless that is the name of another module, which must stay what it is to everybody else."""
    name = path.stem
    if name in sys.modules:
        taken = sys.modules[name] is not _imported.get(name)
    else:
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
        taken = spec is not None and spec.origin != str(path)
    return f"_program_{name}" if taken else name


@contextmanager
def _told_where(module: str) -> Iterator[None]:
    """Errors of a program that is being imported as messages with its file and line.

    That `module` itself, or a package that it is in, does not exist is left to the caller.
    """
    try:
        yield
    except MainstemError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            raise
        file, line = _place(error)
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        remedy = "the program fails while it is imported: mend it there; --debug shows the traceback"
        raise ProgramError(f"{type(error).__name__}: {what}", file=file, line=line, remedy=remedy) from error


def _place(error: Exception) -> tuple[str, int]:
    """The last line of the user's that led to an error."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 0
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_foreign(frame.filename)]
    return (frames[-1].filename, frames[-1].lineno or 0) if frames else ("", 0)


def _is_foreign(file: str) -> bool:
    """Whether code is Python's, a library's or Mainstem's."""
    places = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    return file.startswith(("<", *places, str(Path(__file__).parent.parent)))
