"""Backtesting: what would another rule have done to last month's log? From raw Parquet to a plot.

Run it with `python examples/backtest.py`; it needs the extras spark and plot.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import mainstem as ms
from mainstem.apps import spam
from mainstem.spark import local_session


def main(folder: Path) -> None:
    spam.write_log(folder / "log", 50_000, users=2_000)  # in real life, the log is there already
    old, new = ms.variants(spam.app, SPAM_SHARE=[0.2, 0.4])
    spark = local_session(2)
    replays = spam.app.replay(spark, folder / "log", variants=[old, new], out=folder / "out")

    changed = replays.changes(old.name, new.name).toPandas()
    print(f"{len(changed):,} messages would have been treated otherwise, for example")
    print(changed[["ts", "seq", "spam_before", "spam_after"]].head(3).to_string(index=False))

    for name in replays:
        caught = replays[name].where("spam").select("ts").toPandas()
        plt.hist(caught["ts"], bins=40, histtype="step", label=name)
    plt.xlabel("ts"), plt.ylabel("messages caught"), plt.legend()
    plt.savefig("backtest.png")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
