"""Enables Rowlock on a session: refuses what it cannot do, loads the classes, connects Python, and puts the parser and the rules into it.

Sessions that are made from it get them from Spark's own extension points.  The session that is there has built its analyzer already: its lists of
rules are fields, which are set by reflection.  Everything is looked up before anything is changed.

What Java calls is one callable, which forwards to Python's answers and carries Python's errors through the JVM: an error is kept under an id, Java
throws an exception with that id, and where that reaches Python again the original is raised.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NoReturn

from py4j.java_collections import JavaList, JavaMap
from pyspark.errors import PySparkException
from pyspark.errors.exceptions import captured
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from rowlock import threads
from rowlock.arguments import is_set
from rowlock.conditions import ANY, NO_STATE
from rowlock.engines.spark.catalyst.bridge import analyzed, catalyst, entries
from rowlock.engines.spark.catalyst.versions import VERSIONS, Version, version_of
from rowlock.engines.spark.session.compiled import Classes
from rowlock.engines.spark.session.delta_spark_programs import SERVES, drop_catalog, has_delta_spark
from rowlock.engines.spark.session.settings import make_known
from rowlock.engines.spark.sql.commands import HARMLESS
from rowlock.engines.spark.sql.guard import check
from rowlock.engines.spark.sql.insert import pass_on_options
from rowlock.engines.spark.sql.parsing import identified, start_callback_server
from rowlock.engines.spark.sql.streams import still, stop_at_exit
from rowlock.engines.spark.user_session import Session
from rowlock.exceptions import UnsupportedFeature

_FAILED = "\x01rowlock failed"
_KEPT_ERRORS = 64
_KEPT_SESSIONS = 64
_DEEPEST_CAUSE = 20


Answers = Mapping[str, Callable[..., Any]]
"""What Python answers, by the word with which Java asks: called with the Python session, then with the arguments as Python has them.

A map of texts is a dict, a list is a list, a Dataset or a plan that is answered a DataFrame, columns are a StructType; the map that a scan fills is Java's.
"""
_ROWS = {"save": 2, "batch": 0}
"""The arguments that are a Dataset, by whose session is answered."""


class Callback:
    """A java.util.function.BiFunction; called by any thread of the JVM."""

    class Java:
        """What py4j asks for."""

        implements: ClassVar[list[str]] = ["java.util.function.BiFunction"]

    def __init__(self, spark: SparkSession, answers: Answers) -> None:
        self._answers, self._spark = {**answers, "identified": identified, "check": check}, spark
        self._known: dict[str, SparkSession] = {}
        self._met: OrderedDict[str, SparkSession] = OrderedDict()
        self._meeting = threading.Lock()
        self.know(spark)

    def know(self, spark: SparkSession) -> None:
        """Answers about this session with this Python object; nothing is kept of the sessions of a SparkContext that was stopped."""
        if spark.sparkContext is not self._spark.sparkContext:
            self._spark = spark
            self._known.clear()
            self._met.clear()
        self._known[str(spark._jsparkSession.sessionUUID())] = spark

    def apply(self, what: str, arguments: Any) -> Any:
        """One call of Java's.  Never raises: an error is kept, and its id returned."""
        try:
            return self._answer(str(what), [arguments[n] for n in range(len(arguments))])
        except Exception as e:  # noqa: BLE001 - all that Python raises is raised to the user, by way of the JVM
            return self._failed(e)

    def _failed(self, error: BaseException) -> Any:
        """An error as a list (see Bridge.FAILED in streams.java): its id, its condition and text for Spark, and Spark's own exception where it is one."""
        known = error if isinstance(error, PySparkException) else None
        kind = next((c.__name__ for c in type(error).__mro__ if c.__module__ == PySparkException.__module__), ANY)
        own, bridge = getattr(error, "_origin", None), catalyst(self._spark)
        parameters = bridge.hash_map(((known.getMessageParameters() or {}) if known is not None and own is None else {}).items())
        text = str(error) if isinstance(error, CapturedException) else f"{type(error).__name__}: {error}"
        condition, state = (known.getCondition(), known.getSqlState()) if known is not None else (None, None)
        return bridge.array_list((_FAILED, _keep(error), kind, condition or "INTERNAL_ERROR", state or NO_STATE, parameters, text, own))

    def _answer(self, what: str, given: list[Any]) -> Any:
        rows = given[_ROWS[what]] if what in _ROWS else None
        spark = self._session(given.pop(0) if rows is None else rows.sparkSession())
        if rows is not None:
            given[_ROWS[what]] = still(rows, spark) if what == "batch" else DataFrame(rows, spark)
        if what in ("stream_columns", "sink"):
            stop_at_exit(spark)
        answer = self._answers[what](spark, *(given if what == "scan" else map(_python, given)))
        if isinstance(answer, StructType):
            return catalyst(spark).data_type.fromJson(answer.json())
        return answer if not isinstance(answer, DataFrame) else answer._jdf if what == "run" else analyzed(answer)

    def _session(self, session: Any) -> SparkSession:
        """The Python session of a JVM session; the same one as long as it is used, since engines are cached by it."""
        key = str(session.sessionUUID())
        if key in self._known:
            return self._known[key]
        with self._meeting:
            found = self._met.get(key)
            if found is None:
                found = self._met[key] = SparkSession(self._spark.sparkContext, jsparkSession=session)
            self._met.move_to_end(key)
            if len(self._met) > _KEPT_SESSIONS:  # those of a server's clients come and go
                self._met.popitem(last=False)
            return found


