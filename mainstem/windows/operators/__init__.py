"""The operators that multiway aggregation is measured with: every event is added to each of its windows, by threads.

`mq` and `mq_lf` merge the inputs from one queue each; `tuml_sc` and `tuml_mc` from a T-Gate, with one or several
threads that update windows; `wiml` lets the input threads update them, in a W-Hive. They give what `panes` gives.
"""

from mainstem.windows.choice import PANES
from mainstem.windows.operators.prepare import Prepared, prepare
from mainstem.windows.operators.running import OPERATORS, Timing, aggregate, choice, run, run_threads

__all__ = ["OPERATORS", "PANES", "Prepared", "Timing", "aggregate", "choice", "prepare", "run", "run_threads"]
