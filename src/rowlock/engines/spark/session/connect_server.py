"""The servers that Spark carries, started in the JVM of a session: Spark Connect, and Thrift for JDBC; and which sessions are those of their clients.

Each client gets a session of its own, made from the one that is given: what `rowlock.enable` put into that is in all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from rowlock.exceptions import RowlockError

CONNECT_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"
_STOPS_WITHIN_S = 10
_LOG_FAILED_TASKS = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.util.Utils",
    "org.apache.spark.sql.execution.datasources.FileFormatWriter",
)


def connect_settings(host: str, port: int, token: str | None) -> dict[str, str]:
    """The settings with which a session must be started whose Connect server is to listen there; port 0 is any that is free."""
    out = {"spark.connect.grpc.binding.address": host, "spark.connect.grpc.binding.port": str(port), "spark.sql.connect.serverStacktrace.enabled": "false"}
    return out if token is None else out | {"spark.connect.authenticate.token": token}


def metastore_settings(folder: Path) -> dict[str, str]:
    """The settings with which a session keeps the names of tables in a Derby database in `folder`, which one process at a time can open."""
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder};create=true",
    }


def keep_derby_log(spark: SparkSession, folder: Path) -> None:
    """Makes Derby write its log beside its database, not into the working directory.  Only before the session's catalog was asked for anything."""
    jvm: Any = spark._jvm
    jvm.java.lang.System.setProperty("derby.stream.error.file", f"{folder}.log")


def log_one_line_for_each_mistake(spark: SparkSession) -> None:
    """Leaves the failures of tasks out of the log: the statement that they end is in it, in one line (see log4j2.properties)."""
    jvm: Any = spark._jvm
    logging = jvm.org.apache.logging.log4j
    for name in _LOG_FAILED_TASKS:
        logging.core.config.Configurator.setLevel(name, logging.Level.OFF)


class ConnectServer:
    """Spark's Connect server in the JVM of a session."""

    def __init__(self, spark: SparkSession) -> None:
        """Starts it.  Raises RowlockError where it cannot listen."""
        jvm: Any = spark._jvm
        self._none, self._seconds = jvm.scala.Option.empty(), jvm.java.util.concurrent.TimeUnit.SECONDS
        try:
            self._service = module(jvm, CONNECT_SERVICE)
            self._service.start(spark.sparkContext._jsc.sc())
            self.port = int(self._service.server().getPort())
        except Exception as e:
            raise RowlockError(f"Spark's Connect server did not start: {_reason(e)}") from e

    def stop(self) -> None:
        """Takes no more statements, and waits some seconds for those that run."""
        self._service.server().shutdown()
        self._service.server().awaitTermination(_STOPS_WITHIN_S, self._seconds)
        self._service.stop(self._none, self._none)


class ThriftServer:
    """Spark's Thrift server in the JVM of a session, for JDBC and ODBC."""

    def __init__(self, spark: SparkSession, host: str, port: int) -> None:
        """Starts it.  Raises RowlockError where this Spark has none, or where it cannot listen."""
        jvm: Any = spark._jvm
        properties = jvm.java.lang.System
        properties.setProperty("hive.server2.thrift.bind.host", host)
        properties.setProperty("hive.server2.thrift.port", str(port))
        try:
            self._server = jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2.startWithSparkSession(spark._jsparkSession, False)
        except Exception as e:
            raise RowlockError(f"Spark's Thrift server did not start: {_reason(e)}") from e
        self.port = port

    def stop(self) -> None:
        """Ends it and the sessions of its clients."""
        self._server.stop()


def is_connect(session: object) -> bool:
    """Whether a session, or a DataFrame, is a client's of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def jvm_is_alive(spark: SparkSession) -> bool:
    """Whether the JVM that this process started still runs; True where it did not start it."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    return process is None or process.poll() is None


def module(jvm: Any, name: str) -> Any:
    """A Scala object by the full name of its class."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(name, True, loader).getField("MODULE$").get(None)


def _reason(error: BaseException) -> str:
    """The innermost message of a JVM exception."""
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    text = str(error)
    while java is not None:
        text = str(java.getMessage() or java.toString())
        java = java.getCause()
    return text
