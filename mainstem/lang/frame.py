"""What lowering knows while it walks one function: names, types, the block it writes to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mainstem.errors import ProgramError
from mainstem.lang import arith, ir
from mainstem.lang.history import MAYBE_NONE
from mainstem.lang.ir import Value
from mainstem.lang.runtime import Table
from mainstem.lang.source import Source
from mainstem.schema import EventSchema, Type


class Uncompilable(Exception):
    """Valid Python that kernels can't express; the program then runs interpreted and says why."""

    def __init__(self, what: str, source: Source, node: ast.AST | None) -> None:
        line = getattr(node, "lineno", source.tree.lineno)
        super().__init__(f"{what} ({source.file}:{line}, in {source.name})")


@dataclass
class Helper:
    """A pure function that bodies call, compiled for one combination of argument types."""

    name: str
    parameters: tuple[str, ...]
    block: ir.Block
    result: str
    turns: frozenset[str] = frozenset()  # parameters that decide how long a loop in it runs


@dataclass
class Shared:
    """What all functions of a program collect together."""

    tables: dict[int, int]  # id(Table) -> index
    handles: list[Table]
    strings: list[str | bytes] = field(default_factory=list)
    reasons: list[str] = field(default_factory=lambda: list(arith.BUILTIN_REASONS))
    helpers: dict[tuple[Any, Any], Helper] = field(default_factory=dict)
    lowering: list[Any] = field(default_factory=list)  # helpers being lowered: finds recursion

    def string(self, value: str | bytes) -> Value:
        if value not in self.strings:  # b"a" and "a" are never equal
            self.strings.append(value)
        return Value(f"S[{self.strings.index(value)}]", "str" if isinstance(value, str) else "bytes", constant=value)

    def reason(self, text: str) -> int:
        # A user's reason may read like a built-in one; it is the text that counts. Code 0 is no reason: it commits.
        if text not in self.reasons[1:]:
            self.reasons.append(text)
        return self.reasons.index(text, 1)


@dataclass
class Binding:
    """What a local name stands for at this point: a value, a row or a tuple of values."""

    value: Value | None = None
    site: int | None = None
    items: tuple[Value, ...] | None = None


