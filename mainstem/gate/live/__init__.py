"""The live gate: sorted inputs that grow while they are read, from several threads."""

from __future__ import annotations

from mainstem.gate.live.gate import Gate

__all__ = ["Gate"]
