"""Applications from the literature, each a short program with a workload generator.

Every module has `app`, `generate`, `write_log`, `initial` and `conserved`. A newcomer reads `ledger.py` first.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from mainstem.errors import ProgramError

APPS = {
    "ledger": "mainstem.apps.ledger",
    "bank": "mainstem.apps.bank",
    "grep_sum": "mainstem.apps.grep_sum",
    "bidding": "mainstem.apps.bidding",
    "toll": "mainstem.apps.toll",
    "ledger_work": "mainstem.apps.ledger_work",
    "spam": "mainstem.apps.spam",
    "fraud": "mainstem.apps.fraud",
    "meters": "mainstem.apps.meters",
    "comments": "mainstem.apps.comments",
}
"""Name -> module. Names only, so that a command line can list them without importing any."""


def load(name: str) -> ModuleType:
    """The module of the app with this name."""
    if name not in APPS:
        raise ProgramError(f"there is no app called {name!r}", remedy=f"choose one of {', '.join(sorted(APPS))}")
    return importlib.import_module(APPS[name])
