"""Why an event committed or aborted, found by running its log again; nothing is kept for it while a log runs."""

from mainstem.why.log import Log
from mainstem.why.report import Condition, Dependency, Outcome, Read, Why

__all__ = ["Condition", "Dependency", "Log", "Outcome", "Read", "Why"]
