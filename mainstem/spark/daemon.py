"""Spark's Python daemon with Mainstem loaded: every worker that it forks starts with it instead of loading it anew.

Spark ends workers that were idle for a minute. Without this, the next job would spend seconds of every core on imports.
`mainstem.spark.session.configure` names this module as `spark.python.daemon.module`.
"""

from __future__ import annotations

import gc

from pyspark.daemon import manager

import mainstem.spark.mvps_tasks
import mainstem.spark.replay  # noqa: F401  all that tasks of any plan need

if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # what is loaded stays: workers need not look at it again when they collect garbage
    manager()
