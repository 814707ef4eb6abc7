"""Source of what gives one value: pure helpers, and the checks of a table's rows."""

from __future__ import annotations

from mainstem.lang import ir
from mainstem.lang.emit import Lines, Writer
from mainstem.lang.frame import Helper


class ValueWriter(Writer):
    """Helpers and checks: `(value, code)`."""

    def __init__(self, lines: Lines, result: str, table: int | None = None) -> None:
        super().__init__(lines)
        self.zero = "0.0" if result == "float" else "False" if result == "bool" else "0"
        self.table = table

    def leave(self, code: str) -> None:
        self.lines.add(f"return {self.zero}, {code}")

    def special(self, s: ir.Statement) -> None:
        if isinstance(s, ir.Finish):
            self.lines.add(f"return {s.value.text}, 0")
        elif isinstance(s, ir.Load) and self.table is not None:
            self.lines.add(f"{s.target} = T[r]['{s.field}']{f'[{s.index}]' if s.index else ''}")
        else:
            super().special(s)


def helper_source(helper: Helper) -> list[str]:
    lines = Lines()
    lines.add("@inlined", f"def {helper.name}({', '.join([*helper.parameters, 'S'])}):")
    ValueWriter(lines, helper.result).block(helper.block)
    return lines.text


def check_source(table: int, name: str, block: ir.Block) -> list[str]:
    lines = Lines()
    lines.add("@inlined", f"def check_{table}_{name}(T, r, S):")
    ValueWriter(lines, "bool", table).block(block)
    return lines.text


def checks_source(table: int, checks: list[tuple[str, int]]) -> list[str]:
    """All checks of one table over the rows that a transaction wrote."""
    lines = Lines()
    lines.add(
        "@inlined",
        f"def checks_{table}(T, V, u, S):",
        "    for q in range(u):",
        "        r = V[q]",
        "        if T[r]['_alive'] != 0:",
    )
    for name, code in checks:
        lines.add(
            f"            ok, c = check_{table}_{name}(T, r, S)",
            "            if c != 0:",
            "                return c",
            "            if not ok:",
            f"                return {code}",
        )
    lines.add("    return 0")
    return lines.text
