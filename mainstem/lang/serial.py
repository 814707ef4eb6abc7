"""Source of the serial kernel: one thread, one transaction after the other, in order."""

from __future__ import annotations

from mainstem.lang.emit import Body, transaction_parameters

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


def serial_source(bodies: list[Body], kinds: int) -> list[str]:
    """Runs the events `begin[0]` to `begin[1]`.

    `begin` goes on with the number of their first transaction and, per event type, of their first event.
    """
    parameters = serial_parameters(bodies, kinds)
    written = sorted({i for b in bodies for i in b.written})
    lines = ["@kernel", f"def serial({', '.join(parameters)}):", "    t = begin[2]"]
    lines += [f"    j{k} = begin[{3 + k}]" for k in range(kinds)]
    lines += [f"    n{i} = changed[{i}]" for i in written]
    lines.append("    for i in range(begin[0], begin[1]):")
    for k in range(kinds):
        lines.append(f"        {'if' if k == 0 else 'elif'} kind[i] == {k}:")
        for body in (b for b in bodies if b.kind == k):
            lines += ["            " + line for line in _one(body)]
        lines.append(f"            j{k} += 1")
    lines += [f"    changed[{i}] = n{i}" for i in written]
    return lines


def _one(body: Body) -> list[str]:
    """Runs one transaction: undo on abort, note the changed rows on commit (when `mark` asks for it)."""
    provided = {"j": f"j{body.kind}", "p": f"pos{body.kind}[j{body.kind}]", "t": "t"}
    arguments = [provided.get(n, kernel_name(body, n)) for n in transaction_parameters(body)]
    counts = [f"u{i}" for i in body.written]
    lines = [
        "ret[t] = 0",
        f"c, {', '.join(counts) or '_'} = txn_{body.index}({', '.join(arguments)})",
        "code[t] = c",
        "if c != 0:",
        "    ret[t] = 0",
    ]
    for i in body.undone:
        lines += [f"    for q in range(u{i} - 1, -1, -1):", f"        T{i}[V{i}[q]] = U{i}[q]"]
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
