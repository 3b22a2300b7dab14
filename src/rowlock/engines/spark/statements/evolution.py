"""Schema evolution in MERGE: adds the source columns that the clauses set and the table lacks.

Only whole columns are added, at the end and nullable; a new field of a struct and a wider type are not.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from rowlock.engines.spark.catalyst.typing import delta_schema
from rowlock.engines.spark.statements.merge_plan import Clauses
from rowlock.protocol.schema import StructType, column_path


def evolving(clauses: Clauses) -> Clauses:
    """The clauses under schema evolution: updateAll and insertAll set only columns that the source has.

    The table's other columns keep their value in an update and are null in an insert.
    """
    groups = {name: tuple(replace(c, evolving=True) for c in getattr(clauses, name)) for name in ("matched", "not_matched", "not_matched_by_source")}
    return Clauses(**groups)


def columns_set(source: DataFrame, clauses: Clauses, alias: str | None) -> StructType:
    """The columns of the source that the clauses set in the table; the table may have them already."""
    every = [c for group in (clauses.matched, clauses.not_matched) for c in group]
    if any(c.all_columns for c in every):
        wanted = {n.lower() for n in source.columns}
    else:
        wanted = {name.lower() for c in every for key in c.assignments or {} if isinstance(key, str) and (name := _column(key, alias)) is not None}
    return StructType(tuple(f for f in delta_schema(source.schema).fields if f.name.lower() in wanted))


def _column(key: str, alias: str | None) -> str | None:
    """The column that an assignment's key names; None where it names a field inside a column."""
    parts = column_path(key)
    if alias and len(parts) == 2 and parts[0].lower() == alias.lower():
        parts = parts[1:]
    return parts[0] if len(parts) == 1 else None
