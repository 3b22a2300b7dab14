"""Schema evolution in MERGE: adds the source columns that the clauses set and the table lacks.

Columns are added at the end and nullable, and so are fields of structs; a wider type is not taken, nor is a struct without a field that the table has.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from rowlock.engines.spark.catalyst.analysis import without_name
from rowlock.engines.spark.catalyst.typing import delta_schema
from rowlock.engines.spark.statements.merge_plan import Clauses
from rowlock.protocol.schema import StructType, column_path


def evolving(clauses: Clauses) -> Clauses:
    """The clauses under schema evolution: updateAll and insertAll set only columns that the source has.

    The table's other columns keep their value in an update and are null in an insert.
    """
    groups = {name: tuple(replace(c, evolving=True) for c in getattr(clauses, name)) for name in ("matched", "not_matched", "not_matched_by_source")}
    return replace(clauses, **groups)


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
    return next((p[0] for p in (parts, *without_name(parts, alias)) if len(p) == 1), None)
