"""Structures that threads share without locks, as int64 arrays, and the loops on them."""

from __future__ import annotations