def _python(value: Any) -> Any:
    if isinstance(value, JavaMap):
        return {name: str(each) for name, each in entries(value).items()}
    return [value[n] for n in range(len(value))] if isinstance(value, JavaList) else value


_errors: OrderedDict[str, BaseException] = OrderedDict()
_numbers, _lock = itertools.count(1), threads.module_lock()


def _keep(error: BaseException) -> str:
    key = str(next(_numbers))
    with _lock:
        _errors[key] = error
        if len(_errors) > _KEPT_ERRORS:  # of statements whose clients are not in this process
            _errors.popitem(last=False)
    return key


def _original(error: Any) -> BaseException | None:
    """The error of Python that a JVM exception, or one that caused it, stands for."""
    for _ in range(_DEEPEST_CAUSE):
        if error is None:
            return None
        for each in (error, *error.getSuppressed()):
            if str(each.getClass().getName()) == "rowlock.Refused":
                with _lock:
                    return _errors.get(str(each.id()))
        error = error.getCause()
    return None


def connect(spark: SparkSession, classes: Classes, answers: Answers, harmless: frozenset[str]) -> Callback:
    """Gives Java its callable.  From now on pyspark raises Python's own error where the JVM's stands for one."""
    start_callback_server(spark)
    callback = Callback(spark, answers)
    jvm: Any = spark._jvm
    classes.field("harmless", jvm.java.util.HashSet(catalyst(spark).array_list(harmless)))
    gateway: Any = spark.sparkContext._gateway
    classes.field("client", gateway.java_gateway_server.getCallbackClient())
    classes.field("python", callback)
    before = captured.convert_exception
    if not hasattr(before, "rowlock"):

        def convert(error: Any) -> Any:
            ours = _original(error)
            if ours is None or str(error.getClass().getName()).endswith(".StreamingQueryException"):
                converted = before(error)
                converted.__cause__ = ours or converted.__cause__
                return converted
            return ours

        convert.rowlock = True  # type: ignore[attr-defined]
        captured.convert_exception = convert  # type: ignore[assignment]
    return callback


_injected: dict[int, Any] = {}
"""The extensions that have the rules already, by their identity; kept, so that no other object gets the same one."""


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
    text = f"This Spark has no {name} in {kind.getName()}, so rowlock.enable cannot work on this session: use rowlock.sql(spark, text)"
    raise UnsupportedFeature(text, feature="rowlock.enable", access="write")


_INSTEAD = "Use rowlock.sql(spark, text), rowlock.DeltaTable and rowlock.write there"
_LOGGER = logging.getLogger("rowlock")
_connected: dict[int, Callback] = {}


def enable(spark: SparkSession, answers: Answers, is_delta: Callable[[SparkSession, str], bool]) -> None:
    """Changes the session for as long as it lives.  `is_delta`: see `pass_on_options`.  Raises UnsupportedFeature before anything is changed."""
    version = _check_session(spark, "rowlock.enable", _INSTEAD)
    if is_set(spark, "spark.sql.analyzer.singlePassResolver.enabled"):
        _refused("rowlock.enable", _INSTEAD, "Spark's single-pass analyzer (spark.sql.analyzer.singlePassResolver.enabled) passes the rules by")
    classes, session = Classes(spark), Session(spark)
    beside = catalyst(spark).has_delta_spark = has_delta_spark(catalyst(spark).jvm)
    left_out = [] if beside else drop_catalog(spark)
    serves = session.serves_delta
    pass_on_options(is_delta)  # which passes sessions by that are not enabled
    if session.is_enabled:
        return
    classes.load("streams", "scans", *version.sources, "rowlock-beside" if beside else "rowlock")
    if not beside:
        classes.load("settings")
        make_known(spark)
    _connect(spark, classes, answers)
    catalyst(spark).scans = catalyst(spark).jvm.rowlock.Scans
    install(spark, classes)
    _log_who_serves(serves, left_out)


def _log_who_serves(serves: bool, left_out: list[str]) -> None:
    """One line: who serves Delta tables on the session that was just enabled."""
    if left_out:
        _LOGGER.warning("rowlock.enable: the class path lacks delta-spark, so %s is left out; Rowlock serves Delta tables on this session", left_out[0])
    elif not serves:
        text = "rowlock.enable: delta-spark's JAR serves Delta tables on this session, Rowlock what names rowlock; set %s=rowlock to give it all"
        _LOGGER.warning(text, SERVES)
    else:
        _LOGGER.info("rowlock.enable: Rowlock serves Delta tables on this session")


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
