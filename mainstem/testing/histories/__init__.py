"""Histories of transactions: which isolation level they satisfy, and random ones that satisfy a given one."""

from __future__ import annotations

from mainstem.lang.program import LEVELS
from mainstem.testing.histories.check import check_history
from mainstem.testing.histories.report import Anomaly, Report
from mainstem.testing.histories.schedule import scheduled_history
from mainstem.testing.histories.serial import serial_history

__all__ = ["LEVELS", "Anomaly", "Report", "check_history", "scheduled_history", "serial_history"]
