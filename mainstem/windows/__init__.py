"""Windows: closed ones become events of their own, right before the first event that is not in them."""

from mainstem.windows.aggregates import Aggregate
from mainstem.windows.stream import WINDOWS, Operators, PlainOperators, open_windowed
from mainstem.windows.window import Closed, Window, window_of

__all__ = ["WINDOWS", "Aggregate", "Closed", "Operators", "PlainOperators", "Window", "open_windowed", "window_of"]
