"""The Spark session of tests, for pytest and for what runs outside of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tests start JVMs for small work: the second compiler costs them more than it gives, and so does a collector with threads of its own.  With one
# compiler the JVM keeps 48 MB of compiled code, which half a run fills: from then on it throws away and compiles again what the next test needs.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:MetaspaceSize=512m")


def delta_session(name: str, more: Mapping[str, str] | None = None) -> SparkSession:
    """One local session with delta-spark in it: two cores, UTC, a small heap.  It is named `name`, and has `more` settings."""
    from delta import configure_spark_with_delta_pip

    from rowlock.engines.spark.session.java import resolving

    settings = _settings(name) | {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.databricks.delta.delta.log.cacheSize": "20",  # else delta-spark keeps the snapshot of every test's table
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    }
    if jars := _downloaded():
        return _started(_builder(settings | {"spark.jars": ",".join(jars)} | dict(more or {})))
    with resolving({"spark.jars.packages": "delta-spark"}):
        return _started(configure_spark_with_delta_pip(_builder(settings | dict(more or {}))))


def _downloaded() -> list[str]:
    """delta-spark's JARs where an earlier session has downloaded them: to resolve them again, with 28 others that Spark brings itself, takes Ivy a second."""
    spark, delta = ".".join(version("pyspark").split(".")[:2]), version("delta-spark")
    names = (f"delta-spark_{spark}_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults", "delta-kernel-unitycatalog")
    jars = [Path.home() / ".ivy2.5.2" / "jars" / f"io.delta_{name}-{delta}.jar" for name in names]
    return [str(jar) for jar in jars] if all(jar.exists() for jar in jars) else []


def session_without_delta_spark(name: str, more: Mapping[str, str] | None = None) -> SparkSession:
    """The same session without delta-spark."""
    return _started(_builder(_settings(name) | dict(more or {})))


def _settings(name: str) -> dict[str, str]:
    from rowlock.engines.spark.session.java import ensure_java
    from rowlock.engines.spark.session.session import local_settings

    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = local_settings(cores=2, memory_mb=1536)
    # A heap that grows as it fills is collected as a whole again and again.  Spark runs `chmod` for each file and folder that it makes: VFORK does it at once.
    settings["spark.driver.extraJavaOptions"] += " -Xms1536m -Xmn512m -Djdk.lang.Process.launchMechanism=VFORK"
    settings |= {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # else VACUUM is a job of 10,000 tasks
        "spark.sql.ui.retainedExecutions": "20",
        "spark.sql.ui.explainMode": "simple",  # each query is described for a page that nobody opens
        # For each broadcast 4 MB are made, and 16 for each sort or hash table: a third of all that the collector had to look through.
        "spark.broadcast.blockSize": "128k",
        "spark.buffer.pageSize": "2m",
        "spark.sql.icu.caseMappings.enabled": "false",  # the first `upper` of a JVM would look at every character that there is
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # five round trips for each operator of a column, to say where it was written
        "spark.app.name": name,
    }
    return settings | without_generated_code()


def without_generated_code() -> dict[str, str]:
    """The settings of a session in `make test`: compiling an expression takes longer than evaluating it for a few rows."""
    asked = os.environ.get("ROWLOCK_GENERATED_CODE") == "no"
    return {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"} if asked else {}


def _builder(settings: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def _started(builder: Any) -> SparkSession:
    from py4j.java_gateway import java_import

    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for name in ("PythonRDD", "SerDeUtil", "SimplePythonFunction"):  # createDataFrame asks for them by these names, which are looked for in 300 JARs otherwise
        java_import(session._jvm, f"org.apache.spark.api.python.{name}")
    return session
