"""Finds the Spark session of this process, or starts a local one.

Must never stop a session, nor change one that it did not start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rowlock import arguments, threads
from rowlock.engines.spark.catalyst.versions import SCANS
from rowlock.engines.spark.session.java import Recording, archive_options, ensure_java, quoted, resolving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGGING = Path(__file__).with_name("log4j2.properties").absolute()

_OF_CLIENTS = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED", "MASTER", "SPARK_CONNECT_AUTHENTICATE_TOKEN")
"""What makes PySpark begin a client of a Connect server, or take another master than the one given; and a client's token, which the JVM's processes would inherit."""
_REDACTED = "(?i)secret|password|token|(access|account)[.]?key|[.]sas[.]|credential|private|connectionurl"
"""The settings whose values a server's event log and web pages do not show: Spark's own pattern passes an Azure account's key and the user in a JDBC URL."""
_OF_LAUNCHER = ("spark.master", "spark.app.name", "spark.driver.", "spark.jars", "spark.files", "spark.archives", "spark.submit.", "spark.kerberos.")
"""The settings, by how their names begin, that Spark needs before its JVM runs, or that spark-submit acts upon: they are on the JVM's command line."""
_starting = threads.module_lock()


def spark(*, cores: int | None = None, memory_mb: int | None = None, stores: Sequence[Literal["s3", "gs", "az"]] = ()) -> SparkSession:
    """The active SparkSession, the default one, or a new local one.  Starting one takes some seconds; runs no Spark job.

    Args:
        cores: How many tasks a new session runs at once; by default as many as the machine has cores.
        memory_mb: The driver's memory of a new session in MB, 2048 by default; a local session's tasks share it.
        stores: The clouds that tables will lie on, among `s3`, `gs` and `az`, for a new session; their connectors come from Maven Central the first time.

    Returns:
        A SparkSession.  One that is there is returned as it is, and never stopped.

    Raises:
        RowlockError: No Java that serves is found.
        InvalidInput: A store is none of these.

    Examples:
        >>> rowlock.spark() is spark
        True
    """
    wanted = None if cores is None else arguments.number(cores, "cores")
    memory = None if memory_mb is None else arguments.number(memory_mb, "memory_mb")
    clouds = arguments.name_list(stores, "stores")
    with _starting:
        return _existing() or _start_local(cores=wanted or os.cpu_count() or 1, memory_mb=memory or 2048, stores=clouds)


def _existing() -> SparkSession | None:
    """The active session of this thread, or the one that another thread or Spark Connect started; None where there is none."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkException:  # there is none
        return None


def _start_local(*, cores: int, memory_mb: int, stores: Sequence[str] = ()) -> SparkSession:
    """Starts a local session, or connects to the one that SPARK_REMOTE names."""
    if not os.environ.get("SPARK_REMOTE"):
        ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark does not start where the machine's own name does not resolve
    from pyspark.sql import SparkSession

    if os.environ.get("SPARK_REMOTE"):
        return SparkSession.builder.getOrCreate()
    settings = local_settings(cores=cores, memory_mb=memory_mb)
    if stores:
        from rowlock.engines.spark.session.clouds import connectors

        settings |= connectors(stores)
    return _started(settings)


def _started(settings: Mapping[str, str]) -> SparkSession:
    """A session with these settings, whose log has errors alone."""
    from pyspark.sql import SparkSession

    with resolving(settings):
        session = SparkSession.builder.config(map=dict(settings)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def start_recorded(recording: Recording) -> SparkSession:
    """Starts a local session whose JVM writes the class archive when it ends.  Only in a process that has no session yet."""
    return _started(local_settings(cores=1, memory_mb=1024, java_options=recording.java_options))


def start_server_session(*, cores: int, memory_mb: int, settings: Mapping[str, str]) -> SparkSession:
    """Starts the session of a server: local, unless `settings` name another master.  Only in a process that has no session yet; SPARK_REMOTE is ignored.

    A setting may be a secret (a token, a store's key): the JVM gets those that it need not know at its start through PySpark's socket, since every user
    of the machine can read its command line.  Raises RowlockError where no Java that serves is found.
    """
    for name in _OF_CLIENTS:
        os.environ.pop(name, None)
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark import SparkConf, SparkContext

    redaction = {"spark.redaction.regex": _REDACTED, "spark.sql.redaction.options.regex": f"{_REDACTED}|url"}
    wanted = local_settings(cores=cores, memory_mb=memory_mb) | redaction | dict(settings)
    with resolving(wanted):
        SparkContext._ensure_initialized(conf=SparkConf().setAll([(name, value) for name, value in wanted.items() if name.startswith(_OF_LAUNCHER)]))
    return _started(wanted)


def stop_with_jvm(session: SparkSession, timeout_s: float) -> None:
    """Stops a session that this process started, and waits until its JVM has ended.  Raises subprocess.TimeoutExpired."""
    gateway: Any = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when this is closed
    gateway.proc.wait(timeout_s)


def local_settings(*, cores: int, memory_mb: int, java_options: Sequence[str] | None = None) -> dict[str, str]:
    """The Spark settings of a local session.

    Args:
        java_options: More arguments of its JVM; by default those that make it read the class archive, where there is one.
    """
    options = archive_options() if java_options is None else java_options
    return {
        "spark.master": f"local[{cores}]",
        "spark.app.name": "rowlock",
        "spark.driver.memory": f"{memory_mb}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.default.parallelism": str(cores),
        **SCANS,
        "spark.driver.extraJavaOptions": quoted((f"-Dlog4j2.configurationFile={LOGGING.as_uri()}", *options)),
    }
