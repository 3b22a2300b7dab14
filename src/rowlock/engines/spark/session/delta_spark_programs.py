"""Changes how a program's Spark sessions are made: without delta-spark's JAR, extension and catalog, and enabled as soon as they are there.

A JAR that the class path has anyway (a cluster's image, spark-submit --jars) stays: delta-spark's extension and catalog are kept then, and the setting
`spark.rowlock.delta` gives all Delta tables to Rowlock.  Must never start a session or a JVM by itself.
"""

from __future__ import annotations

import functools
import os
import re
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rowlock.engines.spark.session.java import ensure_java

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

SERVES = "spark.rowlock.delta"
"""The setting of a session that says who serves Delta tables where delta-spark's JAR is on the class path: `delta-spark`, or `rowlock`."""
EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_CATALOG_SETTING = "spark.sql.catalog.spark_catalog"
_MODULE = r"delta-(?:spark|core|storage|connect|contribs|iceberg|hudi)"
_LISTS = {
    "spark.jars.packages": re.compile(rf"io\.delta:{_MODULE}.*"),
    "spark.jars": re.compile(rf"(?:.*/)?{_MODULE}[-_][^/]*\.jar"),
    "spark.submit.pyFiles": re.compile(rf"(?:.*/)?{_MODULE}[-_][^/]*\.jar"),
}
_changing = threading.Lock()


def without_jars(settings: dict[str, str]) -> list[str]:
    """Takes delta-spark's JARs out of settings.  Returns what was left out."""
    left_out: list[str] = []
    for name, theirs in _LISTS.items():
        items = [item.strip() for item in settings.get(name, "").split(",") if item.strip()]
        if found := [item for item in items if theirs.fullmatch(item)]:
            left_out += found
            _set_list(settings, name, [item for item in items if item not in found])
    return left_out


def without_classes(settings: dict[str, str]) -> list[str]:
    """Takes delta-spark's extension and catalog out of settings.  Returns what was left out."""
    left_out: list[str] = []
    extensions = [item.strip() for item in settings.get("spark.sql.extensions", "").split(",") if item.strip()]
    if EXTENSION in extensions:
        left_out.append(EXTENSION)
        _set_list(settings, "spark.sql.extensions", [item for item in extensions if item != EXTENSION])
    if settings.get(_CATALOG_SETTING) == CATALOG:
        left_out.append(CATALOG)
        del settings[_CATALOG_SETTING]
    return left_out


def _set_list(settings: dict[str, str], name: str, items: list[str]) -> None:
    if items:
        settings[name] = ",".join(items)
    else:
        del settings[name]


def has_delta_spark(jvm: Any) -> bool:
    """Whether the JVM's class path has delta-spark."""
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(EXTENSION)
    except Exception:  # noqa: BLE001 - ClassNotFoundException, under whichever name pyspark gives it
        return False
    return True


def drop_catalog(spark: SparkSession) -> list[str]:
    """Takes delta-spark's catalog out of a session whose class path lacks it: every name of a table would fail.  Returns what was left out."""
    if spark.conf.get(_CATALOG_SETTING, "") != CATALOG:
        return []
    spark.conf.unset(_CATALOG_SETTING)
    return [CATALOG, *_clean_context(spark.sparkContext)]


def _clean_context(context: SparkContext) -> list[str]:
    """Takes delta-spark's classes out of the settings that new sessions begin with."""
    conf: Any = context._jsc.sc().conf()
    return _clean(conf, ("spark.sql.extensions", _CATALOG_SETTING), without_classes, conf.remove)


def _clean(conf: Any, names: Iterable[str], without: Callable[[dict[str, str]], list[str]], remove: Callable[[str], object]) -> list[str]:
    """Changes settings of a SparkConf, of Python or of the JVM, as `without` changes them in a dict.  Returns what it left out."""
    before = {name: str(conf.get(name)) for name in names if conf.contains(name)}
    after = dict(before)
    left_out = without(after)
    for name, value in before.items():
        if name not in after:
            remove(name)
        elif after[name] != value:
            conf.set(name, after[name])
    return left_out


def change_sessions(enable: Callable[[SparkSession], object], left_out: Callable[[list[str]], None]) -> None:
    """From now on every context of this process is made without delta-spark's JARs, and every session is given to `enable`.

    Args:
        enable: Called with each new classic session, before the program has it.
        left_out: Called with the JARs, classes and settings that were left out.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

    with _changing:
        if getattr(SparkContext.__init__, "_rowlock", False):
            return
        context_init, session_init, get_or_create = SparkContext.__init__, SparkSession.__init__, SparkSession.Builder.getOrCreate

        @functools.wraps(context_init)
        def make_context(self: SparkContext, *args: Any, **named: Any) -> None:
            ensure_java()
            given = [value for value in (*args, *named.values()) if isinstance(value, SparkConf)]
            conf = given[0] if given else SparkConf()
            if not given:
                named["conf"] = conf
            report = _clean(conf, _LISTS, without_jars, lambda name: conf.set(name, ""))  # a SparkConf of Python forgets no name
            conf.set(SERVES, "rowlock")
            context_init(self, *args, **named)
            if not has_delta_spark(self._jvm):
                report += _clean_context(self)
            left_out(report)

        @functools.wraps(get_or_create)
        def make_session(self: SparkSession.Builder) -> SparkSession:
            if "spark.remote" not in self._options and not _is_remote():
                report = without_jars(self._options)
                context = SparkContext._active_spark_context
                if context is None:
                    conf = SparkConf()
                    for name, value in self._options.items():
                        conf.set(name, value)
                    context = SparkContext.getOrCreate(conf)
                if not has_delta_spark(context._jvm):
                    report += without_classes(self._options)
                left_out(report)
            return get_or_create(self)

        @functools.wraps(session_init)
        def init_session(self: SparkSession, sparkContext: SparkContext, jsparkSession: Any = None, options: Any = None) -> None:
            session_init(self, sparkContext, jsparkSession, options or {})
            if jsparkSession is None:
                enable(self)

        make_context._rowlock = True  # type: ignore[attr-defined]
        SparkContext.__init__ = make_context  # type: ignore[method-assign]
        SparkSession.Builder.getOrCreate = make_session  # type: ignore[method-assign]
        SparkSession.__init__ = init_session  # type: ignore[method-assign]
        for kind in (DataStreamReader, DataStreamWriter):
            kind.format = _by_rowlock(kind.format)  # type: ignore[method-assign,assignment]


def _is_remote() -> bool:
    from pyspark.util import is_remote_only

    return is_remote_only() or any(name in os.environ for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"))


def _by_rowlock(method: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """The method `format` of a reader or writer of streams, which takes Rowlock's source and sink where delta-spark's JAR has the name `delta`."""

    @functools.wraps(method)
    def chosen(self: Any, source: str) -> Any:
        theirs = str(source).lower() == "delta" and has_delta_spark(self._spark._jvm)
        return method(self, "rowlock" if theirs else source)

    return chosen
