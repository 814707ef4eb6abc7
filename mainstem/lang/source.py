"""From a function object to its syntax tree, with places that a user finds again."""

from __future__ import annotations

import ast
import builtins
import copy
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
        raise ProgramError(
            f"{name} is not a plain function", file=file, line=first, remedy="use def, not lambda or async def"
        )
    return Source(name, file, tree, scope_of(function))


def interpretable(function: Callable[..., Any], _seen: dict[Any, Any] | None = None) -> Callable[..., Any]:
    """The same function in which integers are 64-bit: literals, `int`, `round`, `math.floor` …, and in its helpers."""
    seen = {} if _seen is None else _seen
    if function in seen:
        return seen[function]
    source = source_of(function)
    tree = _Integers64().visit(copy.deepcopy(source.tree))
    tree.decorator_list = []
    module = ast.fix_missing_locations(ast.Module([tree], []))
    scope = {**source.scope, "__builtins__": {**vars(builtins), **runtime.CHECKED_BUILTINS}}
    scope |= {_INT64: runtime.Int64, _PLAIN: runtime.plain}
    exec(compile(module, source.file, "exec"), scope)
    seen[function] = scope[tree.name]
    for name in function.__code__.co_names + function.__code__.co_freevars:
        if name in source.scope and source.scope[name] is not function:
            scope[name] = _interpretable_value(source.scope[name], seen)
    return seen[function]


_INT64, _PLAIN = "__int64__", "__plain__"


class _Integers64(ast.NodeTransformer):
    """Writes every integer literal `n` as `__int64__(n)`, and compares plain values.

    CPython compares a float with an int by shifting and negating the int, which is not arithmetic of the user's.
    """

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        node.left, *node.comparators = [self._call(_PLAIN, value) for value in (node.left, *node.comparators)]
        return node

    def _call(self, name: str, value: ast.expr) -> ast.expr:
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), [value], []), value)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is not int:
            return node
        return self._call(_INT64, node)


def _interpretable_value(value: Any, seen: dict[Any, Any]) -> Any:
    if value is math:
        return runtime.CHECKED_MATH
    if value is math.floor or value is math.ceil or value is math.trunc:
        return getattr(runtime.CHECKED_MATH, value.__name__)
    if isinstance(value, types.FunctionType) and value not in (runtime.require, runtime.abort):
        return interpretable(value, seen)
    return runtime.wrap(value)
