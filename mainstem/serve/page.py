"""The page at `/`: the OpenAPI document for the eye, without scripts and without anything from elsewhere."""

from __future__ import annotations

import html
import re
from typing import Any

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222;
       background: #fff }
code, pre { font: 14px/1.4 ui-monospace, monospace; background: #f3f4f6; border-radius: 4px }
code { padding: .1em .3em } pre { padding: .8em; overflow-x: auto }
h2 { border-top: 1px solid #ddd; padding-top: 1rem; font-size: 1.1rem } h2 b { color: #0a6847 }
table { border-collapse: collapse; width: 100% }
td { border-top: 1px solid #eee; padding: .3em .6em; vertical-align: top }
td:first-child { white-space: nowrap; width: 12rem }
@media (prefers-color-scheme: dark) { body { background: #16181d; color: #ddd } code, pre { background: #262a33 }
  h2, td { border-color: #333 } h2 b { color: #5fd3a4 } }
"""


def render(document: dict[str, Any], url: str) -> bytes:
    """HTML of an OpenAPI document; `url`: where the server is."""
    info = document["info"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{_text(info['title'])}</title><style>{_STYLE}</style>",
        f"<h1>{_text(info['title'])} <small>{_text(info['version'])}</small></h1><p>{_marked(info['description'])}",
        f"<pre>curl -H 'Authorization: Bearer TOKEN' {_text(url)}/v1/status</pre>",
        "<p>For programs: <a href=/openapi.json>openapi.json</a>",
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parts.append(_operation(method.upper(), path, operation))
    return "\n".join(parts).encode()


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    given = operation.get("parameters", [])
    rows = [(one["name"], f"{one['in']}: {one.get('description', 'required')}") for one in given]
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        fields = ", ".join(f"`{name}`" for name in schema["properties"])
        rows.append(("body", f"JSON object with {fields}"))
    for status, answer in operation["responses"].items():
        kinds = ", ".join(f"`{kind}`" for kind in answer.get("content", {}))
        rows.append((status, f"{answer['description']} {kinds}"))
    cells = "".join(f"<tr><td><code>{_text(name)}</code><td>{_marked(text)}" for name, text in rows)
    summary = _marked(operation["summary"])
    return f"<h2><b>{method}</b> <code>{_text(path)}</code></h2><p>{summary}<table>{cells}</table>"


def _text(text: str) -> str:
    return html.escape(text)


def _marked(text: str) -> str:
    """Text with `code` in it."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
