"""`app.explain()`: tables, functions, dependencies, stages, the plan and why; as text, as Mermaid or SVG picture."""

from __future__ import annotations

from mainstem.errors import ProgramError
from mainstem.lang import draw
from mainstem.lang.dataflow import Dataflow
from mainstem.lang.history import entry_fields, keep_of
from mainstem.lang.program import EVENT_ORDER, PROTOCOLS, Function, Program


def explain(program: Program, flow: Dataflow | None, format: str = "text") -> str:
    """`flow`: the stages of a compiled program."""
    if format == "text":
        lines = _text(program, flow)
    elif format == "mermaid":
        lines = draw.mermaid(flow) if flow is not None else _mermaid(program)
    elif format == "svg":
        if flow is None:
            raise ProgramError(
                f"app {program.name} runs interpreted, so it has no stages to draw",
                remedy="use format='text', which says why",
            )
        lines = draw.svg(flow)
    else:
        raise ProgramError(f"explain can't write {format!r}", remedy="use format='text', 'mermaid' or 'svg'")
    return "\n".join(lines) + "\n"


def plan_of(program: Program, flow: Dataflow | None) -> tuple[str, str]:
    """The most parallel plan on Spark that the program allows, and the reason; a replay takes the one that pays."""
    if program.windows:
        names = ", ".join(window.name for window in program.windows)
        return "one_stage", f"windows close between events of one order, in one task: {names}"
    if program.keyed is not None:
        return "keyed", "every event touches one key, which is a column of the event: one shuffle by that key"
    if not program.compiled:
        return "one_stage", "the program runs interpreted, so what it touches is known only when it runs"
    if flow is not None and any(stage.keyed for stage in flow.stages):
        return "mvps", f"tables can be run one after the other, in {len(flow.waves)} wave(s) and in shards by key"
    groups = program.cyclic_tables
    if groups:
        together = "; ".join(" and ".join(group) for group in groups)
        return "one_stage", f"tables depend on each other in a cycle: {together}"
    computed = [s.text for f in program.functions for s in f.sites if s.columns is None]
    if computed and all(len({s.text for s in f.sites}) == 1 for f in program.functions):
        return "one_stage", f"a key is computed, not a column: {', '.join(computed)}"
    return "one_stage", "events touch more than one key"


def _text(program: Program, flow: Dataflow | None) -> list[str]:
    lines = [f"app {program.name}", "", "tables"]
    for table in program.tables:
        key = ", ".join(map(str, table.key))
        keep = keep_of(table)
        fields = ", ".join(f"{f.name}: {f.type}" for f in (entry_fields(table) if keep else table.fields))
        fields += f"; a history of {keep} entries" if keep else ""
        checks = f"; checks: {', '.join(table.checks)}" if table.checks else ""
        lines.append(f"  {table.name}[{key}]  {fields}{checks}")
    lines += ["", "functions"]
    if program.compiled:
        for function in program.functions:
            lines += _function(function)
    else:
        assert program.spec is not None
        for members in program.spec.transactions:
            lines.append(f"  {members[0].transaction} on {members[0].event}")
            if members[0].group is not None:
                lines.append(f"    one transaction of {', '.join(b.name for b in members)}")
    lines += ["", "table graph (an arrow: the write needs the read)"]
    edges = sorted(program.edges)
    lines += [f"  {program.tables[a].name} -> {program.tables[b].name}" for a, b in edges] or ["  no dependencies"]
    if flow is not None and not program.windows:
        lines += ["", "stages of a replay", *draw.stage_lines(flow)]
    plan, why = plan_of(program, flow)
    lines += ["", "execution", f"  engine: {_engine(program)}", *_isolation(program)]
    lines += [f"  most parallel plan on Spark: {plan}", f"    because {why}"]
    lines.append("    a replay of files is fused into one task where moving events costs more than running them")
    return lines


def _engine(program: Program) -> str:
    if program.compiled:
        return "serial, compiled to native code, or parallel: auto chooses for each batch"
    return f"interpreted (Python speed), because {program.why_interpreted[0]}"


def _isolation(program: Program) -> list[str]:
    """What is not in event order, and what has a protocol of its own."""
    lines: dict[str, list[str]] = {}
    for function in program.functions:
        if (function.isolation, function.protocol) != (EVENT_ORDER, PROTOCOLS[0]):
            lines.setdefault(f"{function.isolation}, protocol {function.protocol}", []).append(function.name)
    return [f"  isolation: {level} for {', '.join(names)}" for level, names in lines.items()]


def _function(function: Function) -> list[str]:
    found = function.dependencies
    lines = [f"  {function.name}({function.event})  {function.file}:{function.line}"]
    if function.group:
        lines.append(f"    one transaction of {', '.join(function.members)}")
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
    """Without knowledge of what functions touch."""
    lines = ["flowchart LR"]
    lines += [f'  e{k}(["{e.name}"])' for k, e in enumerate(program.events)]
    lines += [f'  t{i}[("{t.name}")]' for i, t in enumerate(program.tables)]
    for i, (kind, name) in enumerate(program.bindings):
        lines += [f'  f{i}["{name}"]', f"  e{kind} --> f{i}"]
    return lines
