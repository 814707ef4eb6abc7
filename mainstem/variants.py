"""Variants of an app: the same rules with other constants, to be replayed side by side."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

from mainstem.app import App
from mainstem.errors import ProgramError
from mainstem.lang import Table


def variants(app: App, **values: Iterable[Any]) -> list[App]:
    """One app per combination of values: `ms.variants(app, SPAM_SHARE=[0.1, 0.2, 0.3])` gives three.

    A name is a constant that the app's functions (or the helpers that they call) use by that name: a variable of their
    module, or one of the function around them. The app itself stays as it is.
    """
    if not values:
        raise ProgramError("variants of nothing", remedy="name a constant and its values: THRESHOLD=[0.1, 0.2]")
    choices = {name: list(given) for name, given in values.items()}
    for name, given in choices.items():
        if not given:
            raise ProgramError(f"{name}=[] has no value", remedy="give one or more values")
        _check_used(app, name)
    return [_variant(app, dict(zip(choices, chosen, strict=True))) for chosen in product(*choices.values())]


def _variant(app: App, values: Mapping[str, Any]) -> App:
    changed = ", ".join(f"{name}={value!r}" for name, value in values.items())
    rebound = _Rebound(values)
    return app._varied(f"{app.name}({changed})", rebound.function, rebound.table)


def _check_used(app: App, name: str) -> None:
    used: dict[str, None] = {}
    for function in app._own_functions():
        used.update(_constants(function, set()))
    if name not in used:
        known = ", ".join(sorted(used)) or "none"
        raise ProgramError(
            f"no function of app {app.name} uses a constant {name!r}", remedy=f"constants that they use: {known}"
        )


def _constants(function: Callable[..., Any], seen: set[int]) -> dict[str, None]:
    """Names of plain values that a function or its helpers read from outside."""
    if id(function) in seen:
        return {}
    seen.add(id(function))
    found: dict[str, None] = {}
    for name, value in _outside(function).items():
        if isinstance(value, types.FunctionType):
            found.update(_constants(value, seen))
        elif isinstance(value, bool | int | float | str | bytes):
            found[name] = None
    return found


def _outside(function: Callable[..., Any]) -> dict[str, Any]:
    """Names that the code reads from its module or from the functions around it, with their values."""
    if not isinstance(function, types.FunctionType):
        return {}
    code = function.__code__
    found = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        found[name] = cell.cell_contents
    return found


class _Rebound:
    """Functions with other values behind some names; helpers that use these names change with them."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._made: dict[int, Any] = {}

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if id(function) in self._made:
            return self._made[id(function)]
        self._made[id(function)] = function  # one that calls itself
        outside = _outside(function)
        changed = {name: self._value(name, value) for name, value in outside.items()}
        if all(changed[name] is value for name, value in outside.items()):
            return function
        self._made[id(function)] = made = _with_names(function, changed)
        return made

    def table(self, table: Table) -> Table:
        """The same table, or one with changed checks."""
        if id(table) not in self._made:
            checks = tuple(self.function(check) for check in table.checks)
            same = all(new is old for new, old in zip(checks, table.checks, strict=True))
            self._made[id(table)] = table if same else Table(table.schema, checks)
        return self._made[id(table)]

    def _value(self, name: str, value: Any) -> Any:
        if name in self._values:
            return self._values[name]
        if isinstance(value, Table):
            return self.table(value)
        own = isinstance(value, types.FunctionType) and not value.__module__.startswith("mainstem.lang")
        return self.function(value) if own else value


def _with_names(function: Any, names: Mapping[str, Any]) -> Callable[..., Any]:
    code = function.__code__
    cells = tuple(types.CellType(names[name]) for name in code.co_freevars)
    made = types.FunctionType(code, {**function.__globals__, **names}, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__, made.__qualname__, made.__dict__ = function.__kwdefaults__, function.__qualname__, {}
    made.__dict__.update(function.__dict__)
    made.__module__ = function.__module__
    return made
