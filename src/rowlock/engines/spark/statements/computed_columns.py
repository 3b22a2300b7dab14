"""Computes generated columns wherever a statement does not set them, and gives new rows their numbers in identity columns (I3, I5, I9).

A generated value is computed from the row as it will be written, after the statement's own values were cast to the table's types.
Whether a value that a statement does set is right is checked together with the table's constraints (`constraint_checks`).
Rows that need numbers, those of an append and those that a MERGE inserts, are pinned and counted first, so that as many numbers are reserved as
there are rows, and a row keeps its number in every rebase: it follows from the row's place among the pinned ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import StructType

from rowlock.engines.spark.catalyst.analysis import Relation, Resolved, Resolver, Target
from rowlock.engines.spark.catalyst.bridge import JavaObject, analyzed, class_name, unaliased
from rowlock.engines.spark.catalyst.errors import public_errors
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.read.scan import project
from rowlock.engines.spark.read.stored_origin import SOURCE_ROW
from rowlock.engines.spark.statements.sources import Source, pin
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import logical
from rowlock.protocol.column_values import Generated, Identity, generated_columns, identity_columns, refuse_explicit, refuse_update
from rowlock.protocol.schema import quote

ACTION = "__rowlock_action"
"""The output of a MERGE that holds the index of the clause that applies to a row, -1 for none."""


def generated_values(target: Target, given: Collection[str]) -> dict[str, Column]:
    """The expression of each generated column that is not in `given`, over columns with the table's names."""
    return {g.name: _value(g, target.schema) for g in target.generated if g.name not in given}


def _value(column: Generated, schema: StructType) -> Column:
    return F.expr(column.expression).cast(schema[column.name].dataType)


def with_generated_values(frame: DataFrame, schema: StructType, columns: Collection[Generated]) -> DataFrame:
    """A DataFrame with the table's column names, in which `columns` are computed from the others."""
    computed = {c.name: _value(c, schema) for c in columns}
    return _replaced(frame, computed, frame.columns) if computed else frame


def _replaced(frame: DataFrame, computed: Mapping[str, Column], names: Sequence[str]) -> DataFrame:
    return project(frame, {n: computed[n].alias(n) if n in computed else n for n in names})


def with_recomputed(resolver: Resolver, frame: DataFrame, computed: Mapping[str, Column]) -> DataFrame:
    """The outputs of a statement with the columns `computed` calculated from the other outputs, as one projection of what the statement reads.

    A frame that is not a projection is returned unchanged: `Resolver.resolved` refuses it by name.
    """
    if not computed or class_name(analyzed(frame)) != "Project":
        return frame
    outer = analyzed(_replaced(frame, computed, frame.columns))
    if class_name(outer) != "Project" or class_name(outer.child()) != "Project":
        return frame
    bridge = resolver.bridge
    outputs = bridge.collapse_project.buildCleanedProjectList(outer.projectList(), outer.child().projectList())
    return bridge.dataframe(bridge.project(outputs, outer.child().child()), resolver.spark, frame._jdf.sparkSession())


def values_not_set(tables: Target, rows: Sequence[Mapping[str, Any] | None]) -> dict[str, Column]:
    """The generated columns that some clause does not set, computed only for the rows of these clauses."""
    out = {}
    for name, value in generated_values(tables, ()).items():
        without = [n for n, r in enumerate(rows) if r is not None and name not in r]
        if any(r is not None and name in r for r in rows):
            value = F.when(F.col(ACTION).isin(without), value).otherwise(F.col(quote(name)))
        if without:
            out[name] = value
    return out


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
    frame = evaluator.probe(target, None, evaluator.session())
    plan = analyzed(_replaced(frame, generated_values(target, ()), target.schema.names))
    return _ResolvedRow(target.row(evaluator.bridge), plan.projectList())


class Inserting(Protocol):
    """A WHEN clause, once it is known which columns it sets."""

    @property
    def sets(self) -> tuple[str, ...]: ...


