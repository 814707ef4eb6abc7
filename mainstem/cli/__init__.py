"""The `mainstem` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line; the entry point of the `mainstem` script."""
    try:
        from mainstem.cli.commands import cli  # here, because importing the library takes a moment

        cli(prog_name="mainstem")
    except KeyboardInterrupt:  # outside of a command, which says so itself
        sys.stderr.write("interrupted\n")
        sys.exit(130)
