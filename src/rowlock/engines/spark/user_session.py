"""The user's Spark session, classic or of Spark Connect: what is asked of it, and the little that is changed in it."""

from __future__ import annotations

import datetime
import logging
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession, functions as F

from rowlock import arguments, threads
from rowlock.conditions import named
from rowlock.engines.spark.catalyst.bridge import catalyst
from rowlock.engines.spark.catalyst.versions import Version, version_of
from rowlock.engines.spark.read.scan import TIME_ZONE, local_frame
from rowlock.engines.spark.session.clouds import spark_root
from rowlock.engines.spark.session.connect import is_connect
from rowlock.engines.spark.session.delta_spark_programs import SERVES
from rowlock.engines.spark.session.settings import FIXED, session_of_process, variables_of
from rowlock.exceptions import InvalidInput
from rowlock.protocol.session_settings import PREFIX, SETTINGS, Settings
from rowlock.storage.store import ObjectStore
from rowlock.time_zones import zone_of
from rowlock.transaction.state import call
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import WRITE_IT_LIKE, local_milliseconds

_LOGGER = logging.getLogger("rowlock")
_OF_SPARK = tuple(name for name in SETTINGS if name.startswith("spark."))
_NAMES = re.compile(rf"(?<![\w.])(?:{re.escape(PREFIX)}[A-Za-z0-9_.\-]+|{'|'.join(map(re.escape, _OF_SPARK))})(?==)")
"""What is to be read: Delta's own settings, and those of Spark's that are for data files."""
_LAST_VERSION = "lastCommitVersionInSession"
"""What Rowlock sets itself after each commit."""
_QUERY_ID = "sql.streaming.queryId"
_JOB_GROUP = "spark.jobGroup.id"
"""A run of a query has its id as job group."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session as its user has it.  Nothing is asked of it before a member is."""

    spark: SparkSession

    @classmethod
    def of_process(cls) -> Session | None:
        """The session that a call without one goes by; None where this process has none that lives (see `session_of_process`)."""
        found = session_of_process()
        return None if found is None else cls(found)

    @property
    def is_connect(self) -> bool:
        """Whether it is a client's of Spark Connect, whose JVM is the server's."""
        return is_connect(self.spark)

    @property
    def application_name(self) -> str:
        """The name that the user gave the Spark application; empty for a session of Spark Connect, whose server has it."""
        context = getattr(self.spark, "_sc", None)
        return "" if context is None else str(context.appName)

    @property
    def is_enabled(self) -> bool:
        """Whether the session's parser is Rowlock's, and with it its rules."""
        return catalyst(self.spark).scans is not None and str(self.spark._jsparkSession.sessionState().sqlParser().getClass().getName()) == "rowlock.Parser"

    @property
    def serves_delta(self) -> bool:
        """Whether Delta tables are Rowlock's on an enabled session: beside delta-spark's JAR where the setting SERVES says so, else always.  Raises InvalidInput."""
        if not catalyst(self.spark).has_delta_spark:
            return True
        value = str(self.spark.conf.get(SERVES, "delta-spark")).lower()
        if value not in ("delta-spark", "rowlock"):
            raise InvalidInput(f"{SERVES} is delta-spark or rowlock, not {value!r}")
        return value == "rowlock"

    @property
    def parses_constraints(self) -> bool:
        """Whether the grammar of its Spark has ADD and DROP CONSTRAINT."""
        return (version_of(self.spark.version) or Version()).constraints

    # ---- settings and variables --------------------------------------------------------------

    @property
    def zone(self) -> datetime.tzinfo:
        """Its time zone; UTC where Python does not know the name."""
        try:
            return zone_of(str(self.spark.conf.get(TIME_ZONE, "UTC")))
        except ValueError:
            return datetime.UTC

    def milliseconds(self, timestamp: str | datetime.datetime, table: str) -> int:
        """Milliseconds since 1970 (UTC) of a datetime, or of text that the session casts to a timestamp.  Raises InvalidInput for any other text."""
        if not isinstance(timestamp, str):
            return local_milliseconds(timestamp, table)
        if self.is_connect:
            found = self.spark.sql("SELECT unix_millis(try_cast(:text AS timestamp_ltz))", args={"text": timestamp})
        else:
            found = local_frame(self.spark, pa.table({"text": [timestamp]})).select(F.unix_millis(F.col("text").try_cast("timestamp_ltz")))
        row = found.first()
        if row is None or row[0] is None:
            quoted = timestamp.replace("\\", "\\\\").replace("'", "\\'")
            wording = f"The provided timestamp ('{quoted}') cannot be converted to a valid timestamp"
            raise InvalidInput(f"{wording}: {WRITE_IT_LIKE}", table=table, condition=named("DELTA_TIMESTAMP_INVALID", expr=f"'{quoted}'"))
        return int(row[0])

    def settings(self) -> Settings:
        """Delta's settings of this moment.  What can change no result here is named in a warning, once in a process.  Two round trips where none is set."""
        settings = Settings(self._given())
        for name, text in settings.without_effect().items():
            arguments.warn_once(text, name)
        return settings

    def _given(self) -> dict[str, str]:
        """By names without PREFIX.  All settings come as one text, which is searched for names: asking for each known one is a round trip each."""
        conf: Any = self.spark.conf
        if self.is_connect:
            return {str(n).removeprefix(PREFIX): str(value) for n, value in conf.getAll.items() if str(n) in _OF_SPARK or str(n).startswith(PREFIX)}
        names = set(_NAMES.findall(str(conf._jconf.getAllAsJava().toString()))) - {PREFIX + _LAST_VERSION}
        values = {name: conf.get(name, None) for name in sorted(names)}
        return {name.removeprefix(PREFIX): str(value) for name, value in values.items() if value is not None}

    def note_commit(self, receipt: Receipt) -> None:
        """Sets the setting by which users learn the version of their last commit; on a server nothing, where other clients commit, too."""
        if not self.is_connect:
            self.spark.conf.set(PREFIX + _LAST_VERSION, str(receipt.version))

    def reset_step(self) -> None:
        """Unsets the number of the step that its settings named, where they say so: what comes next is no step of its own."""
        if call.settings().flag("write.txnVersion.autoReset.enabled"):
            self.spark.conf.unset(f"{PREFIX}write.txnVersion")

    def fixed_variables(self) -> AbstractContextManager[None]:
        """A block whose statements see the session's variables with the values of now, however often they are planned anew."""
        return threads.holding(FIXED, variables_of(self.spark))

    # ---- what it has cached, and what it runs --------------------------------------------------

    def refresh_cached(self, store: ObjectStore) -> None:
        """Lets Spark compute anew what it has cached of a store's table, when it is asked for it: another version was committed.

        Never raises, since the commit has landed: what cannot be computed any more, since its columns are gone, Spark drops from its cache.
        """
        if self.is_connect:
            return
        try:
            cached: Any = self.spark._jsparkSession.sharedState().cacheManager()
            if not cached.isEmpty():
                cached.recacheByPath(self.spark._jsparkSession, spark_root(store))
        except Exception as e:  # noqa: BLE001 - such as a session that was stopped meanwhile
            _LOGGER.info("what Spark has cached of %s could not be refreshed: %s", store.root, e)

    def query_and_run(self, table: str) -> tuple[str, str | None]:
        """The id of the query that this thread runs, which stays the same for as long as its checkpoint is there, and the job group of the thread, which is a new one for each run of the query; None where there is none.

        Raises InvalidInput outside of a query's thread.
        """
        context = self.spark.sparkContext
        query = context.getLocalProperty(_QUERY_ID)
        if query is None:
            text = "The sink needs the query that the batch is of: call it in the function of foreachBatch itself, not in a thread that this begins"
            raise InvalidInput(text, table=table)
        return str(query), context.getLocalProperty(_JOB_GROUP)
