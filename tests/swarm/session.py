"""A Spark session for runs outside of pytest, as conftest.py makes it but without delta-spark."""

from __future__ import annotations

import os
import sys
from typing import Any


def spark_session() -> Any:
    """One local session of two cores."""
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    import rowlock

    spark = rowlock.spark(cores=2, memory_mb=1536)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return spark
