"""Gives the stores of `storage/hadoop.py` the Hadoop client in the driver's JVM, with the settings of the process's Spark session.

Only file systems whose rename is atomic and refuses a target that is there may hold tables: a commit is such a rename (I1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from rowlock.engines.spark.catalyst.bridge import catalyst
from rowlock.engines.spark.session.compiled import Classes
from rowlock.engines.spark.session.settings import session_of_process
from rowlock.exceptions import InvalidInput
from rowlock.protocol.paths import scheme_of
from rowlock.storage.hadoop import FileInfo, HadoopFiles

ATOMIC = ("org.apache.hadoop.fs.Hdfs",)
"""The file systems of Hadoop whose rename is one step that refuses a target that is there.  Not WebHdfs, whose errors the client in PySpark's wheel cannot read."""
_ERRORS = {
    "java.io.FileNotFoundException": FileNotFoundError,
    "org.apache.hadoop.fs.FileAlreadyExistsException": FileExistsError,
    "org.apache.hadoop.fs.ParentNotDirectoryException": NotADirectoryError,
    "org.apache.hadoop.security.AccessControlException": PermissionError,
}
T = TypeVar("T")


def open_files(uri: str) -> HadoopFiles:
    """The files of a folder.  Raises InvalidInput where there is no Spark session, the scheme is not known to Hadoop, or its rename does not serve."""
    spark, scheme = session_of_process(), scheme_of(uri)
    if spark is None or not hasattr(spark, "_jsparkSession"):
        text = f"{scheme}: tables are reached through the Hadoop client of a Spark session: start one first, for example by rowlock.spark()"
        raise InvalidInput(text, table=uri)
    Classes(spark).load("hadoop")
    conf, java = spark._jsparkSession.sessionState().newHadoopConf(), catalyst(spark).jvm.rowlock.Hadoop
    try:
        kind = str(java.kind(conf, uri))
        files = SparkFiles(java(conf, uri)) if kind in ATOMIC else None
    except (Py4JJavaError, CapturedException) as e:
        raise InvalidInput(f"Hadoop's client cannot open {scheme}: {_text(e)}", table=uri) from e
    if files is None:
        raise InvalidInput(
            f"the scheme {scheme}: is not supported: its file system, {kind}, is not known for an atomic rename that never replaces a file. "
            "Tables lie on hdfs: or on a mount of it whose folder is there, on a local path, file:, s3:, gs:, az: or abfss:",
            table=uri,
        )
    return files


def _text(error: Py4JJavaError | CapturedException) -> str:
    """The class and message of a Java exception, also of one that PySpark has made its own."""
    thrown = error.java_exception if isinstance(error, Py4JJavaError) else error._origin
    return str(thrown.toString() if thrown is not None else error).partition("\n")[0]


def _done(call: Callable[[], T]) -> T:
    """What a call of the JVM gives; its exceptions as those of Python's file functions."""
    try:
        return call()
    except Py4JJavaError as e:
        raise _ERRORS.get(str(e.java_exception.getClass().getName()), OSError)(_text(e)) from e
    except CapturedException as e:
        raise OSError(_text(e)) from e


class SparkFiles:
    """The files below one folder.  `java` is a `rowlock.Hadoop`."""

    def __init__(self, java: Any) -> None:
        self.java = java
        self.root = str(java.root()).rstrip("/")

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return bytes(_done(lambda: self.java.read(path, start, -1 if length is None else length)))

    def write(self, path: str, parts: Iterable[bytes]) -> None:
        if isinstance(parts, tuple) and len(parts) == 1:
            _done(lambda: self.java.write(path, bytearray(parts[0])))
            return
        out = _done(lambda: self.java.create(path))
        try:
            for part in parts:
                _done(lambda data=part: out.write(bytearray(data)))  # type: ignore[misc]
            _done(out.hsync)
        finally:
            _done(out.close)

    def rename(self, source: str, target: str, *, replace: bool) -> None:
        _done(lambda: self.java.rename(source, target, replace))

    def info(self, path: str) -> FileInfo | None:
        found = _done(lambda: self.java.info(path))
        return None if found is None else _info(str(found))

    def entries(self, folder: str) -> list[FileInfo]:
        return [_info(each) for each in str(_done(lambda: self.java.entries(folder))).split("/")[:-1]]

    def delete(self, path: str) -> None:
        _done(lambda: self.java.delete(path))


def _info(line: str) -> FileInfo:
    kind, size, modified, name = line.split(" ", 3)
    return FileInfo(name, kind == "d", int(size), int(modified))
