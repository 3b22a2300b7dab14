"""Schema evolution in MERGE: adds the source columns that the clauses set and the table lacks.

Columns are added at the end and nullable, and so are fields of structs; a wider type is taken where the table has type widening on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import DataFrame

from rowlock.engines.spark.catalyst.analysis import Expression, as_column, is_default, without_name
from rowlock.engines.spark.catalyst.bridge import analyzed
from rowlock.engines.spark.catalyst.errors import public_errors
from rowlock.engines.spark.catalyst.types import columns_of_frame
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.statements.merge_plan import Clauses
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.schema import ColumnPath, StructType, column_path


def evolving(clauses: Clauses) -> Clauses:
    """The clauses under schema evolution: updateAll and insertAll set only columns that the source has.

    The table's other columns keep their value in an update and are null in an insert.
    """
    groups = {name: tuple(replace(c, evolving=True) for c in getattr(clauses, name)) for name in ("matched", "not_matched", "not_matched_by_source")}
    return replace(clauses, **groups)


def columns_set(source: DataFrame, clauses: Clauses, alias: str | None) -> StructType:
    """The columns of the source, and the fields of its structs, that the clauses set in the table; the table may have them already."""
    every, columns = [c for group in (clauses.matched, clauses.not_matched) for c in group], columns_of_frame(source)
    if any(c.all_columns for c in every):
        return columns
    paths = {_path(key, columns, alias) for c in every for key in c.assignments or {} if isinstance(key, str)}
    return _only(columns, paths)


@public_errors()
def check_columns_of_now(evaluator: Evaluator, snapshot: Snapshot, source: DataFrame, on: Expression, clauses: Clauses, alias: str | None) -> None:
    """Raises Spark's AnalysisException where a condition or a value of a MERGE names a column of the table that the MERGE itself would add."""
    probe = evaluator.probe(evaluator.target(snapshot), alias, evaluator.statement_session())
    given = evaluator.bridge.dataframe(analyzed(source.select("*")), evaluator.spark, evaluator.statement_session())
    for frame, group in ((probe.join(given, as_column(on)), clauses.matched), (probe, clauses.not_matched_by_source)):
        values = [v for c in group for v in (c.condition, *(c.assignments or {}).values()) if v is not None and not is_default(v)]
        frame.select([as_column(v) for v in values])


def _path(key: str, columns: StructType, alias: str | None) -> ColumnPath:
    """The path of a source column that has the name which an assignment sets, in small letters; empty where there is none."""
    parts = column_path(key)
    return next((tuple(n.lower() for n in p) for p in (*without_name(parts, alias), parts) if columns.resolve(p) is not None), ())


def _only(columns: StructType, paths: Collection[ColumnPath]) -> StructType:
    """The fields at these paths, each within the structs that hold it."""
    out = []
    for f in columns.fields:
        below = {p[1:] for p in paths if p[:1] == (f.name.lower(),)}
        if () in below:
            out.append(f)
        elif below and isinstance(f.type, StructType):
            out.append(replace(f, type=_only(f.type, below)))
    return StructType(tuple(out))