@contextmanager
def numbered_rows(evaluator: Evaluator, snapshot: Snapshot, frame: DataFrame) -> Iterator[DataFrame]:
    """The rows of an append with the identity columns that they lack; what was pinned for them is released at the end of the block.

    Raises StatementRefused for rows that give a column which is generated always.
    """
    given = {name.lower() for name in frame.columns}
    refuse_explicit(snapshot.schema, given, snapshot.table)
    absent = [i for i in identity_columns(snapshot.schema) if i.name.lower() not in given]
    if not absent:
        yield frame
        return
    source = pin(evaluator, frame)
    try:
        firsts = evaluator.numbers(absent).take(source.num_rows)
        rows = source.numbered_frame(evaluator)
        yield rows.select("*", *(_number(i, firsts, F.col(SOURCE_ROW)).alias(i.name) for i in absent)).drop(SOURCE_ROW)
    finally:
        source.release(evaluator)


def _number(column: Identity, firsts: Mapping[str, int], row: Column) -> Column:
    return F.lit(firsts[column.name]).cast("bigint") + row * F.lit(column.step).cast("bigint")


Numbered = Sequence[tuple[Identity, Sequence[int]]]  # identity columns, each with the WHEN NOT MATCHED clauses that set it themselves


def numbered_by(tables: Target, updates: Sequence[Inserting], inserts: Sequence[Inserting], snapshot: Snapshot) -> Numbered:
    """The identity columns that an insert of a MERGE leaves out.  Raises StatementRefused for clauses that set what they may not."""
    for clause in updates:
        refuse_update(snapshot.schema, set(clause.sets), snapshot.table)
    for clause in inserts:
        refuse_explicit(snapshot.schema, {name.lower() for name in clause.sets}, snapshot.table)
    found = [(column, [n for n, clause in enumerate(inserts) if column.name in clause.sets]) for column in tables.identities]
    return [(column, sets) for column, sets in found if len(sets) < len(inserts)]


def numbered_inserts(
    evaluator: Evaluator,
    resolver: Resolver,
    tables: Target,
    columns: Numbered,
    source: Source,
    inserts: Resolved,
    attributes: JavaObject,
    clauses: Sequence[Inserting],
    session: JavaObject,
) -> Resolved:
    """The outputs of a MERGE's inserts with numbers in the identity columns where no clause sets them, and with what is generated from these.

    Reserves a number for each row of the source; they lie beyond what clauses set, as with delta-spark.  `attributes`: those of the source, and the number of its row.
    """
    if not columns:
        return inserts
    bridge, names, outputs = evaluator.bridge, tables.schema.names, evaluator.bridge.list(inserts.outputs)
    rows = bridge.dataframe(inserts.rows(bridge, source.plan(evaluator, attributes, session)), evaluator.spark, session)
    action, row = bridge.column(unaliased(outputs[len(names)])), bridge.column(tables.source_row)
    given = {c: F.when(action.isin(*sets), bridge.column(unaliased(outputs[names.index(c.name)]))) for c, sets in columns if sets}
    furthest = rows.agg(*((F.max if c.step > 0 else F.min)(value) for c, value in given.items())).first() if given else None
    firsts = evaluator.numbers([c for c, _ in columns]).take(source.num_rows, {c.name: n for c, n in zip(given, furthest or (), strict=True) if n is not None})
    numbers = [(given[c].otherwise(n) if c in given else n).alias(c.name) for c, _ in columns for n in (_number(c, firsts, row),)]
    for (column, _), number in zip(columns, bridge.list(analyzed(rows.select(*numbers)).projectList()), strict=True):
        outputs[names.index(column.name)] = number
    if not tables.generated:
        return replace(inserts, outputs=bridge.seq(outputs))
    frame = bridge.dataframe(bridge.project(bridge.seq(outputs), analyzed(rows)), evaluator.spark, session)
    computed = with_recomputed(resolver, frame, values_not_set(tables, [dict.fromkeys(c.sets) for c in clauses]))
    return replace(inserts, outputs=analyzed(computed).projectList())
