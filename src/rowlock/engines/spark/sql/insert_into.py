"""Refuses options before `insertInto` on a Delta table: Spark drops them, so that `replaceWhere`, say, would replace all rows.

Spark's statement has no room for them, so PySpark's own method is wrapped, once for the process; it looks at sessions with Rowlock alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrameWriter, SparkSession

from rowlock.engines.spark.catalyst.bridge import catalyst
from rowlock.engines.spark.sql.hooks import is_enabled
from rowlock.exceptions import UnsupportedFeature

_HARMLESS = frozenset(("path", "header", "inferschema"))
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
            raise UnsupportedFeature(
                f"The option {given[0]} before insertInto is refused: Spark drops it. Use saveAsTable, writeTo(...).overwrite(condition) or "
                "INSERT INTO ... REPLACE WHERE, or leave it out",
                feature=f"option {given[0]} of insertInto",
                access="write",
                table=tableName,
            )
        plain(self, tableName, overwrite)

    DataFrameWriter.insertInto = insert_into  # type: ignore[method-assign]
    _watched = True


def _options(writer: DataFrameWriter, spark: SparkSession) -> list[str]:
    """The names of the options that a writer was given, but for those that mean nothing for any table."""
    jwriter: Any = writer._jwrite
    names = [str(pair._1()) for pair in catalyst(spark).list(jwriter.extraOptions().originalMap().toSeq())]
    return sorted(n for n in names if n.lower() not in _HARMLESS)
