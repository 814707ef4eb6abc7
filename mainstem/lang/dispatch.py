"""Which function lowers which syntax: modules register theirs, `lower` and `lower_statements` find them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, TypeVar

from mainstem.lang.frame import Frame
from mainstem.lang.ir import Value

F = TypeVar("F", bound=Callable[..., Any])

_EXPRESSIONS: dict[type, Callable[[Frame, Any], Value]] = {}
_STATEMENTS: dict[type, Callable[[Frame, Any], None]] = {}
_SEE = "see docs/language.md for what is supported"


def expression(kind: type) -> Callable[[F], F]:
    """Registers the function that lowers this kind of expression."""

    def register(function: F) -> F:
        _EXPRESSIONS[kind] = function
        return function

    return register


def statement(kind: type) -> Callable[[F], F]:
    """Registers the function that lowers this kind of statement."""

    def register(function: F) -> F:
        _STATEMENTS[kind] = function
        return function

    return register


def lower(frame: Frame, node: ast.expr) -> Value:
    """The operand that holds the value of `node`; statements that compute it go to the frame's block."""
    kind = _EXPRESSIONS.get(type(node))
    if kind is None and isinstance(node, ast.Lambda | ast.Yield | ast.YieldFrom | ast.Await | ast.NamedExpr):
        raise frame.error(f"{type(node).__name__} is not supported inside a function", node, _SEE)
    if kind is None:
        raise frame.uncompilable(f"{type(node).__name__} expressions are not compiled", node)
    return kind(frame, node)


def lower_statements(frame: Frame, nodes: list[ast.stmt]) -> None:
    for node in nodes:
        if not frame.reachable:
            return  # Python never gets here either
        kind = _STATEMENTS.get(type(node))
        if kind is None:
            what, remedy = _REFUSED.get(type(node), (type(node).__name__, _SEE))
            raise frame.error(f"{what} is not supported inside a function", node, remedy)
        kind(frame, node)


_REFUSED: dict[type, tuple[str, str]] = {
    ast.Try: ("try", "aborts are not exceptions to catch: test with if, or use ms.require"),
    ast.With: ("with", "do such work outside, e.g. in @app.derive"),
    ast.Raise: ("raise", 'write ms.abort("reason")'),
    ast.Assert: ("assert", 'write ms.require(condition, "reason")'),
    ast.FunctionDef: ("a nested function", "define it at the top level of the module"),
    ast.ClassDef: ("a class", "define it at the top level of the module"),
    ast.Import: ("import", "import at the top of the module"),
    ast.ImportFrom: ("import", "import at the top of the module"),
    ast.Global: ("global", "shared state lives in tables"),
    ast.Nonlocal: ("nonlocal", "shared state lives in tables"),
    ast.Match: ("match", "use if/elif"),
}
