"""Pictures of a dataflow: text, Mermaid and SVG. Functions hand values from the tables on the left to the right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from mainstem.lang.dataflow import Dataflow, Piece, Stage

# -- text -----------------------------------------------------------------------------------------------------


def stage_lines(flow: Dataflow) -> Iterator[str]:
    """Waves, their stages, what runs there, and which reads and writes force the order."""
    for number, stages in enumerate(flow.waves, 1):
        yield f"  wave {number}"
        for stage in stages:
            yield f"    {_names(flow, stage)}: {_how(stage)}"
            for piece in stage.pieces:
                yield f"      {_what(flow, piece)}"
    yield "  home"
    for piece in flow.homes[0].pieces:
        name, takes = flow.program.functions[piece.function].name, _sources(flow, piece)
        yield f"    {name}: outputs" + (f" from what {takes} hand on" if takes else "")
    order = [e.why for e in flow.edges if e.read != e.written]
    if order:
        yield "  the order comes from"
        yield from (f"    {why}" for why in dict.fromkeys(order))


def _names(flow: Dataflow, stage: Stage) -> str:
    return " and ".join(flow.program.tables[t].name for t in stage.tables)


def _how(stage: Stage) -> str:
    if not stage.keyed:
        return f"one task, because {stage.why}"
    keys = dict.fromkeys(f"({', '.join(piece.key)})" for piece in stage.pieces if piece.key)
    together = f"; together, because {stage.why}" if stage.why else ""
    return f"in shards by {' or '.join(keys)}{together}"


def _what(flow: Dataflow, piece: Piece) -> str:
    function = flow.program.functions[piece.function]
    verb = "runs whole" if piece.exact else "reads for later" if _only_reads(flow, piece) else "runs"
    takes = _sources(flow, piece)
    return f"{function.name} {verb}" + (f", with what {takes} hand on" if takes else "")


def _only_reads(flow: Dataflow, piece: Piece) -> bool:
    local = flow.stages[piece.stage].program.functions[piece.local]
    return not any(site.writes for site in local.sites) and piece.emits_return is None


def _sources(flow: Dataflow, piece: Piece) -> str:
    stages = dict.fromkeys(flow.pieces[carry.producer].stage for carry in piece.given)
    return " and ".join(_names(flow, flow.stages[n]) for n in stages)


# -- Mermaid --------------------------------------------------------------------------------------------------


def mermaid(flow: Dataflow) -> list[str]:
    program, lines = flow.program, ["flowchart LR"]
    lines += [f'  e{k}(["{event.name}"])' for k, event in enumerate(program.events)]
    for number, stages in enumerate(flow.waves, 1):
        lines.append(f'  subgraph w{number}["wave {number}"]')
        for stage in stages:
            shape = '[("{}")]' if stage.keyed else '[/"{}, one task"/]'
            lines.append(f"    s{stage.number}{shape.format(_names(flow, stage))}")
        lines.append("  end")
    lines.append('  home(["outputs"])')
    for link in _links(flow):
        lines.append(f'  {link.source} -->|"{_label(link.label)}"| {link.target}')
    return lines


def _label(text: str) -> str:
    """Names of groups are any text: quotes and line ends would end the label."""
    return " ".join(text.replace("#", "#35;").replace('"', "#quot;").split())


@dataclass(frozen=True)
class _Link:
    source: str
    target: str
    label: str


def _links(flow: Dataflow) -> list[_Link]:
    """Events enter the stages of their functions; values go from stage to stage and home."""
    entering: dict[tuple[str, str], list[str]] = {}
    for piece in flow.pieces:
        name = flow.program.functions[piece.function].name
        target = f"s{piece.stage}" if piece.stage >= 0 else "home"
        if piece.stage >= 0:
            entering.setdefault((f"e{piece.kind}", target), []).append(name)
        for carry in piece.given:
            entering.setdefault((f"s{flow.pieces[carry.producer].stage}", target), []).append(name)
    return [_Link(a, b, ", ".join(dict.fromkeys(names))) for (a, b), names in entering.items()]


# -- SVG ------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 150, 46, 110, 34, 24


@dataclass(frozen=True)
class _Box:
    x: float
    y: float
    title: str
    note: str
    color: str

    @property
    def right(self) -> tuple[float, float]:
        return self.x + _WIDTH, self.y + _HEIGHT / 2

    @property
    def left(self) -> tuple[float, float]:
        return self.x, self.y + _HEIGHT / 2


def svg(flow: Dataflow) -> list[str]:
    """Columns from left to right: events, waves, home."""
    boxes = _boxes(flow)
    width = max(box.x for box in boxes.values()) + _WIDTH + _MARGIN
    height = max(box.y for box in boxes.values()) + _HEIGHT + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="sans-serif" font-size="12">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#666"/></marker></defs>',
        f"<title>{escape(flow.program.name)}</title>",
    ]
    for link in _links(flow):
        lines += _arrow(boxes[link.source], boxes[link.target], link.label)
    for box in boxes.values():
        lines += _rectangle(box)
    return [*lines, "</svg>"]


def _boxes(flow: Dataflow) -> dict[str, _Box]:
    columns: list[list[tuple[str, str, str, str]]] = [
        [(f"e{k}", event.name, "event", "#e8f0fe") for k, event in enumerate(flow.program.events)]
    ]
    for stages in flow.waves:
        shown = [("in shards", "#e6f4ea") if s.keyed else ("one task", "#fce8e6") for s in stages]
        columns.append([(f"s{s.number}", _names(flow, s), *how) for s, how in zip(stages, shown, strict=True)])
    columns.append([("home", "outputs", "one row per transaction", "#fef7e0")])
    tallest = max(len(column) for column in columns)
    boxes = {}
    for at, column in enumerate(columns):
        top = _MARGIN + (tallest - len(column)) * (_HEIGHT + _GAP_Y) / 2
        for place, (key, title, note, color) in enumerate(column):
            x, y = _MARGIN + at * (_WIDTH + _GAP_X), top + place * (_HEIGHT + _GAP_Y)
            boxes[key] = _Box(x, y, title, note, color)
    return boxes


def _rectangle(box: _Box) -> list[str]:
    middle = box.x + _WIDTH / 2
    return [
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{box.color}" '
        'stroke="#888"/>',
        f'<text x="{middle:g}" y="{box.y + 19:g}" text-anchor="middle" font-weight="bold">{escape(box.title)}</text>',
        f'<text x="{middle:g}" y="{box.y + 35:g}" text-anchor="middle" fill="#555">{escape(box.note)}</text>',
    ]


def _arrow(source: _Box, target: _Box, label: str) -> list[str]:
    (x1, y1), (x2, y2) = source.right, target.left
    bend = (x1 + x2) / 2
    return [
        f'<path d="M{x1:g},{y1:g} C{bend:g},{y1:g} {bend:g},{y2:g} {x2:g},{y2:g}" fill="none" stroke="#666" '
        'marker-end="url(#tip)"/>',
        f'<text x="{bend:g}" y="{(y1 + y2) / 2 - 4:g}" text-anchor="middle" fill="#333" font-size="10">'
        f"{escape(label)}</text>",
    ]
