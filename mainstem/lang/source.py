"""From a function object to its syntax tree, with places that a user finds again."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import textwrap
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mainstem.errors import ProgramError
from mainstem.lang import runtime


@dataclass(frozen=True)
class Source:
    """One function: its tree (line numbers as in the file), its place and the names it can see."""

    name: str
    file: str
    tree: ast.FunctionDef
    scope: dict[str, Any]

    def error(self, what: str, node: ast.AST | None = None, remedy: str = "") -> ProgramError:
        line = getattr(node, "lineno", self.tree.lineno)
        return ProgramError(f"{what} (in {self.name})", file=self.file, line=line, remedy=remedy)


def scope_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Globals and closure variables as they are now; compiled code keeps these values."""
    scope = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        scope[name] = cell.cell_contents
    return scope


def source_of(function: Callable[..., Any]) -> Source:
    name = getattr(function, "__name__", repr(function))
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or "<unknown>"
    except (OSError, TypeError) as error:
        raise ProgramError(
            f"the source of function {name} can't be read: {error}",
            remedy="define it in a file or a notebook cell, not in an interactive prompt or exec()",
        ) from error
    try:
        module = ast.parse(textwrap.dedent("".join(lines)))
    except SyntaxError as error:
        raise ProgramError(f"function {name} can't be parsed on its own: {error.msg}", file=file, line=first) from error
    ast.increment_lineno(module, first - 1)
    tree = module.body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise ProgramError(f"{name} is not a plain function", file=file, line=first, remedy="use def, not lambda or async def")
    return Source(name, file, tree, scope_of(function))


def interpretable(function: Callable[..., Any], _seen: dict[int, Any] | None = None) -> Callable[..., Any]:
    """The function itself, with `int`, `round`, `math.floor` … bound to their 64-bit forms, helpers included."""
    seen = {} if _seen is None else _seen
    if id(function) in seen:
        return seen[id(function)]  # type: ignore[no-any-return]
    scope: dict[str, Any] = dict(function.__globals__)
    scope["__builtins__"] = {**vars(builtins), **runtime.CHECKED_BUILTINS}
    copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, None)
    seen[id(function)] = copy
    cells = [types.CellType(_interpretable_value(c.cell_contents, seen)) for c in function.__closure__ or ()]
    copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, tuple(cells))
    seen[id(function)] = copy
    for name in function.__code__.co_names:
        if name in scope and name != "__builtins__":
            scope[name] = _interpretable_value(scope[name], seen)
    return copy


def _interpretable_value(value: Any, seen: dict[int, Any]) -> Any:
    if value is math:
        return runtime.CHECKED_MATH
    if value is math.floor or value is math.ceil or value is math.trunc:
        return getattr(runtime.CHECKED_MATH, value.__name__)
    if isinstance(value, types.FunctionType) and not value.__module__.startswith("mainstem.lang"):
        return interpretable(value, seen)
    return runtime.wrap(value) if type(value) is int else value
