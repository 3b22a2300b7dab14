"""Plans the statements on one table: what UPDATE, DELETE, MERGE, appends, overwrites and OPTIMIZE mean at a snapshot.

Each is resolved once, by Spark's analyzer; `statements/` runs it over slices, at staging and in every rebase alike.  Nothing is read by an UPDATE or a
DELETE here; an append stages its rows, a MERGE pins its source.

An overwrite is a DELETE (of all rows, of those of a condition or of the partitions that new rows fall into) and the append; or a MERGE that deletes
the rows that a new row matches, and the append, over one reading of the new rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import StructType

from rowlock.boundary.effects import RowBlock
from rowlock.boundary.engine import Statement, TableRead, refuse_on_append_only
from rowlock.conditions import named
from rowlock.engines.spark.catalyst.analysis import Expression, Resolved, Resolver, Target, as_column, assigned_columns, is_default, outcome_frame, target_path
from rowlock.engines.spark.catalyst.bridge import JavaObject, analyzed, bare, nullable
from rowlock.engines.spark.catalyst.errors import public_errors
from rowlock.engines.spark.catalyst.predicates import translated
from rowlock.engines.spark.catalyst.types import marked, padded
from rowlock.engines.spark.frames.reading import Reader
from rowlock.engines.spark.read.scan import empty_frame, local_frame, table_schema, wrap_session
from rowlock.engines.spark.read.stored_origin import SOURCE_ROW
from rowlock.engines.spark.statements.append import append_statement, conform
from rowlock.engines.spark.statements.computed_columns import generated_values, with_recomputed
from rowlock.engines.spark.statements.merge_plan import Clause, Clauses, Values, merge_statement
from rowlock.engines.spark.statements.row_comparison import have_same_rows
from rowlock.engines.spark.statements.row_statements import RowPlan, row_mask
from rowlock.engines.spark.statements.sources import Source, table_reads
from rowlock.exceptions import SchemaMismatch, StatementRefused
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import logical
from rowlock.parquet.physical import names_in_files
from rowlock.parquet.writing import split_by_partition
from rowlock.protocol.actions import AddFile
from rowlock.protocol.column_values import Identity, refuse_update
from rowlock.protocol.schema import quote
from rowlock.transaction.state.call import settings
from rowlock.transaction.transaction import Planned

_DEEP = 10
"""From which depth on a field is set without Spark's elimination of common parts: the code that it makes doubles with each level, and 30 take more than a heap."""
_EVERY_ROW = ["true"]
"""The `predicate` of a DELETE without a condition, as delta-spark writes it; that of such an UPDATE is empty."""
_WITHOUT_CHANGE = "DELTA_REPLACE_WHERE_WITH_FILTER_DATA_CHANGE_UNSET"
_TABLE, _ROWS, _NUMBER = "__rowlock_table", "__rowlock_rows", "__rowlock_n"
_DELETED = Clauses(matched=(Clause("delete", None),))


@dataclass(frozen=True, slots=True)
class Overwrite:
    """What an overwrite replaces.

    where    the condition of the rows; None for all
    dynamic  the partitions that the new rows fall into, of a table that has partitions
    schema   the columns and the partitioning, too
    same     no row changes: the new rows are those that are there, and only their files are others
    on       the rows that a new row matches by this condition over both, in which `alias` is the table's name
    using    the rows that a new row matches by equal values of these columns
    """

    where: str | Column | None = None
    dynamic: bool = False
    schema: bool = False
    same: bool = False
    on: str | Column | None = None
    using: Sequence[str] = ()
    alias: str | None = None

    @property
    def by_match(self) -> bool:
        """Whether it replaces the rows that a new row matches."""
        return self.on is not None or bool(self.using)


