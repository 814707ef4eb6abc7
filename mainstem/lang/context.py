"""Generated entry points: functions of `(context, item, worker)` that unpack the arrays of a batch themselves.

A strategy calls them through one pointer, whatever the program, so it is compiled once. The context holds an address
and a length per array, in the order of `Context.names`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mainstem.lang.emit import Body, Lines
from mainstem.lang.serial import kernel_name
from mainstem.schema import TableSchema, Type

WORD, HALF, BYTE = "INT64", "INT32", "UINT8"
HEADER = [
    "INT64 = np.dtype('i8')",
    "INT32 = np.dtype('i4')",
    "INT16 = np.dtype('i2')",
    "FLOAT64 = np.dtype('f8')",
    "UINT8 = np.dtype('u1')",
    "UINT16 = np.dtype('u2')",
]
_STORAGE = {"i8": "INT64", "f8": "FLOAT64", "u1": "UINT8"}


@dataclass
class Context:
    """The arrays that an entry point unpacks, in order of first use."""

    tables: tuple[TableSchema, ...]
    outputs: list[Type]
    wide_returns: bool
    names: dict[str, str] = field(default_factory=dict)  # name -> the expression that unpacks it

    def header(self) -> list[str]:
        return [*HEADER, *(f"D{i} = np.dtype({_record(t)}, align=True)" for i, t in enumerate(self.tables))]

    def want(self, name: str, kind: str) -> str:
        """Notes an array by name; `kind` is its element type."""
        if name not in self.names:
            role = name[0]
            place = len(self.names)
            if role in "UV" and name[1:].isdigit():  # every worker has its own
                self.names[name] = f"take_own(context, {place}, {kind}, worker)"
            elif role == "K":
                self.names[name] = f"take_matrix(context, {place}, {kind}, {len(self.tables[int(name[1:])].key)})"
            else:
                self.names[name] = f"take(context, {place}, {kind})"
        return name

    def parameter(self, body: Body, name: str) -> str:
        """The array that a parameter of a transaction stands for."""
        role, _, rest = name.partition("_")
        if role in ("x", "ok", "off"):
            return self.want(kernel_name(body, name), self._column(body, role, rest))
        if name == "ret":
            return self.want(name, "UINT16" if self.wide_returns else "UINT8")
        if name[0] == "O":
            return self.want(name, _STORAGE[np.dtype(self.outputs[int(name[1:])].storage).str.lstrip("<|")])
        if name[0] == "N":
            return self.want(name, BYTE)
        if name[0] in "TUZ":
            return self.want(name, f"D{name[1:]}")
        if name[0] == "I":
            return self.want(name, HALF)
        return self.want(kernel_name(body, name), WORD)

    def _column(self, body: Body, role: str, name: str) -> str:
        if role != "x":
            return BYTE if role == "ok" else WORD
        type_ = body.fields[name]
        return {"float": "FLOAT64", "bool": "UINT8"}.get(type_.base, WORD)

    def unpack(self, lines: Lines) -> None:
        lines.add(*(f"{name} = {expression}" for name, expression in self.names.items()))


def _record(table: TableSchema) -> str:
    """The fields of `TableSchema.row_dtype`, as source."""
    kind = table.row_dtype
    parts: list[object] = []
    for name in kind.names or ():
        base, shape = kind[name].base.str.lstrip("<|"), kind[name].shape
        parts.append((name, base, shape) if shape else (name, base))
    return repr(parts)
