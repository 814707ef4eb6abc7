"""What TSpoon's evaluation reports, to stand beside what is measured here.

Its setting: 20 virtual machines with 50 cores and 184 GB in all, 100,000 accounts in 50 partitions. Throughput is the
largest rate at which latency stays below 20 times that of the unloaded system; latency is the mean when transfers are
sent one at a time. Values that the text states are exact, those with ≈ are read from a figure's description.
"""

from __future__ import annotations

SETTING = "TSpoon's figures: 20 virtual machines, 50 cores; PL3 unless a line says otherwise."

TABLE_1 = (
    ("TSpoon, PL3 timestamp, 50 cores", 8_580, 3.57e-3),
    ("Flink, no transactions, 50 cores", 59_609, 0.6e-3),
    ("VoltDB, serializable, 40 partitions", 344, 4.62e-3),
)
"""System, transfers per second, seconds of latency."""

LEVELS = (
    "Figure 7: PL2 and PL3 about alike, 8,580/s at PL3 timestamp; PL4 2,280/s (lock) and 3,100/s (timestamp), 7.5 ms."
)
CHAINED = (
    "Figure 8: falls with each table, less in one group than in several; below 30 ms in one group, 80 ms in several."
)
PARALLEL = "Figure 9: one group ≈ 8,000/s to below 2,500/s from 1 to 8 tables, PL4 flat; several groups flat."
KEYS = (
    "Figure 10: lock hardly falls down to 100 keys; timestamp PL2 8,900/s to below 6,200/s, PL3 and PL4 below 1,000/s."
)
QUERIES = "Figure 11: 53,900 queries/s of one key, 890/s of 1,000 keys, beside 1,000 transfers/s; 1 to 10 ms."
QUERY_ONE_KEY = 53_900
OVERHEAD = "Figure 12: falls with work per update from 1 ms on, flat after 15 ms; latency linear, below 50 ms at 30 ms."
ABORTS = "Figure 13: no visible difference from 0 to 50 % aborts."
DURABILITY = "Section 5.5.7: 8,350/s without and 5,448/s with the log (PL3 lock)."
RECOVERY = "Figure 14: 3.5 s for 60,000 logged transactions, 32 s for 600,000."
CORES = "Figure 15: 544/s on 1 core, 6,436/s on 16, 8,866/s on 48."