class Planner(Reader):
    """Plans the statements on one table of one session, and reads it.  Each method returns the statements of one call, and its parameters for the commit."""

    def planned(self, snapshot: Snapshot, plan: Callable[[Planner, Snapshot], Planned]) -> Planned:
        """What `plan` makes of a snapshot; columns of DataFrames that `toDF` gave are the table's in it."""
        with self.evaluator.with_own_columns(snapshot):
            return plan(self, snapshot)

    @public_errors()
    def update(
        self,
        snapshot: Snapshot,
        condition: Expression | None,
        assignments: Mapping[Any, Expression],
        alias: str | None,
        values: Values | None = None,
    ) -> Planned:
        """A resolved UPDATE.  Reads nothing.  Raises Spark's AnalysisException, SchemaMismatch, StatementRefused.

        `values` computes the scalar subqueries in assignments.
        """
        refuse_on_append_only(snapshot)
        queries: list[DataFrame] = []
        assignments = assignments if values is None else values(assignments, queries)
        session, target = self.evaluator.session(variables=True), self.evaluator.target(snapshot)
        resolver = Resolver(self.evaluator.spark, self.evaluator.probe(target, alias, session), "UPDATE", self.evaluator.store.root)

        def outputs(cast: bool) -> list[Column]:
            new = assigned_columns(resolver, target, assignments, alias, insert=False, cast=cast)
            return [new.get(f.name, target.columns[f.name]) for f in target.schema.fields]

        paths = [target_path(k, target.schema, alias, self.evaluator.store.root) for k in assignments]
        if max(map(len, paths), default=0) > _DEEP:
            session.conf().set("spark.sql.subexpressionElimination.enabled", "false")
        keys = {path[0] for path in paths}
        refuse_update(snapshot.schema, keys, self.evaluator.store.root)
        computed = generated_values(target, keys)
        frame = outcome_frame(resolver, target.schema, outputs, condition, try_plain=True)
        resolved = resolver.fixed(with_recomputed(resolver, frame, computed), condition, target.address)
        sets = tuple(n for n in target.schema.names if n in keys)
        read = tuple(one for frame in queries for one in table_reads(self.evaluator, frame, snapshot))
        return _planned(self._statement("update", target, resolved, session, sets, read))

    @public_errors()
    def delete(self, snapshot: Snapshot, condition: Expression | None, alias: str | None) -> Planned:
        """A resolved DELETE.  Reads nothing.  Raises Spark's AnalysisException, StatementRefused."""
        refuse_on_append_only(snapshot)
        session, target = self.evaluator.session(variables=True), self.evaluator.target(snapshot)
        resolver = Resolver(self.evaluator.spark, self.evaluator.probe(target, alias, session), "DELETE", self.evaluator.store.root)
        resolved = resolver.fixed(resolver.selected([], condition), condition, target.address)
        return _planned(self._statement("delete", target, resolved, session))

    def _statement(
        self,
        kind: Any,
        target: Target,
        resolved: Resolved,
        session: JavaObject,
        sets: tuple[str, ...] = (),
        read: tuple[TableRead, ...] = (),
    ) -> Statement:
        plain = translated(self.evaluator.bridge, resolved.condition, target.ids)
        reads = None if plain is None else plain.reads
        references = self.evaluator.bridge.list(resolved.condition.references().toSeq()) if kind == "delete" and resolved.condition is not None else []
        columns = tuple(target.names[int(a.exprId().id())] for a in references)
        everything = resolved.condition is None or str(resolved.condition.toString()) == "true"
        text = (_EVERY_ROW if kind == "delete" else []) if resolved.condition is None else [str(resolved.condition.sql())]
        plan = RowPlan(kind, target.relation, resolved, session, everything, reads, columns, row_mask(plain))
        return Statement(kind, plan, reads, parameters={"predicate": text}, source_reads=read, sets=sets)

    def merge(
        self, snapshot: Snapshot, source: DataFrame, on: Expression, clauses: Clauses, alias: str | None, pinned: list[Source], new: Collection[str] = ()
    ) -> Planned:
        """See `merge_statement`."""
        with self.evaluator.with_own_columns(snapshot, source):
            return _planned(merge_statement(self.evaluator, snapshot, source, on, clauses, alias, pinned, new))

    @public_errors()
    def check_columns_of_now(self, snapshot: Snapshot, source: DataFrame, on: Expression, clauses: Clauses, alias: str | None) -> None:
        """Raises Spark's AnalysisException where a condition or a value of a MERGE names a column of the table that the MERGE itself would add."""
        probe = self.evaluator.probe(self.evaluator.target(snapshot), alias, self.evaluator.session(variables=True))
        given = self.evaluator.bridge.dataframe(analyzed(source.select("*")), self.evaluator.spark, self.evaluator.session(variables=True))
        clauses, _ = clauses.computed()
        with self.evaluator.with_own_columns(snapshot, source):
            for frame, group in ((probe.join(given, as_column(on)), clauses.matched), (probe, clauses.not_matched_by_source)):
                values = [v for c in group for v in (c.condition, *(c.assignments or {}).values()) if v is not None and not is_default(v)]
                frame.select([as_column(v) for v in values])

    def append(self, snapshot: Snapshot, frame: DataFrame, max_records: int | None = None) -> Planned:
        """An append, and its parameters."""
        return [append_statement(self.evaluator, snapshot, frame, max_records=max_records)], {"mode": "Append", "partitionBy": []}

    def overwrite(self, snapshot: Snapshot, frame: DataFrame, what: Overwrite, alias: str | None = None, max_records: int | None = None) -> Planned:
        """A delete and an append that belong together, and their parameters."""
        parameters: dict[str, Any] = {"mode": "Overwrite", "partitionBy": [], **({"isDynamicPartitionOverwrite": True} if what.dynamic else {})}
        if what.dynamic and snapshot.partition_columns:
            refuse_on_append_only(snapshot)  # before rows are staged
            append = append_statement(self.evaluator, snapshot, frame, max_records=max_records)
            (gone,), _ = self.delete(snapshot, condition_of(partitions_of(append.payload, snapshot), snapshot), alias)
            return [replace(gone, parameters={}), append], parameters  # as delta-spark: no rows that went are counted
        if by_partitions := what.where is not None and not settings().flag("replaceWhere.dataColumns.enabled"):
            self._check_partition_condition(snapshot, what.where, alias=what.alias)
        (delete,), _ = self.delete(snapshot, what.where, what.alias or alias)
        checks = what.where is not None and (by_partitions or settings().flag("replaceWhere.constraintCheck.enabled"))
        append = append_statement(self.evaluator, snapshot, frame, must_meet=delete if checks else None, max_records=max_records)
        text = what.where if what.where is None or isinstance(what.where, str) else delete.parameters["predicate"][0]  # a Column has no text of its own
        return [delete, append], parameters | ({} if text is None else {"predicate": text})

    def matching(self, snapshot: Snapshot, df: DataFrame, what: Overwrite, pinned: list[Source], max_records: int | None) -> Planned:
        """A MERGE that deletes the rows that a new row matches, an append of all new rows over the same reading of them, and their parameters.

        `pinned`: the source of the MERGE, which the first try adds and later ones find.  Raises SchemaMismatch, StatementRefused on an append-only table, and what
        a MERGE and an append raise.
        """
        refuse_on_append_only(snapshot)
        parameters = {"replaceOn": str(what.on)} if what.on is not None else {"replaceUsing": list(what.using)}
        on, alias = what.on, what.alias
        if on is None:
            df, on, alias = df.alias(_ROWS), _equal(what.using, df, snapshot), _TABLE
        merge = merge_statement(self.evaluator, snapshot, df, on, _DELETED, alias, pinned)
        rows = merge.payload.source.numbered_frame(self.evaluator).drop(SOURCE_ROW)
        append = append_statement(self.evaluator, snapshot, rows, max_records=max_records, read=merge.source_reads)
        return [merge, append], {"mode": "Overwrite", "partitionBy": [], **parameters}

    def holds_rows(self, snapshot: Snapshot, df: DataFrame, where: str | None) -> bool:
        """Whether the rows of `df` are those of a table, or of the partitions that `where` names.  One Spark job.  Raises StatementRefused for another condition."""
        if where is not None:
            self._check_partition_condition(snapshot, where, _WITHOUT_CHANGE)
        held = self.rows(snapshot)
        return have_same_rows(held if where is None else held.where(where), conform(df, table_schema(snapshot), snapshot.table))

    def files_where(self, snapshot: Snapshot, condition: str | None) -> list[AddFile]:
        """The live files whose partition values meet `condition`; all live files where it is None.  No job.  Raises AnalysisException, StatementRefused."""
        files = list(snapshot.files.adds())
        if condition is None:
            return files
        if snapshot.clustering_columns:
            why = named("DELTA_CLUSTERING_WITH_PARTITION_PREDICATE", predicates=condition)
            raise StatementRefused("Clustering columns order all of the table: leave WHERE out", what=condition, table=snapshot.table, condition=why)
        session, fields = wrap_session(self.evaluator.spark, self.evaluator.session(variables=True)), nullable(table_schema(snapshot)).fields
        wanted = StructType([f for f in fields if f.name in snapshot.partition_columns])
        self._check_partition_condition(snapshot, condition)
        stored = [names_in_files(snapshot)[n] for n in wanted.names]
        held = sorted({tuple(f.partition_values.get(n) for n in stored) for f in files}, key=repr)
        texts = [pa.array([values[n] or None for values in held], pa.string()) for n in range(len(stored))]
        table = pa.table([*texts, pa.array(range(len(held)), pa.int64())], names=[*wanted.names, _NUMBER])
        # As a scan has them.
        typed = local_frame(session, table).select(*(marked(padded(F.col(quote(f.name)).cast(bare(f.dataType)), f), f) for f in wanted.fields), _NUMBER)
        chosen = typed.where(condition).select(_NUMBER)
        met = {held[row[0]] for row in chosen.collect()}
        return [f for f in files if tuple(f.partition_values.get(n) for n in stored) in met]

    def _check_partition_condition(
        self, snapshot: Snapshot, condition: str | Column, why: str = "DELTA_NON_PARTITION_COLUMN_REFERENCE", alias: str | None = None
    ) -> None:
        """Raises StatementRefused, with the error condition `why`, for a condition that names a column by which the table is not partitioned, AnalysisException for one that cannot be resolved."""
        session, fields = wrap_session(self.evaluator.spark, self.evaluator.session()), nullable(table_schema(snapshot)).fields
        frame = empty_frame(session, StructType(fields))
        resolved = analyzed((frame if alias is None else frame.alias(alias)).where(condition))
        # The condition may spell them otherwise.
        names = {str(a.exprId()): f.name for a, f in zip(self.evaluator.bridge.list(resolved.output()), fields, strict=True)}
        used = {names[str(a.exprId())] for a in self.evaluator.bridge.list(resolved.condition().references().toSeq())}
        if other := used - set(snapshot.partition_columns):
            listed = ", ".join(snapshot.partition_columns)
            text = f"Predicate references non-partition column '{min(other)}'. Only the partition columns may be referenced: [{listed}]"
            parameters = {"dataFilters": str(condition)} if why == _WITHOUT_CHANGE else {"columnName": min(other), "columnList": listed}
            raise StatementRefused(text, what=str(condition), table=self.evaluator.store.root, condition=named(why, **parameters))

    def predicate_text(self, condition: str) -> str:
        """A condition as delta-spark writes it into the log for OPTIMIZE: parsed, not yet resolved.  Raises Spark's ParseException."""
        return str(self.evaluator.spark._jsparkSession.sessionState().sqlParser().parseExpression(condition).toString())

    def furthest_number(self, snapshot: Snapshot, column: Identity) -> int | None:
        """The number in the rows of a snapshot that lies furthest in the direction of the column's step; None where all are null.  One Spark job."""
        value = F.col(quote(column.name))
        row = self.rows(snapshot).agg(F.max(value) if column.step > 0 else F.min(value)).first()
        return None if row is None or row[0] is None else int(row[0])


