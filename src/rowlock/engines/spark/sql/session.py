"""Enables Rowlock on a session: refuses what it cannot do, loads the classes, connects Python, and puts the parser and the rules into it.

Sessions that are made from it get them from Spark's own extension points.  The session that is there has built its analyzer already: its lists of
rules are fields, which are set by reflection.  Everything is looked up before anything is changed.
"""

from __future__ import annotations

import logging
from typing import Any, NoReturn

from pyspark.sql import SparkSession

from rowlock.engines.spark.catalyst.bridge import catalyst
from rowlock.engines.spark.catalyst.versions import VERSIONS, Version, version_of
from rowlock.engines.spark.session.delta_spark_programs import SERVES, drop_catalog, has_delta_spark
from rowlock.engines.spark.sql.callback import Answers, Callback, connect
from rowlock.engines.spark.sql.commands import HARMLESS
from rowlock.engines.spark.sql.compiled import Classes
from rowlock.exceptions import InvalidInput, UnsupportedFeature

_injected: dict[int, Any] = {}
"""The extensions that have the rules already, by their identity; kept, so that no other object gets the same one."""


def is_enabled(spark: SparkSession) -> bool:
    """Whether the session's parser is Rowlock's, and with it its rules."""
    return catalyst(spark).scans is not None and str(spark._jsparkSession.sessionState().sqlParser().getClass().getName()) == "rowlock.Parser"


def install(spark: SparkSession, classes: Classes) -> None:
    """Changes the session and all that are made from it later.  Raises UnsupportedFeature where this Spark is built otherwise, before anything is changed."""
    session: Any = spark._jsparkSession
    jvm: Any = spark._jvm
    state, bridge = session.sessionState(), catalyst(spark)
    analyzer = state.analyzer()
    parser = _field(state.getClass(), "sqlParser")
    lists = [
        (_field(analyzer.getClass(), "hintResolutionRules"), "MakeStatements", True),
        (_field(analyzer.getClass(), "extendedResolutionRules"), "MakeReading", False),
        (_field(analyzer.getClass(), "extendedCheckRules"), "MakeGuard", True),
    ]
    extensions = session.extensions()
    identity = int(jvm.java.lang.System.identityHashCode(extensions))
    if identity not in _injected:
        extensions.injectCheckRule(classes.new("MakeGuard"))  # the guard first: whatever fails after it, nothing passes by it
        extensions.injectHintResolutionRule(classes.new("MakeStatements"))
        extensions.injectResolutionRule(classes.new("MakeReading"))
        extensions.injectOptimizerRule(classes.new("MakeFollow"))  # Spark asks for these with each query, on the session that is there, too
        extensions.injectParser(classes.new("MakeParser"))
        _injected[identity] = extensions
    for field, maker, first in reversed(lists):
        rules, own = bridge.list(field.get(analyzer)), classes.new(maker).apply(session)
        field.set(analyzer, bridge.seq([own, *rules] if first else [*rules, own]))
    parser.set(state, classes.new("MakeParser").apply(session, state.sqlParser()))


def _field(kind: Any, name: str) -> Any:
    """A field of a class or of one above it, made accessible."""
    looked: Any = kind
    while looked is not None:
        for field in looked.getDeclaredFields():
            if str(field.getName()) == name:
                field.setAccessible(True)
                return field
        looked = looked.getSuperclass()
    raise UnsupportedFeature(
        f"This Spark has no {name} in {kind.getName()}, so rowlock.enable cannot work on this session: use rowlock.sql(spark, text)",
        feature="rowlock.enable",
        access="write",
    )


_INSTEAD = "Use rowlock.sql(spark, text), rowlock.DeltaTable and rowlock.write there"
_LOGGER = logging.getLogger("rowlock")
_beside: set[int] = set()
"""The JVMs in which delta-spark is."""
_connected: dict[int, Callback] = {}


def enable(spark: SparkSession, answers: Answers) -> None:
    """Changes the session for as long as it lives.  Raises UnsupportedFeature before anything is changed."""
    version = _check_session(spark, "rowlock.enable", _INSTEAD)
    if str(spark.conf.get("spark.sql.analyzer.singlePassResolver.enabled", "false")).lower() == "true":
        _refused("rowlock.enable", _INSTEAD, "Spark's single-pass analyzer (spark.sql.analyzer.singlePassResolver.enabled) passes the rules by")
    classes = Classes(spark)
    beside = has_delta_spark(catalyst(spark).jvm)
    left_out = [] if beside else drop_catalog(spark)
    if beside:
        _beside.add(id(catalyst(spark).jvm))
        serves_delta(spark)
    if is_enabled(spark):
        return
    classes.load("streams", "scans", *version.sources, "rowlock-beside" if beside else "rowlock")
    _connect(spark, classes, answers)
    catalyst(spark).scans = catalyst(spark).jvm.rowlock.Scans
    install(spark, classes)
    _log_who_serves(spark, beside, left_out)


def _log_who_serves(spark: SparkSession, beside: bool, left_out: list[str]) -> None:
    """One line: who serves Delta tables on the session that was just enabled."""
    if left_out:
        _LOGGER.warning("rowlock.enable: the class path lacks delta-spark, so %s is left out; Rowlock serves Delta tables on this session", left_out[0])
    elif beside and not serves_delta(spark):
        _LOGGER.warning(
            "rowlock.enable: delta-spark's JAR serves Delta tables on this session, Rowlock what names rowlock; set %s=rowlock to give it all", SERVES
        )
    else:
        _LOGGER.info("rowlock.enable: Rowlock serves Delta tables on this session")


def serves_delta(spark: SparkSession) -> bool:
    """Whether Delta tables are Rowlock's on an enabled session: beside delta-spark's JAR where the setting SERVES says so, else always.  Raises InvalidInput."""
    if id(catalyst(spark).jvm) not in _beside:
        return True
    said = str(spark.conf.get(SERVES, "delta-spark")).lower()
    if said not in ("delta-spark", "rowlock"):
        raise InvalidInput(f"{SERVES} is delta-spark or rowlock, not {said!r}")
    return said == "rowlock"


def stream_source(spark: SparkSession, answers: Answers) -> str:
    """The name by which a session reads Delta tables as streams, on one that is not enabled too.  Raises UnsupportedFeature where it cannot."""
    _check_session(spark, "rowlock.streaming.read", "Let another engine read the stream there")
    classes = Classes(spark)
    classes.load("streams")
    _connect(spark, classes, answers)
    return "rowlock.StreamTable"


def _connect(spark: SparkSession, classes: Classes, answers: Answers) -> None:
    """Connects the classes with Python, once for each JVM."""
    key = id(catalyst(spark).jvm)
    if key not in _connected:
        _connected.clear()
        _connected[key] = connect(spark, classes, answers, HARMLESS)
    _connected[key].know(spark)


def _check_session(spark: SparkSession, name: str, instead: str) -> Version:
    """What is known of the session's version of Spark.  Raises UnsupportedFeature where Rowlock's classes cannot work on the session."""
    version = version_of(spark.version)
    if version is None:
        _refused(name, instead, f"it knows the commands of Spark {', '.join(VERSIONS)}, and this is {spark.version}")
    if type(spark.sparkContext._gateway).__name__ != "ClientServer":
        _refused(name, instead, "it needs a JVM thread for each thread of Python, and PYSPARK_PIN_THREAD is false")
    return version


def _refused(name: str, instead: str, why: str) -> NoReturn:
    raise UnsupportedFeature(f"{name} cannot work on this session: {why}. {instead}", feature=name, access="write")