class Frame:
    """One function being lowered."""

    def __init__(
        self, source: Source, shared: Shared, *, event: EventSchema | None = None, row: int | None = None,
        after: Frame | None = None,
    ) -> None:  # fmt: skip
        """`after`: the function before this one in the same transaction, whose rows and fields are the same."""
        self.source, self.shared, self.event, self.row_table = source, shared, event, row
        self.block: ir.Block = []
        self.env: dict[str, Binding] = {}
        self.reachable = True
        self.types: dict[str, tuple[str, int]] = {}
        self.sites: list[ir.Site] = after.sites if after else []
        self.site_of: dict[tuple[Any, ...], int] = after.site_of if after else {}
        self.lives: dict[str, int] = after.lives if after else {}  # how many locals a name has been
        self.used_fields: dict[str, Type] = after.used_fields if after else {}
        self.returns = 0
        self.columns: dict[str, tuple[str, int]] = {}
        self.loops: list[set[str]] = []  # names that each enclosing loop assigns
        self.loop_locals: set[str] = set()  # locals that only their loop sets
        self.temporaries: int = after.temporaries if after else 0
        self.assigned = _assignment_counts(source.tree)
        self.assigned_in_loops = _assigned_in_loops(source.tree)
        self.not_null_fields: set[str] = set()  # nullable event fields that a test has found to have a value
        self.nullable_names = _nullable_names(source.tree, event)

    # -- writing ------------------------------------------------------------------------------------------------

    def emit(self, statement: ir.Statement) -> None:
        self.block.append(statement)

    def temporary(self) -> str:
        self.temporaries += 1
        return f"t{self.temporaries}"

    def let(self, node: ast.AST, text: str, uses: tuple[str, ...], base: str) -> Value:
        name = self.temporary()
        self.emit(ir.Let(_line(node), name, text, uses))
        return Value(name, base)

    def checked(
        self, node: ast.AST, call: str, arguments: tuple[Value, ...], base: str, turns: tuple[str, ...] = ()
    ) -> Value:
        name = self.temporary()
        self.emit(ir.Checked(_line(node), name, call, arguments, turns))
        return Value(name, base)

    def not_null(self, value: Value, node: ast.AST) -> Value:
        """The value where a null aborts."""
        if value.base == "none":
            self.emit(ir.AbortIf(_line(node), Value("True", "bool"), arith.NULL))
            return Value("0", "int")
        if value.null is None:
            return value
        self.emit(ir.AbortIf(_line(node), Value(value.null, "bool"), arith.NULL))
        return Value(value.text, value.base, constant=value.constant)

    @contextmanager
    def into(self, block: ir.Block) -> Iterator[ir.Block]:
        """Statements go to `block` meanwhile."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is learnt about names meanwhile is forgotten afterwards."""
        env, fields = dict(self.env), set(self.not_null_fields)
        try:
            yield
        finally:
            self.env, self.not_null_fields = env, fields

    # -- errors -------------------------------------------------------------------------------------------------

    def error(self, what: str, node: ast.AST | None = None, remedy: str = "") -> ProgramError:
        return self.source.error(what, node, remedy)

    def uncompilable(self, what: str, node: ast.AST) -> Uncompilable:
        return Uncompilable(what, self.source, node)

    # -- names --------------------------------------------------------------------------------------------------

    def assign(self, name: str, value: Value, node: ast.AST) -> None:
        """A user's local takes a value; its type never changes."""
        known, line = self.types.get(name, ("none", 0))
        if value.base != "none":
            if known not in ("none", value.base):
                raise self.error(
                    f"{name} is {known} on line {line} and becomes {value.base}",
                    node,
                    _conversion_remedy(known, value.base),
                )
            self.types[name] = (value.base, _line(node))
        local = self._local(name)
        flag = null_flag(local)
        self.emit(ir.Let(_line(node), local, value.text, value.names[:1] if value.text.isidentifier() else ()))
        if name in self.nullable_names:
            null = value.null or "False"
            self.emit(ir.Let(_line(node), flag, null, (null,) if null not in ("True", "False") else ()))
        self.env[name] = Binding(value=Value(local, value.base, flag if value.null else None))

    def _local(self, name: str) -> str:
        """The local of the generated code that a name is now. A name without a value starts a life of its own.

        So `k` of one loop and `k` of the next, or of two branches, are different locals, and what is known of one (it
        depends on state) does not spoil the other.
        """
        binding = self.env.get(name)
        if binding is not None and binding.value is not None:
            return binding.value.text
        lives = self.lives[name] = self.lives.get(name, 0) + 1
        return f"l_{name}" if lives == 1 else f"l{lives}_{name}"

    def join(self, *branches: tuple[dict[str, Binding] | None, ir.Block]) -> None:
        """What is known after branches that meet: names that every branch leaves set, and alike."""
        live = [(env, block) for env, block in branches if env is not None]
        self.reachable = bool(live)
        if not live:
            return
        self.env = {}
        for name in live[0][0]:
            if all(name in env for env, _ in live):
                joined = self._join(name, [(env[name], block) for env, block in live])
                if joined is not None:
                    self.env[name] = joined

    def _join(self, name: str, ends: list[tuple[Binding, ir.Block]]) -> Binding | None:
        bindings = [binding for binding, _ in ends]
        if all(b == bindings[0] for b in bindings):
            return bindings[0]
        values = [b.value for b in bindings if b.value is not None]
        if len(values) < len(bindings):
            return None
        base = next((v.base for v in values if v.base != "none"), "none")
        local = values[0].text
        if any(v.text != local for v in values):
            local = self._local(name)
            for value, (_, block) in zip(values, ends, strict=True):
                block.append(ir.Let(0, local, value.text, (value.text,)))
                if name in self.nullable_names:
                    null = value.null or "False"
                    block.append(ir.Let(0, null_flag(local), null, (null,) if null not in ("True", "False") else ()))
        return Binding(value=Value(local, base, null_flag(local) if any(v.null for v in values) else None))

    def enter_loop(self, names: set[str]) -> None:
        """Inside a loop, what the body assigns may hold an earlier turn's value: null if it ever is."""
        self.loops.append(names)
        for name in names & self.env.keys():
            binding = self.env[name]
            if binding.value is None:
                del self.env[name]
            elif name in self.nullable_names:
                local = binding.value.text
                self.env[name] = Binding(value=Value(local, binding.value.base, null_flag(local)))

    def leave_loop(self, before: dict[str, Binding]) -> None:
        names = self.loops.pop()
        self.env = dict(before)
        for name in names & self.env.keys():
            binding = self.env[name]
            if binding.value is None:
                del self.env[name]
            elif name in self.nullable_names:
                base, local = self.types.get(name, ("none", 0))[0], binding.value.text
                self.env[name] = Binding(value=Value(local, base, null_flag(local)))
        self.reachable = True


def null_flag(local: str) -> str:
    """The local that is true when a user's local is None: `l_x` -> `ln_x`, `l2_x` -> `ln2_x`."""
    return f"ln{local[1:]}"


def _conversion_remedy(old: str, new: str) -> str:
    if (old, new) == ("int", "float"):
        return "start it as a float (write 0.0, not 0), or convert with int(…)"
    if (old, new) == ("float", "int"):
        return "convert with float(…), or write 1.0, not 1"
    return "use another name for the other type"


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def assigned_names(nodes: list[ast.stmt]) -> set[str]:
    """Names that these statements assign, loop variables included."""
    return {n.id for s in nodes for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _assignment_counts(tree: ast.FunctionDef) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            counts[node.id] = counts.get(node.id, 0) + 1
    return counts


def _assigned_in_loops(tree: ast.FunctionDef) -> set[str]:
    return {n for node in ast.walk(tree) if isinstance(node, ast.For | ast.While) for n in assigned_names([node])}


def _nullable_names(tree: ast.FunctionDef, event: EventSchema | None) -> set[str]:
    """Locals that some assignment may make None: by the look of the right-hand sides, all the way round."""
    fields = {f.name for f in event.fields + event.derived if f.type.nullable} if event else set()
    names: set[str] = set()
    size = -1
    while size != (size := len(names)):
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Assign | ast.AnnAssign)
                and node.value is not None
                and _may_be_none(node.value, fields, names)
            ):
                names |= assigned_names([node])
    return names


def _may_be_none(value: ast.expr, fields: set[str], names: set[str]) -> bool:
    match value:
        case ast.Constant():
            return value.value is None
        case ast.Name():
            return value.id in names
        case ast.Attribute():
            return value.attr in fields
        case ast.IfExp():
            return _may_be_none(value.body, fields, names) or _may_be_none(value.orelse, fields, names)
        case ast.BoolOp():
            return any(_may_be_none(v, fields, names) for v in value.values)
        case ast.Tuple():
            return any(_may_be_none(v, fields, names) for v in value.elts)
        case ast.Call(func=ast.Attribute(attr=method)):
            return method in MAYBE_NONE
    return False
