"""Source of the serial kernel: one thread, one transaction after the other, in order."""

from __future__ import annotations

from mainstem.lang.emit import INTERNAL, Body, transaction_parameters

# Parameters of a transaction that the kernel itself provides.
_LOCAL = ("j", "p", "t")


def kernel_name(body: Body, name: str) -> str:
    """The kernel-wide name of a transaction's parameter: columns belong to an event type, row numbers to a function."""
    role, _, field = name.partition("_")
    if role in ("x", "ok", "off"):
        return f"{role}{body.kind}_{field}"
    if name[0] == "R":
        return f"R{body.index}_{name[1:]}"
    return name


def serial_parameters(bodies: list[Body], kinds: int) -> list[str]:
    names = ["begin", "kind", "mark", "S", "code", "ret", "changed", *(f"pos{k}" for k in range(kinds))]
    for body in bodies:
        names += [kernel_name(body, n) for n in transaction_parameters(body) if n not in _LOCAL]
        names += [n for i in body.written for n in (f"M{i}", f"L{i}")]
    return list(dict.fromkeys(names))


# Places in `begin`: events from the first to the end, the number of the first one's first transaction, how many of its
# functions have run, and per event type the number of the first event.
FIRST, END, TRANSACTION, DONE, EVENTS = 0, 1, 2, 3, 4


def serial_source(bodies: list[Body], kinds: int) -> list[str]:
    """Runs the events that `begin` names. Where a transaction gives `INTERNAL`, the kernel stops before it: `begin`
    then says where to go on."""
    parameters = serial_parameters(bodies, kinds)
    written = sorted({i for b in bodies for i in b.written})
    noted = [f"changed[{i}] = n{i}" for i in written]
    stop = [f"begin[{EVENTS + k}] = j{k}" for k in range(kinds)] + noted + ["return"]
    lines = ["@kernel", f"def serial({', '.join(parameters)}):", f"    t = begin[{TRANSACTION}]"]
    lines += [f"    j{k} = begin[{EVENTS + k}]" for k in range(kinds)]
    lines += [f"    n{i} = changed[{i}]" for i in written]
    lines += [f"    done = begin[{DONE}]", f"    for i in range(begin[{FIRST}], begin[{END}]):"]
    for k in range(kinds):
        lines.append(f"        {'if' if k == 0 else 'elif'} kind[i] == {k}:")
        lines += ["            " + line for line in _event([b for b in bodies if b.kind == k], stop)]
        lines.append(f"            j{k} += 1")
    lines += ["        done = 0", f"    begin[{FIRST}] = begin[{END}]", *("    " + line for line in noted)]
    return lines


def _event(bodies: list[Body], stop: list[str]) -> list[str]:
    """Runs one event; the functions that had run when the kernel stopped are left out."""
    lines = []
    for number, body in enumerate(bodies):
        one = _one(body, [f"begin[{FIRST}], begin[{TRANSACTION}], begin[{DONE}] = i, t, {number}", *stop])
        if len(bodies) > 1 and any(b.computes_keys for b in bodies):
            lines += [f"if done <= {number}:", *("    " + line for line in one)]
        else:
            lines += one
    return lines


def _one(body: Body, stop: list[str]) -> list[str]:
    """Runs one transaction: undo on abort, note the changed rows on commit (when `mark` asks for it)."""
    provided = {"j": f"j{body.kind}", "p": f"pos{body.kind}[j{body.kind}]", "t": "t"}
    arguments = [provided.get(n, kernel_name(body, n)) for n in transaction_parameters(body)]
    counts = [f"u{i}" for i in body.written]
    lines = [
        "code[t] = ret[t] = 0",
        f"c, {', '.join(counts) or '_'} = txn_{body.index}({', '.join(arguments)})",
        "if c != 0:",
        "    ret[t] = 0",
    ]
    for i in body.undone:
        lines += [f"    for q in range(u{i} - 1, -1, -1):", f"        T{i}[V{i}[q]] = U{i}[q]"]
    if body.computes_keys:
        lines += [f"    if c == {INTERNAL}:", *("        " + line for line in stop)]
    lines.append("    code[t] = c")
    if counts:
        lines.append("elif mark > 0:")
    for i in body.written:
        lines += [
            f"    for q in range(u{i}):",
            f"        r = V{i}[q]",
            f"        if M{i}[r] != mark:",
            f"            M{i}[r] = mark",
            f"            L{i}[n{i}] = r",
            f"            n{i} += 1",
        ]
    return [*lines, "t += 1"]
