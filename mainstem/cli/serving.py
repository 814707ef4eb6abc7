"""`mainstem serve`: queries over HTTP."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from mainstem.cli.view import err, guarded, out
from mainstem.errors import InputError

NEEDED = ("httptools", "uvloop")


@guarded
def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of durable state.")],
    host: Annotated[str, typer.Option("--host", help="Address to listen on; others than loopback need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="0: any free one.")] = 8642,
    token: Annotated[
        str | None, typer.Option("--token", envvar="MAINSTEM_TOKEN", help="What clients must send; else made up.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Print a line per request.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds that a query may take.")] = 30.0,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows that an answer may have.")] = 100_000,
) -> None:
    """Answer read-only queries over HTTP, from the last committed state, also while a program writes to it.

    $ mainstem serve bank/
    $ MAINSTEM_TOKEN=… mainstem serve bank/ --host 0.0.0.0 --port 80 --log
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"mainstem serve needs {' and '.join(missing)}: pip install 'mainstem[serve]'")
    from mainstem.serve import Limits, Running
    from mainstem.serve import serve as run

    def ready(running: Running) -> None:
        out.print(f"serving {folder} at {running.url} (Ctrl-C ends it)", markup=False, soft_wrap=True)
        if token is None:
            out.print(f"token: {running.token}", markup=False, soft_wrap=True)
        shown = "$MAINSTEM_TOKEN" if token is not None else running.token
        out.print(f'try: curl -H "Authorization: Bearer {shown}" {running.url}/v1/status', markup=False, soft_wrap=True)

    def note(line: str) -> None:
        err.print(line, markup=False, soft_wrap=True)

    limits = Limits(query_seconds=timeout, rows=rows)
    run(folder, host=host, port=port, token=token, limits=limits, log=note if log else None, ready=ready)
    out.print("ended")
