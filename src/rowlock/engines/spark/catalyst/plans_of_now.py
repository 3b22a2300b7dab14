"""DataFrames whose scans name a table and no files (`Scan` in sql/scans.java): gives them the files of this moment, and lets Spark's cached rows go."""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rowlock.engines.spark.catalyst.bridge import catalyst

logger = logging.getLogger("rowlock")


def frame_of_now(frame: DataFrame) -> DataFrame:
    """The DataFrame at the versions of this moment, which it keeps from then on: the same rows however often it is read.  Rows that Spark has cached stay those."""
    bridge = catalyst(frame.sparkSession)
    plan = None if bridge.scans is None else bridge.scans.pinned(frame._jdf)
    return frame if plan is None else bridge.dataframe(plan, frame.sparkSession)


def refresh_cached(spark: SparkSession, folder: str) -> None:
    """Lets Spark compute anew what it has cached of the table in `folder`, when it is asked for it: another version was committed.

    Never raises, for the commit stands: what cannot be computed any more, since its columns are gone, Spark drops from its cache.
    """
    try:
        shared: Any = spark._jsparkSession.sharedState()
        if not shared.cacheManager().isEmpty():
            shared.cacheManager().recacheByPath(spark._jsparkSession, folder)
    except Exception as e:  # noqa: BLE001 - such as a session that was stopped meanwhile
        logger.info("what Spark has cached of %s could not be refreshed: %s", folder, e)
