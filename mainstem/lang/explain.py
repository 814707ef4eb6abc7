"""`app.explain()`: tables, functions, dependencies, the plan and why, as text or as a Mermaid graph."""

from __future__ import annotations

from mainstem.errors import ProgramError
from mainstem.lang.program import Function, Program


def explain(program: Program, format: str = "text") -> str:
    if format == "text":
        return "\n".join(_text(program)) + "\n"
    if format == "mermaid":
        return "\n".join(_mermaid(program)) + "\n"
    raise ProgramError(f"explain can't write {format!r}", remedy="use format='text' or format='mermaid'")


def plan_of(program: Program) -> tuple[str, str]:
    """The plan on Spark and the reason."""
    if program.keyed is not None:
        return "keyed", "every event touches one key, which is a column of the event: one shuffle by that key"
    if not program.compiled:
        return "one state stage", "the program runs interpreted, so what it touches is known only when it runs"
    groups = program.cyclic_tables
    if groups:
        together = "; ".join(" and ".join(group) for group in groups)
        return "one state stage", f"tables depend on each other in a cycle: {together}"
    computed = [s.text for f in program.functions for s in f.sites if s.columns is None]
    if computed and all(len({s.text for s in f.sites}) == 1 for f in program.functions):
        return "one state stage", f"a key is computed, not a column: {', '.join(computed)}"
    return "one state stage", "events touch more than one key"


def _text(program: Program) -> list[str]:
    lines = [f"app {program.name}", "", "tables"]
    for table in program.tables:
        key = ", ".join(map(str, table.key))
        fields = ", ".join(f"{f.name}: {f.type}" for f in table.fields)
        checks = f"; checks: {', '.join(table.checks)}" if table.checks else ""
        lines.append(f"  {table.name}[{key}]  {fields}{checks}")
    lines += ["", "functions"]
    if program.compiled:
        for function in program.functions:
            lines += _function(function)
    else:
        lines += [f"  {name} on {program.events[kind].name}" for kind, name in program.bindings]
    lines += ["", "table graph (an arrow: the write needs the read)"]
    edges = sorted(program.edges)
    lines += [f"  {program.tables[a].name} -> {program.tables[b].name}" for a, b in edges] or ["  no dependencies"]
    plan, why = plan_of(program)
    lines += ["", "execution", f"  engine: {_engine(program)}", f"  plan on Spark: {plan}", f"    because {why}"]
    if program.compiled and not program.derives:
        lines.append("    fused for files: one task reads, runs and writes, which costs less than moving the events")
    return lines


def _engine(program: Program) -> str:
    if program.compiled:
        return "serial, compiled to native code, or parallel: auto chooses for each batch"
    return f"interpreted (Python speed), because {program.why_interpreted[0]}"


def _function(function: Function) -> list[str]:
    found = function.dependencies
    lines = [f"  {function.name}({function.event})  {function.file}:{function.line}"]
    for site in function.sites:
        access = " and ".join(w for w, on in (("reads", site.reads), ("writes", site.writes)) if on) or "names"
        key = "key from columns" if site.columns is not None else "key in a loop" if site.dynamic else "key computed"
        needs = [function.sites[i].text for j, d in found.per_write if j == site.index for i in d]
        lines.append(f"    {access} {site.text}  ({key})" + (f"; new value needs {', '.join(needs)}" if needs else ""))
    if found.abort:
        lines.append(f"    may abort, decided by {', '.join(function.sites[i].text for i in found.abort)}")
    elif function.aborts:
        lines.append("    may abort, decided by the event alone")
    if found.output:
        lines.append(f"    output needs {', '.join(function.sites[i].text for i in found.output)}")
    lines += [f"    {part.text}" for part in function.parts]
    return lines


def _mermaid(program: Program) -> list[str]:
    lines = ["flowchart LR"]
    lines += [f'  e{k}(["{e.name}"])' for k, e in enumerate(program.events)]
    lines += [f'  t{i}[("{t.name}")]' for i, t in enumerate(program.tables)]
    for i, (kind, name) in enumerate(program.bindings):
        lines += [f'  f{i}["{name}"]', f"  e{kind} --> f{i}"]
    for function in program.functions:
        reads = sorted({function.sites[s].table for s in function.dependencies.reads})
        writes = sorted({function.sites[s].table for s in function.dependencies.writes})
        lines += [f"  t{i} -.-> f{function.index}" for i in reads] + [f"  f{function.index} ==> t{i}" for i in writes]
    return lines
