"""Enables Rowlock on a session: refuses what it cannot do, loads the classes, connects Python, installs the rules."""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql import SparkSession

from rowlock.engines.spark.catalyst.bridge import catalyst
from rowlock.engines.spark.sql import hooks
from rowlock.engines.spark.sql.callback import Answers, Callback, connect
from rowlock.engines.spark.sql.commands import HARMLESS
from rowlock.engines.spark.sql.compiled import Classes
from rowlock.exceptions import UnsupportedFeature

TRIED_ON = "4.2."
"""The version of Spark whose commands were looked at one by one."""
_connected: dict[int, Callback] = {}


def enable(spark: SparkSession, answers: Answers) -> None:
    """Changes the session for as long as it lives.  Raises UnsupportedFeature before anything is changed."""
    jvm: Any = catalyst(spark).jvm
    if not spark.version.startswith(TRIED_ON):
        _refused(f"it was tried on Spark {TRIED_ON}x only, and this is {spark.version}")
    if type(spark.sparkContext._gateway).__name__ != "ClientServer":
        _refused("it needs a JVM thread for each thread of Python, and PYSPARK_PIN_THREAD is false")
    if str(spark.conf.get("spark.sql.analyzer.singlePassResolver.enabled", "false")).lower() == "true":
        _refused("Spark's single-pass analyzer (spark.sql.analyzer.singlePassResolver.enabled) passes the rules by")
    classes = Classes(spark)
    if classes.has("io.delta.sql.DeltaSparkSessionExtension"):
        _refused("delta-spark's JAR is on its class path, whose commands and format name would meet Rowlock's")
    if hooks.is_enabled(spark):
        return
    classes.load()
    key = id(jvm)
    if key not in _connected:
        _connected.clear()
        _connected[key] = connect(spark, classes, answers, HARMLESS)
    _connected[key].know(spark)
    hooks.install(spark, classes)


def _refused(why: str) -> NoReturn:
    raise UnsupportedFeature(
        f"rowlock.enable cannot work on this session: {why}. Use rowlock.sql(spark, text), rowlock.DeltaTable and rowlock.write there",
        feature="rowlock.enable",
        access="write",
    )
