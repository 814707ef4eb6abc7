"""What transaction groups must not do: return a column twice, or share what nothing keeps apart."""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import combinations

from mainstem.errors import ProgramError
from mainstem.lang.program import EVENT_ORDER, Function, Program, Spec
from mainstem.lang.source import Source, source_of


def refuse_same_columns(spec: Spec) -> None:
    """A column of a group comes from one function, else one would hide what the other returns."""
    for members in spec.transactions:
        giver: dict[str, str] = {}
        for bound in members if len(members) > 1 else ():
            source = source_of(bound.function)
            for column, node in _returned(source):
                if giver.setdefault(column, bound.name) != bound.name:
                    raise ProgramError(
                        f"{giver[column]} and {bound.name} of the transaction group {bound.transaction!r} "
                        f"both return the column {column!r}",
                        file=source.file,
                        line=node.lineno,
                        remedy="give each its own name",
                    )


def _returned(source: Source) -> list[tuple[str, ast.expr]]:
    dicts = [n.value for n in ast.walk(source.tree) if isinstance(n, ast.Return) and isinstance(n.value, ast.Dict)]
    keys = [key for value in dicts for key in value.keys]
    return [(key.value, key) for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]


def refuse_shared_tables(program: Program, isolation: str | None = None) -> None:
    """Below event order only a group's own level orders what it does to a table, so nobody else may change it.

    `isolation`: the level of a whole run, in place of what functions were declared with.
    """
    functions = [f if isolation is None else replace(f, isolation=isolation) for f in program.functions]
    for one, other in combinations(functions, 2):
        levels = {one.isolation, other.isolation}
        if (one.group or other.group) and levels != {EVENT_ORDER}:
            shared = _tables(one) & _tables(other) & (_tables(one, written=True) | _tables(other, written=True))
            if shared:
                raise _sharing(program, min(shared), one, other)


def _tables(function: Function, written: bool = False) -> set[int]:
    return {site.table for site in function.sites if site.writes or not written}


def _sharing(program: Program, table: int, one: Function, other: Function) -> ProgramError:
    named = [f"{f.name!r} ({f.isolation})" for f in (one, other)]
    weaker = one if one.isolation != EVENT_ORDER else other
    return ProgramError(
        f"table {program.tables[table].name} is changed or read by {named[0]} and {named[1]}, "
        f"and only event order ({EVENT_ORDER}) keeps them apart",
        file=weaker.file,
        line=weaker.line,
        remedy=f'give both isolation="{EVENT_ORDER}", make them one group, or give each a table of its own',
    )
