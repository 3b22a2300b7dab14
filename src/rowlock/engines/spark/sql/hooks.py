"""Puts Rowlock's parser and rules into a session, and into those that are made from it.

New sessions get them from Spark's own extension points.  The session that is there has built its analyzer already: its lists of
rules are fields, which are set by reflection.  Everything is looked up before anything is changed.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from rowlock.engines.spark.catalyst.bridge import catalyst
from rowlock.engines.spark.sql.compiled import Classes
from rowlock.exceptions import UnsupportedFeature

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
