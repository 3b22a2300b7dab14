"""Computes generated columns in Spark wherever a statement does not set them (I3, I9).

The value is computed from the row as it will be written, after the statement's own values were cast to the table's types.
Whether a value that a statement does set is right is checked together with the table's constraints (`constraint_checks`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rowlock.engines.spark.catalyst.analysis import Relation, Resolver, Target, analyzed
from rowlock.engines.spark.catalyst.bridge import JavaObject, class_name
from rowlock.engines.spark.catalyst.errors import public_errors
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import logical
from rowlock.protocol.generated import Generated, generated_columns
from rowlock.protocol.schema import quote


def generated_values(target: Target, given: Collection[str]) -> dict[str, Column]:
    """The expression of each generated column that is not in `given`, over columns with the table's names."""
    return {g.name: _value(g, target.schema) for g in target.generated if g.name not in given}


def _value(column: Generated, schema: StructType) -> Column:
    return F.expr(column.expression).cast(schema[column.name].dataType)


def with_generated_values(frame: DataFrame, schema: StructType, columns: Collection[Generated]) -> DataFrame:
    """A DataFrame with the table's column names, in which `columns` are computed from the others."""
    computed = {c.name: _value(c, schema) for c in columns}
    return _replaced(frame, computed) if computed else frame


def _replaced(frame: DataFrame, computed: Mapping[str, Column]) -> DataFrame:
    return frame.select(*(computed[n].alias(n) if n in computed else F.col(quote(n)) for n in frame.columns))


def with_recomputed(resolver: Resolver, frame: DataFrame, computed: Mapping[str, Column]) -> DataFrame:
    """The outputs of a statement with the columns `computed` calculated from the other outputs, as one projection of what the statement reads.

    A frame that is not a projection is returned unchanged: `Resolver.resolved` refuses it by name.
    """
    if not computed or class_name(analyzed(frame)) != "Project":
        return frame
    outer = analyzed(_replaced(frame, computed))
    if class_name(outer) != "Project" or class_name(outer.child()) != "Project":
        return frame
    bridge = resolver.bridge
    outputs = bridge.collapse_project.buildCleanedProjectList(outer.projectList(), outer.child().projectList())
    return bridge.dataframe(bridge.project(outputs, outer.child().child()), resolver.spark, frame._jdf.sparkSession())


@dataclass(frozen=True, slots=True)
class _ResolvedRow:
    """The table's row with its generated columns computed, resolved over the table's columns."""

    relation: Relation
    outputs: JavaObject


def recomputed_rows(evaluator: Evaluator, table: pa.Table, snapshot: Snapshot) -> pa.Table:
    """Rows on the driver with all generated columns computed anew from the other columns.  No job."""
    if not table.num_rows or not generated_columns(snapshot.schema):
        return table
    found: _ResolvedRow = evaluator.cached_for_settings(("generated", snapshot.metadata.schema_string), lambda: _resolved(evaluator, snapshot))
    session = evaluator.session()
    rows = logical(table, snapshot)
    local = evaluator.bridge.local(found.relation.seq, rows, found.relation.schema_json, session)
    result = evaluator.bridge.evaluate(evaluator.bridge.with_fixed_time(evaluator.bridge.project(found.outputs, local)), evaluator.spark, session)
    for column in generated_columns(snapshot.schema):
        at = table.column_names.index(column.name)
        table = table.set_column(at, table.schema.field(at), result.column(column.name).cast(table.schema.field(at).type))
    return table


@public_errors()
def _resolved(evaluator: Evaluator, snapshot: Snapshot) -> _ResolvedRow:
    target = evaluator.target(snapshot)
    computed = generated_values(target, ())
    frame = evaluator.probe(target, None, evaluator.session())
    plan = analyzed(frame.select(*(computed[n].alias(n) if n in computed else target.columns[n] for n in target.schema.names)))
    return _ResolvedRow(target.row(evaluator.bridge), plan.projectList())
