"""Spark's types, for annotations elsewhere: only this folder imports pyspark."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["DataFrame", "SparkSession", "StreamingQuery"]
