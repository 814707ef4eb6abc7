"""Consistent read-only queries over HTTP: `mainstem serve dir/`. Needs the extra `serve`."""

from mainstem.serve.limits import Limits
from mainstem.serve.server import DEFAULT_HOST, DEFAULT_PORT, Running, serve, serving

__all__ = ["DEFAULT_HOST", "DEFAULT_PORT", "Limits", "Running", "serve", "serving"]
