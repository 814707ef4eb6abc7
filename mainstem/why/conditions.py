"""Where in a user's source a transaction aborted, and the values of the operands there."""

from __future__ import annotations

import ast
import itertools
import linecache
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Literal

from mainstem.lang import Abort, Table, abort, require
from mainstem.lang.runtime import Transaction, plain, running
from mainstem.lang.source import _INT64 as INTERPRETED  # a global that only functions in their interpreted form have
from mainstem.lang.source import source_of
from mainstem.why.report import Condition

_SHOWN = (int, float, str, bytes, tuple, list, type(None))


class CheckFailed(Abort):
    """A row breaks a check; `values` are the fields that the check read."""

    def __init__(self, reason: str, check: Callable[..., Any], values: dict[str, Any]) -> None:
        super().__init__(reason)
        self.check, self.values = check, values


def condition_of(error: BaseException, transaction: Transaction) -> Condition | None:
    """The condition behind an abort; `transaction` is as it was then. None when the source is gone."""
    if isinstance(error, CheckFailed):
        return _check_condition(error)
    found = _place(error)
    if found is None:
        return None
    frame, line, raised_by = found
    file = frame.f_code.co_filename
    path = _statements_at(file, line)
    if not path:
        return None
    kind, text, nodes = _what_failed(path, raised_by)
    operands = _Operands(frame)
    with running(transaction):
        for node in nodes:
            operands.visit(node)
    return Condition(kind, text, file, line, operands.values)


def _check_condition(error: CheckFailed) -> Condition:
    source = source_of(error.check)
    returns = [node for node in ast.walk(source.tree) if isinstance(node, ast.Return) and node.value is not None]
    parameter = source.tree.args.args[0].arg
    values = {f"{parameter}.{field}": value for field, value in error.values.items()}
    if len(returns) == 1 and returns[0].value is not None:
        return Condition("check", ast.unparse(returns[0].value), source.file, returns[0].lineno, values)
    return Condition("check", f"{source.name}({parameter})", source.file, source.tree.lineno, values)


def _place(error: BaseException) -> tuple[FrameType, int, Any] | None:
    """The innermost frame of the user's own code, its line, and the code object that raised."""
    found, raised_by = None, None
    entry: TracebackType | None = error.__traceback__
    while entry is not None:
        raised_by = entry.tb_frame.f_code
        if INTERPRETED in entry.tb_frame.f_globals:
            found = entry.tb_frame, entry.tb_lineno
        entry = entry.tb_next
    return None if found is None else (*found, raised_by)


def _statements_at(file: str, line: int) -> list[ast.AST]:
    """The statements around a line, from the outermost to the innermost."""
    try:
        node: ast.AST = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:  # a notebook cell with magics, say
        return []
    path: list[ast.AST] = []
    while inner := [s for s in _inside(node) if s.lineno <= line <= (s.end_lineno or s.lineno)]:
        node = inner[-1]
        path.append(node)
    return path


def _inside(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements directly in a node's blocks."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body


def _what_failed(
    path: list[ast.AST], raised_by: Any
) -> tuple[Literal["require", "abort", "statement"], str, list[ast.AST]]:
    """How to read what is written at the place, its text, and the syntax whose operands matter."""
    statement = path[-1]
    call = statement.value if isinstance(statement, ast.Expr) else None
    if raised_by is require.__code__ and isinstance(call, ast.Call) and call.args:
        return "require", ast.unparse(call.args[0]), [call.args[0]]
    if raised_by is abort.__code__ and (guards := _guards(path)):
        together = guards[0] if len(guards) == 1 else ast.BoolOp(ast.And(), guards)
        return "abort", ast.unparse(together), [together]
    node: ast.AST = statement
    if isinstance(statement, ast.If | ast.While):
        node = statement.test
    elif isinstance(statement, ast.For):
        node = statement.iter
    return "statement", ast.unparse(statement).splitlines()[0], [node]


def _guards(path: list[ast.AST]) -> list[ast.expr]:
    """The tests of the ifs around the innermost statement, negated where it stands in an `else`."""
    guards: list[ast.expr] = []
    for outer, inner in itertools.pairwise(path):
        if isinstance(outer, ast.FunctionDef):
            guards = []
        elif isinstance(outer, ast.If):
            guards.append(outer.test if inner in outer.body else ast.UnaryOp(ast.Not(), outer.test))
    return guards


class _Operands(ast.NodeVisitor):
    """Names, fields and `in` tests of an expression with their values in a frame; the largest that is a plain value."""

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame
        self.values: dict[str, Any] = {}

    def visit_Name(self, node: ast.Name) -> None:
        self._note(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not self._note(node):
            self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not self._note(node):
            self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        asks_table = isinstance(self._value(node.comparators[-1]), Table)
        if not (asks_table and self._note(node)):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Arguments, and what a method is called on; not the result, which may cost anything."""
        if isinstance(node.func, ast.Attribute):
            self.visit(node.func.value)
        for argument in node.args:
            self.visit(argument)

    def _note(self, node: ast.expr) -> bool:
        value = self._value(node)
        if value is _UNKNOWN or not isinstance(value, _SHOWN):
            return False
        self.values[ast.unparse(node)] = plain(value)
        return True

    def _value(self, node: ast.expr) -> Any:
        try:
            # As text, so that the target of `x += 1` is read like any other operand.
            return eval(ast.unparse(node), self._frame.f_globals, self._frame.f_locals)
        except Exception:  # it has no value here: a variable of a comprehension, an index that is out of range
            return _UNKNOWN


_UNKNOWN = object()
