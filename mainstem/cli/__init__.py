"""The `mainstem` command."""

from __future__ import annotations


def main() -> None:
    """Runs the command line; the entry point of the `mainstem` script."""
    from mainstem.cli.commands import cli  # here, because importing the library takes a moment

    cli(prog_name="mainstem")
