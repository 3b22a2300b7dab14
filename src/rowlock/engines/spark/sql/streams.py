"""What streams need of Spark: files beside a query's checkpoint, written as Spark writes its own there; a batch as a DataFrame that can be read again."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from rowlock.conditions import named
from rowlock.engines.spark.catalyst.bridge import JavaObject, catalyst
from rowlock.exceptions import InvalidInput

_STOPPED_AT_EXIT: dict[int, weakref.WeakSet[SparkSession]] = {}
"""By process (a forked child stops nothing of its parent's), the sessions whose queries are stopped when the process ends."""
_STOP_TIMEOUT = "10s"


def stop_at_exit(spark: SparkSession) -> None:
    """Stops the session's queries when this process ends: a batch that ran on would fail with a stack trace, since Python no longer answers the JVM."""
    if not _STOPPED_AT_EXIT:
        atexit.register(_stop_queries)
    _STOPPED_AT_EXIT.setdefault(os.getpid(), weakref.WeakSet()).add(spark)


def _stop_queries() -> None:
    """A batch that is at work may end first, for ten seconds at most; whatever fails here, the process ends.  Spark logs a job that is stopped as an error."""
    for spark in [s for s in _STOPPED_AT_EXIT.get(os.getpid(), ()) if s.sparkContext._jsc is not None]:
        for query in spark.streams.active:
            with suppress(Exception):
                spark.sparkContext.setLogLevel("OFF")
                spark.conf.set("spark.sql.streaming.stopTimeout", _STOP_TIMEOUT)
                query.stop()


class NumberedFiles:
    """The files 0, 1, 2 ... of a folder, as Spark's HDFSMetadataLog keeps them; on any of Hadoop's file systems."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        bridge: Any = catalyst(spark)
        streaming = bridge.jvm.org.apache.spark.sql.execution.streaming
        maker = streaming if spark.version.startswith("4.0.") else streaming.checkpointing
        self._path, self.folder = bridge.hadoop_path, folder
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._files = getattr(getattr(maker, "CheckpointFileManager$"), "MODULE$").create(self._path(folder), conf)

    def last(self) -> int:
        """The highest number; -1 where there is no file."""
        if not self._files.exists(self._path(self.folder)):
            return -1
        names = (str(found.getPath().getName()) for found in self._files.list(self._path(self.folder)))
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def read(self, number: int) -> bytes:
        """The bytes of a file that is there."""
        data = self._files.open(self._path(self.folder, str(number)))
        try:
            return bytes(data.readAllBytes())
        finally:
            data.close()

    def add(self, number: int, data: bytes) -> bool:
        """Writes a file whole; False where another has written it."""
        self._files.mkdirs(self._path(self.folder))
        try:
            out = self._files.createAtomic(self._path(self.folder, str(number)), False)
            out.write(data)
            out.close()
        except Py4JJavaError as e:
            if str(e.java_exception.getClass().getSimpleName()) == "FileAlreadyExistsException":
                return False
            raise
        return True


def is_below(spark: SparkSession, folder: str, other: str) -> bool:
    """Whether a folder is another one or lies in it, on the other's file system."""
    path = catalyst(spark).hadoop_path
    try:
        files = path(other).getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        one, base = (str(files.makeQualified(path(text)).toUri().getPath()).rstrip("/") for text in (folder, other))
    except (Py4JJavaError, IllegalArgumentException):  # a folder of another file system
        return False
    return f"{one}/".startswith(f"{base}/")


def java_pattern(spark: SparkSession, text: str) -> Callable[[str], bool]:
    """Whether a text holds what a regular expression of Java's matches.  Raises InvalidInput where it is none."""
    try:
        found: Any = catalyst(spark).jvm.java.util.regex.Pattern.compile(text).asPredicate()
    except (Py4JJavaError, IllegalArgumentException) as e:
        condition = named("DELTA_REGEX_OPT_SYNTAX_ERROR", regExpOption="excludeRegex")
        raise InvalidInput(f"excludeRegex is no regular expression of Java's: {text!r}", condition=condition) from e
    return lambda path: bool(found.test(path))


def still(batch: JavaObject, spark: SparkSession) -> DataFrame:
    """The rows of a batch as a DataFrame that is no stream: a plan over a batch would be planned as a batch query, without the stream's state."""
    session = batch.sparkSession()
    return DataFrame(session.internalCreateDataFrame(batch.queryExecution().toRdd(), batch.schema(), False), spark)
