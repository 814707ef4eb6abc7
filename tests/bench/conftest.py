"""Benchmarks without compiling: their figures mean nothing then, but everything else is the same."""

from __future__ import annotations

from functools import partial

import pytest

from mainstem.bench import engines
from mainstem.engine import auto, make_executor


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain Python, and nothing is measured on this machine beforehand."""
    monkeypatch.setattr(engines, "make_executor", partial(make_executor, jit=False))
    monkeypatch.setattr(engines, "calibrate", lambda threads: None)
    monkeypatch.setattr(auto, "known_costs", lambda threads: None)
