"""Helpers for testing programs and engines: random programs and streams, exact comparison of runs, histories."""

from __future__ import annotations

from mainstem.testing.cases import Case, generate_case, streamed
from mainstem.testing.compare import Outcome, assert_same
from mainstem.testing.histories import Anomaly, Report, check_history
from mainstem.testing.model import Knobs
from mainstem.testing.programs import generate_program, load_program
from mainstem.testing.streams import Event, Stream, generate_events

__all__ = [
    "Anomaly",
    "Case",
    "Event",
    "Knobs",
    "Outcome",
    "Report",
    "Stream",
    "assert_same",
    "check_history",
    "generate_case",
    "generate_events",
    "generate_program",
    "load_program",
    "streamed",
]
