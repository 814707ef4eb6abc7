"""Isolation levels and protocols as the `bank` benchmark runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Level:
    isolation: str
    protocol: str

    @property
    def label(self) -> str:
        return "event order" if self.protocol == "auto" else f"{self.isolation} {self.protocol}"

    @property
    def serial(self) -> bool:
        """Whether it promises the result of some serial order."""
        return self.isolation in ("PL3", "PL4")

    @property
    def in_order(self) -> bool:
        """Whether it promises the result of event order."""
        return self.isolation == "PL4"

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `app.run`."""
        return {"isolation": self.isolation, "protocol": self.protocol}


EVENT_ORDER = Level("PL4", "auto")
"""The default: event order by the engine's strategies."""

PL3_TIMESTAMP = Level("PL3", "timestamp")
"""TSpoon's own default."""

LEVELS = (
    *(Level(f"PL{number}", protocol) for number in (1, 2, 3, 4) for protocol in ("lock", "timestamp")),
    EVENT_ORDER,
)
SWEPT = tuple(level for level in LEVELS if level.isolation != "PL1")
"""Those of TSpoon's figures."""
