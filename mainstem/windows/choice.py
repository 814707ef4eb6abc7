"""Names of the operators that compute windows."""

from __future__ import annotations

from mainstem.errors import ProgramError

AUTO, PANES = "auto", "panes"
WHOLE_INPUTS = ("mq", "mq_lf", "tuml_sc", "tuml_mc", "wiml")
"""Those of the literature: threads that have whole inputs to work on."""


def check_streaming(window: str, operator: object) -> None:
    """An app gets its events batch by batch, which only `panes` can take."""
    if operator in (AUTO, PANES):
        return
    if operator in WHOLE_INPUTS:
        raise ProgramError(
            f"window {window}: operator={operator!r} works on whole inputs, and an app gets its events batch by batch",
            remedy=f"leave operator= out, or compute the window from tables: {window}.aggregate(tables, "
            f"operator={operator!r})",
        )
    raise unknown(operator)


def unknown(operator: object) -> ProgramError:
    names = ", ".join((*WHOLE_INPUTS, PANES, AUTO))
    return ProgramError(f"there is no operator {operator!r}", remedy=f"choose one of {names}, or leave it out")
