"""Queries whose form alone would cost too much.

DuckDB reads a query's text while Python's lock is held, and nothing can interrupt that. For most texts it takes
milliseconds. Brackets within brackets take time by the square of their depth: a few thousand, some kilobytes of text,
would stop every thread of the process for seconds. Long chains of names cost the same when the names are looked up.
"""

from __future__ import annotations

import re

from mainstem.errors import QueryError

DEPTH_MAX = 200  # of brackets, and names in a chain: more than people write, and read within a few milliseconds
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|--[^\n]*""")
# Quotes within quotes that `_QUOTED` would take for their ends: escapes, texts between dollar signs, comments.
_ODD = re.compile(r"""\\['"]|\$\w*\$|/\*""")
_BRACKETS = re.compile(r"[()\[\]{}]")
_CHAIN_ENDS = re.compile(r"[^\w\s.]")


def check_shape(query: str) -> None:
    """Refuse brackets and names that are nested too deep; takes time by the length of the text."""
    if _depth(query) > DEPTH_MAX:
        raise QueryError(f"the query has more than {DEPTH_MAX} brackets within brackets\n  write it in smaller steps")
    if _chain(query) > DEPTH_MAX:
        raise QueryError(f"the query has a name of more than {DEPTH_MAX} parts\n  write table.column")


def _depth(query: str) -> int:
    """How deep brackets are nested; where that is hard to tell, how many there are."""
    if _ODD.search(query):
        return sum(map(query.count, "([{"))
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_QUOTED.sub("", query)):
        depth += 1 if bracket in "([{" else -1
        deepest = max(deepest, depth)
        depth = max(depth, 0)
    return deepest


def _chain(query: str) -> int:
    """How many dots follow each other with nothing but names between them, or more than that."""
    if _ODD.search(query):
        return query.count(".")
    plain = _QUOTED.sub("q", query)
    return max(part.count(".") for part in _CHAIN_ENDS.split(plain))
