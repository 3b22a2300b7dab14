"""The columns that a MERGE with schema evolution adds: those of its source that its clauses set and the table lacks.

Only whole columns are added, at the end and nullable; a field more in a struct, and a wider type, are none.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from rowlock.engines.spark.catalyst.analysis import split_name
from rowlock.engines.spark.statements.append import merged_schema
from rowlock.engines.spark.statements.merge_plan import Clauses


def evolving(clauses: Clauses) -> Clauses:
    """The same clauses, in which the All forms take the columns that there are: what the source lacks stays as it is, or is null in a new row."""
    groups = {name: tuple(replace(c, evolving=True) for c in getattr(clauses, name)) for name in ("matched", "not_matched", "not_matched_by_source")}
    return Clauses(**groups)


def evolved_schema(table: StructType, source: DataFrame, clauses: Clauses, alias: str | None) -> StructType:
    """The table's schema with what the clauses add to it."""
    every = [c for group in (clauses.matched, clauses.not_matched) for c in group]
    if any(c.all_columns for c in every):
        wanted = {n.lower() for n in source.columns}
    else:
        wanted = {name.lower() for c in every for key in c.assignments or {} if isinstance(key, str) and (name := _column(key, alias)) is not None}
    return merged_schema(table, StructType([f for f in source.schema.fields if f.name.lower() in wanted]))


def _column(key: str, alias: str | None) -> str | None:
    """The column that an assignment's key names as a whole."""
    parts = split_name(key)
    if alias and len(parts) == 2 and parts[0].lower() == alias.lower():
        parts = parts[1:]
    return parts[0] if len(parts) == 1 else None
