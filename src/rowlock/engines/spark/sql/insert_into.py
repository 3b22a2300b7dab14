"""Refuses options before `insertInto` on a Delta table: Spark drops them, so that `replaceWhere`, say, would replace all rows.

Spark's statement has no room for them, so PySpark's own method is wrapped, once for the process; it looks at sessions with Rowlock alone.
What a client of a Connect server asks for never passes there: on a server the client's request is looked up, which has them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from pyspark.sql import DataFrameWriter, SparkSession

from rowlock.engines.spark.catalyst.bridge import catalyst
from rowlock.engines.spark.session.connect_server import CONNECT_SERVICE, module
from rowlock.engines.spark.sql.hooks import is_enabled
from rowlock.exceptions import UnsupportedFeature

_HARMLESS = frozenset(("path", "header", "inferschema"))
_TAGS, _OF_CONNECT = "spark.job.tags", "SparkConnect_OperationTag"
"""A thread that runs what a client asked for has a tag that names the request."""
_watched = False


def refuse_options(is_delta: Callable[[SparkSession, str], bool]) -> None:
    """Wraps `DataFrameWriter.insertInto`, unless it is wrapped; `is_delta` says whether a name of the catalog is a Delta table's."""
    global _watched
    if _watched:
        return
    plain = DataFrameWriter.insertInto

    @functools.wraps(plain)
    def insert_into(self: DataFrameWriter, tableName: str, overwrite: bool | None = None) -> None:
        spark: SparkSession = self._spark
        if is_enabled(spark) and (given := _options(self, spark)) and is_delta(spark, tableName):
            _refuse(given[0], tableName)
        plain(self, tableName, overwrite)

    DataFrameWriter.insertInto = insert_into  # type: ignore[method-assign]
    _watched = True


def _options(writer: DataFrameWriter, spark: SparkSession) -> list[str]:
    """The names of the options that a writer was given, but for those that mean nothing for any table."""
    jwriter: Any = writer._jwrite
    names = [str(pair._1()) for pair in catalyst(spark).list(jwriter.extraOptions().originalMap().toSeq())]
    return sorted(n for n in names if n.lower() not in _HARMLESS)


def refuse_options_of_client(spark: SparkSession, table: str) -> None:
    """Raises UnsupportedFeature where the INSERT that this thread runs is the `insertInto` of a client of a Connect server, with options."""
    tags = str(spark.sparkContext.getLocalProperty(_TAGS) or "").split(",")
    if not any(tag.startswith(_OF_CONNECT) for tag in tags):
        return
    bridge = catalyst(spark)
    running = module(bridge.jvm, CONNECT_SERVICE).executionManager().listExecuteHolders()
    for holder in bridge.list(running):
        if str(holder.jobTag()) not in tags:
            continue  # another's request
        write = holder.request().getPlan().getCommand().getWriteOperation()
        inserts = str(write.getTable().getSaveMethod().name()).endswith("INSERT_INTO")
        given = sorted(str(n) for n in write.getOptionsMap() if str(n).lower() not in _HARMLESS)
        if inserts and given:
            _refuse(given[0], table)


def _refuse(option: str, table: str) -> NoReturn:
    raise UnsupportedFeature(
        f"The option {option} before insertInto is refused: Spark drops it. Use saveAsTable, writeTo(...).overwrite(condition) or "
        "INSERT INTO ... REPLACE WHERE, or leave it out",
        feature=f"option {option} of insertInto",
        access="write",
        table=table,
    )