def _planned(statement: Statement) -> Planned:
    """A call of one statement."""
    return [statement], statement.parameters


Partition = tuple[str | None, ...]
"""The values of a partition's columns, as the log spells them."""


def partitions_of(blocks: Sequence[RowBlock], snapshot: Snapshot) -> list[Partition]:
    """The partitions in which staged rows of an append lie, each once."""
    stored = names_in_files(snapshot)
    keys = [stored[c] for c in snapshot.metadata.partition_columns]
    found: dict[Partition, None] = {}
    for block in blocks:
        values = [f.partition_values for f in block.payload.files]
        values += [v for table in block.payload.tables for v, _ in split_by_partition(logical(table, snapshot), snapshot)]
        found.update(dict.fromkeys(tuple(v.get(k) or None for k in keys) for v in values))
    return list(found)


def condition_of(partitions: Sequence[Partition], snapshot: Snapshot) -> Column:
    """The condition that is true for the rows of these partitions and for no others."""
    types = {f.name: f.dataType for f in table_schema(snapshot).fields}
    names = list(snapshot.metadata.partition_columns)

    def is_one_of(number: int) -> Column:
        """Whether a column has a value that occurs: of one column this says all, of several it lets files be skipped."""
        column, values = F.col(quote(names[number])), list(dict.fromkeys(p[number] for p in partitions))
        some = column.isin(*[F.lit(v).cast(types[names[number]]) for v in values if v is not None])
        return some if None not in values else column.isNull() if values == [None] else some | column.isNull()

    def exactly(partition: Partition) -> Column:
        return _joined([F.col(quote(n)).eqNullSafe(F.lit(v).cast(types[n])) for n, v in zip(names, partition, strict=True)], any_of=False)

    if not partitions:
        return F.lit(False)
    columns = _joined([is_one_of(n) for n in range(len(names))], any_of=False)
    return columns if len(names) == 1 else columns & _joined([exactly(p) for p in partitions], any_of=True)


def _joined(parts: Sequence[Column], *, any_of: bool) -> Column:
    """The parts joined by OR or by AND, as a tree that is no deeper than it must be."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    left, right = _joined(parts[:half], any_of=any_of), _joined(parts[half:], any_of=any_of)
    return left | right if any_of else left & right


def _equal(columns: Sequence[str], df: DataFrame, snapshot: Snapshot) -> Column:
    """That a table's row and a new row have the same values, no null among them, in these columns.  Raises SchemaMismatch."""
    for has, names in (("the table has", snapshot.schema.names), ("the new rows have", df.columns)):
        if missing := [c for c in columns if c.lower() not in {n.lower() for n in names}]:
            text = f"replace_using names {missing[0]!r}, and {has} no such column, only {', '.join(names)}"
            condition = named("UNRESOLVED_INSERT_REPLACE_USING_COLUMN", colName=missing[0], relationType=has.split(" has")[0], suggestion=", ".join(names))
            raise SchemaMismatch(text, table=snapshot.table, condition=condition)
    return _joined([F.col(f"{_TABLE}.{quote(c)}") == F.col(f"{_ROWS}.{quote(c)}") for c in columns], any_of=False)
