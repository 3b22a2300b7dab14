"""Resolves a MERGE once: its clauses become three sets of expressions over fixed attributes.

pairs    over pairs of a target row and a source row that meet ON
alone    over target rows without a match (NOT MATCHED BY SOURCE)
inserts  over source rows without a match

The outputs of each are the new row, the index of the clause that applies, and the address or source row number.

Under schema evolution source columns that the clauses set and the table lacks are added, at the end and nullable, and so are fields of structs;
a wider type is taken where the table has type widening on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, functions as F, types as T

from rowlock.boundary.engine import Statement, TableRead
from rowlock.conditions import named
from rowlock.engines.spark.catalyst.analysis import (
    Expression,
    Relation,
    Resolved,
    Resolver,
    Target,
    as_column,
    assigned_columns,
    at_one_time,
    column_text,
    is_default,
    outcome_frame,
    target_path,
    without_name,
)
from rowlock.engines.spark.catalyst.bridge import Catalyst, JavaObject, analyzed, class_name
from rowlock.engines.spark.catalyst.column_rules import default_value
from rowlock.engines.spark.catalyst.errors import public_errors
from rowlock.engines.spark.catalyst.predicates import key_columns, translated
from rowlock.engines.spark.catalyst.types import columns_of_frame
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.engines.spark.statements.computed_columns import ACTION, numbered_by, numbered_inserts, values_not_set, with_recomputed
from rowlock.engines.spark.statements.sources import Source, frame_of_now, pin, read_meanwhile, table_reads
from rowlock.exceptions import InvalidInput, SchemaMismatch
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import predicates as ir
from rowlock.protocol.schema import RESERVED_PREFIX, ROW_INDEX, ColumnPath, StructType, column_path, quote, reserved_names


@dataclass(frozen=True, slots=True)
class Clause:
    """One WHEN clause as the user gave it.

    assignments  None for a DELETE and for the All forms
    all_columns  UPDATE SET * or INSERT *
    sets         the columns that the clause sets, known once it is resolved
    evolving     the All form sets only columns and fields of structs that the source has; in other forms a field that a struct lacks is null
    """

    kind: str
    condition: Expression | None
    assignments: Mapping[Any, Expression] | None = None
    all_columns: bool = False
    sets: tuple[str, ...] = ()
    evolving: bool = False

    def resolved(self, tables: Target, alias: str | None, table: str, source: DataFrame) -> Clause:
        """The clause with `sets` filled in.  Raises SchemaMismatch."""
        given, computed = {n.lower() for n in source.columns}, tables.made
        names = (
            [n for n in tables.schema.names if n.lower() in given or not (self.evolving or n in computed)]
            if self.all_columns
            else {target_path(k, tables.schema, alias, table)[0]: None for k in self.assignments or {}}
        )
        return replace(self, sets=tuple(names))


Values = Callable[[Mapping[Any, Expression], list[DataFrame]], Mapping[Any, Expression]]
"""Computes the scalar subqueries in assignments; their queries are added to the list."""
_UNREACHED = {
    "MATCHED": "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION",
    "NOT MATCHED": "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION",
    "NOT MATCHED BY SOURCE": "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
}


@dataclass(frozen=True, slots=True)
class Clauses:
    """The WHEN clauses of a MERGE by kind, in the user's order.

    values  what computes the scalar subqueries in assignments, anew for each planning
    """

    matched: tuple[Clause, ...] = ()
    not_matched: tuple[Clause, ...] = ()
    not_matched_by_source: tuple[Clause, ...] = ()
    values: Values | None = None

    def check(self, root: str) -> None:
        """Raises InvalidInput for a MERGE without clauses, and for a clause that cannot be reached."""
        if not (self.matched or self.not_matched or self.not_matched_by_source):
            text = "A MERGE needs at least one WHEN clause, such as whenMatchedUpdateAll() or whenNotMatchedInsertAll()"
            raise InvalidInput(text, table=root, condition=named("DELTA_MERGE_MISSING_WHEN"))
        for kind, group in (("MATCHED", self.matched), ("NOT MATCHED", self.not_matched), ("NOT MATCHED BY SOURCE", self.not_matched_by_source)):
            if any(c.condition is None for c in group[:-1]):
                text = f"Only the last WHEN {kind} clause may have no condition: the clauses after it could never apply"
                raise InvalidInput(text, table=root, condition=named(_UNREACHED[kind]))

    def computed(self) -> tuple[Clauses, Sequence[DataFrame]]:
        """(the clauses with computed values, the queries that gave these: what they read of the table is validated, as what the source reads)."""
        values, queries = self.values, list[DataFrame]()
        return self if values is None else self._each(lambda c: replace(c, assignments=c.assignments and values(c.assignments, queries))), queries

    def _each(self, made: Callable[[Clause], Clause]) -> Clauses:
        groups: dict[str, Any] = {name: tuple(map(made, getattr(self, name))) for name in ("matched", "not_matched", "not_matched_by_source")}
        return replace(self, **groups)

    def evolving(self) -> Clauses:
        """The clauses under schema evolution: updateAll and insertAll set only columns that the source has.

        The table's other columns keep their value in an update and are null in an insert.
        """
        return self._each(lambda clause: replace(clause, evolving=True))

    def columns_set(self, source: DataFrame, alias: str | None) -> StructType:
        """The columns of the source, and the fields of its structs, that the clauses set in the table; the table may have them already."""
        every, columns = [c for group in (self.matched, self.not_matched) for c in group], columns_of_frame(source)
        if any(c.all_columns for c in every):
            return columns
        paths = {_path(key, columns, alias) for c in every for key in c.assignments or {} if isinstance(key, str)}
        return _only(columns, paths)


@dataclass(frozen=True, slots=True)
class MergePlan:
    """A resolved MERGE.  The output ACTION holds the index of the clause that applies to a row, -1 for none.

    target, pair     the attributes of the target, and of the target and the source side by side
    source_side      the source's attributes beside the target's (a Scala Seq), the last of which is the number of the source row
    insert_side      the same without the target
    join             the analyzed Join of an empty target and the source
    keys             (target column, source column) by position, for each plain equality in ON of types that the driver compares as Spark does
    """

    clauses: Clauses
    session: JavaObject
    source: Source
    on: JavaObject
    target: Relation
    pair: Relation
    source_side: JavaObject
    pairs: Resolved
    alone: Resolved | None
    inserts: Resolved | None
    insert_side: JavaObject
    join: JavaObject
    keys: tuple[tuple[int, int], ...]

    @property
    def duplicates_allowed(self) -> bool:
        """Whether several source rows may match one target row; by Delta's rule where nothing follows but an unconditional DELETE, or nothing at all."""
        matched = self.clauses.matched
        return not matched or (len(matched) == 1 and matched[0].kind == "delete" and matched[0].condition is None)


@public_errors()
def merge_statement(
    evaluator: Evaluator,
    snapshot: Snapshot,
    source: DataFrame,
    on: Expression,
    clauses: Clauses,
    alias: str | None,
    pinned: list[Source],
    new: Collection[str] = (),
) -> Statement:
    """Resolves a MERGE, then pins its source, unless an earlier try of the same statement left it in `pinned`; it is there then.

    `new`: the columns that this MERGE adds to the table.  In its conditions and values their names mean the source's columns alone.
    Raises AnalysisException, SchemaMismatch, StatementRefused, InvalidInput.  `Clauses.check` was asked before.
    """
    root, source, (clauses, queries) = evaluator.store.root, frame_of_now(source), clauses.computed()
    _check_names(snapshot, source, root)
    session, tables, bridge = evaluator.session(variables=True), evaluator.target(snapshot), evaluator.bridge
    probe = evaluator.probe(tables, alias, session)
    given = bridge.dataframe(analyzed(source.select("*")), evaluator.spark, session)
    pair = _pair(_without_names(probe, new, evaluator, session), given, on, root)
    resolver, target_resolver, source_resolver = (Resolver(evaluator.spark, f, "MERGE", root) for f in (pair, probe, given))
    others = _Part(target_resolver, clauses.not_matched_by_source), _Part(source_resolver, clauses.not_matched, insert=True)
    parts = _analyzed([_Part(resolver, clauses.matched), *(p for p in others if p.clauses)], tables, alias, source)
    join = _join_of(*parts[0])
    left, right = [*bridge.list(join.left().output()), *tables.address], [*bridge.list(join.right().output()), tables.source_row]
    condition = join.condition().get()
    resolver.check(condition)
    groups = clauses.matched, clauses.not_matched_by_source, clauses.not_matched
    matched, by_source, inserting = ([c.resolved(tables, alias, root, source) for c in group] for group in groups)
    numbered = numbered_by(tables, (*matched, *by_source), inserting, snapshot)
    held, read = _pinned(evaluator, snapshot, source, pinned)
    read += tuple(one for frame in queries for one in table_reads(evaluator, frame, snapshot))
    target = Relation.of(bridge, left, tables.relation.schema)
    alone = parts[1][0].resolved(parts[1][1], beside=tables.address) if clauses.not_matched_by_source else None
    inserts = parts[-1][0].resolved(parts[-1][1], beside=(tables.source_row,)) if clauses.not_matched else None
    insert_side = bridge.seq([*source_resolver.attributes(), tables.source_row])
    inserts = inserts and numbered_inserts(evaluator, source_resolver, tables, numbered, held, inserts, insert_side, inserting, session)
    # Under names of their own, since target and source may share some.
    both = [T.StructField(f"c{n}", f.dataType, True) for n, f in enumerate((*target.schema.fields, *held.numbered_schema.fields))]
    plan = MergePlan(
        clauses=replace(clauses, matched=tuple(matched), not_matched_by_source=tuple(by_source)),
        session=session,
        source=held,
        on=condition,
        target=target,
        pair=Relation.of(bridge, [*left, *right], T.StructType(both)),
        source_side=bridge.seq(right),
        pairs=parts[0][0].resolved(parts[0][1], beside=(tables.source_row, *tables.address)),
        alone=alone,
        inserts=inserts,
        insert_side=insert_side,
        join=join,
        keys=key_columns(bridge, condition, left, right, (tables.schema, source.schema)),
    )
    reads = None if clauses.not_matched_by_source else _reads(bridge, plan, tables)
    sets = tuple(dict.fromkeys(name for c in (*matched, *by_source) for name in c.sets))
    return Statement("merge", plan, reads, parameters=_parameters(condition, clauses), source_reads=read, sets=sets, source_rows=held.num_rows)


def _pair(target: DataFrame, source: DataFrame, on: Expression, root: str) -> DataFrame:
    """Both sides where they meet ON.  Raises Spark's AnalysisException, StatementRefused for what differs each time it is computed."""
    try:
        return target.join(source, as_column(on))
    except AnalysisException as e:
        if e.getCondition() == "INVALID_NON_DETERMINISTIC_EXPRESSIONS":  # Spark's own, of a join that nobody wrote
            both = Resolver(target.sparkSession, target.crossJoin(source), "MERGE", root)
            both.resolved(analyzed(both.selected([as_column(on)])))
        raise


def _join_of(resolver: Resolver, pairs: JavaObject) -> JavaObject:
    """The Join below the outputs of the pairs.  Raises StatementRefused."""
    join = pairs.child().child() if resolver.draws else pairs.child()
    if class_name(join) != "Join":
        raise resolver.wider(pairs, "an aggregate, a window or a generator in its ON condition, which compares one target row with one source row")
    return join


def _pinned(evaluator: Evaluator, snapshot: Snapshot, source: DataFrame, pinned: list[Source]) -> tuple[Source, tuple[TableRead, ...]]:
    """(the source as it is read, what it reads of the table): one that reads the table is pinned anew, another once."""
    read = table_reads(evaluator, source, snapshot)
    if read or not pinned:
        pinned.append(pin(evaluator, source))
    return pinned[-1], read + read_meanwhile(evaluator, source, snapshot.version, read)


def _without_names(probe: DataFrame, names: Collection[str], evaluator: Evaluator, session: JavaObject) -> DataFrame:
    """The frame with reserved names in place of these, so that a condition beside another frame means the other's columns by them."""
    if not names:
        return probe
    bridge, plan = evaluator.bridge, analyzed(probe)
    renamed = [a.withName(RESERVED_PREFIX + a.name()) if a.name() in names else a for a in bridge.list(plan.output())]
    return bridge.dataframe(bridge.project(bridge.seq(renamed), plan), evaluator.spark, session)


def _check_names(snapshot: Snapshot, source: DataFrame, root: str) -> None:
    """Raises SchemaMismatch for a target without columns, and for a column of the source whose name is Rowlock's own."""
    if not snapshot.schema.fields:
        text = "The target has no columns yet: write rows with mergeSchema first, or MERGE WITH SCHEMA EVOLUTION"
        raise SchemaMismatch(text, table=root, condition=named("DELTA_MERGE_INTO_EMPTY_SCHEMA_TARGET"))
    if reserved := reserved_names(source.columns):
        text = f"The source of the MERGE has a column {reserved[0]!r}: {RESERVED_PREFIX}... and {ROW_INDEX} are Rowlock's own; rename it"
        raise SchemaMismatch(text, table=root)


@dataclass(frozen=True, slots=True)
class _Part:
    """The clauses of one kind, and what resolves them."""

    resolver: Resolver
    clauses: Sequence[Clause]
    insert: bool = False

    def with_draws(self) -> _Part:
        """The same clauses over a frame that computes what is not deterministic in their values (see `Draws`)."""
        given = [(n, key, value) for n, c in enumerate(self.clauses) for key, value in (c.assignments or {}).items() if not is_default(value)]
        resolver, values = self.resolver.with_draws([value for _, _, value in given])
        drawn = {(n, key): value for (n, key, _), value in zip(given, values, strict=True)}
        clauses = [
            c if c.assignments is None else replace(c, assignments={k: drawn.get((n, k), v) for k, v in c.assignments.items()})
            for n, c in enumerate(self.clauses)
        ]
        return replace(self, resolver=resolver, clauses=clauses)


def _analyzed(parts: Sequence[_Part], tables: Target, alias: str | None, source: DataFrame) -> list[tuple[Resolver, JavaObject]]:
    """The analyzed outcome of each part, all at the same current time, and what resolved it.  Raises StatementRefused."""

    def plans(of: Sequence[_Part]) -> list[JavaObject]:
        return at_one_time(of[0].resolver.bridge, [analyzed(_outcome(p.resolver, tables, p.clauses, alias, source, insert=p.insert)) for p in of])

    found = plans(parts)
    if not all(plan.deterministic() for plan in found):
        parts = [p.with_draws() for p in parts]
        found = plans(parts)
    return [(p.resolver, plan) for p, plan in zip(parts, found, strict=True)]


def _outcome(resolver: Resolver, tables: Target, clauses: Sequence[Clause], alias: str | None, source: DataFrame, *, insert: bool = False) -> DataFrame:
    """A frame of the new row (each column by the clause that applies), and ACTION."""
    conditions = [None if c.condition is None else as_column(c.condition) for c in clauses]
    types = {f.name: f.dataType for f in tables.schema.fields}
    new = {**tables.nulls, **{name: default_value(text, types[name]).alias(name) for name, text in tables.defaults.items()}}
    own = new if insert else tables.columns  # what a column is that the clause does not name
    rows: list[dict[str, Column] | None] = []

    def outputs(cast: bool) -> list[Column]:
        rows[:] = [_new_row(resolver, tables, c, alias, source, insert=insert, cast=cast) for c in clauses]
        return [*(_new_value(name, conditions, rows, own, tables) for name in tables.schema.names), action]

    action = _chain(conditions, [F.lit(n) for n in range(len(clauses))], F.lit(-1)).alias(ACTION)
    try:
        frame = outcome_frame(resolver, tables.schema, outputs, None, try_plain=len(conditions) == 1 and conditions[0] is None)
    except AnalysisException as e:
        if e.getCondition() == "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE":  # perhaps of a CASE that nobody wrote: Spark says then which condition is none
            for condition in conditions:
                _ = resolver.frame if condition is None else resolver.frame.where(condition)
        raise
    return with_recomputed(resolver, frame, values_not_set(tables, rows))


def _new_value(name: str, conditions: Sequence[Column | None], rows: Sequence[dict[str, Column] | None], own: Mapping[str, Column], tables: Target) -> Column:
    if all(r is None for r in rows):
        return tables.nulls[name]
    values = [own[name] if r is None else r.get(name, own[name]) for r in rows]
    return values[0] if conditions[0] is None else _chain(conditions, values, own[name]).alias(name)


def _chain(conditions: Sequence[Column | None], values: Sequence[Column], default: Column) -> Column:
    """CASE over the conditions: the value of the first one that holds (None always does), else `default`."""
    out: Column | None = None
    for condition, value in zip(conditions, values, strict=True):
        if condition is None:
            return value if out is None else out.otherwise(value)
        out = F.when(condition, value) if out is None else out.when(condition, value)
    return default if out is None else out.otherwise(default)


def _new_row(resolver: Resolver, tables: Target, clause: Clause, alias: str | None, source: DataFrame, *, insert: bool, cast: bool) -> dict[str, Column] | None:
    if clause.kind == "delete":
        return None
    assignments = _all_columns(resolver, tables, source, insert=insert, lenient=clause.evolving) if clause.all_columns else clause.assignments
    keeps = clause.evolving and clause.all_columns and not insert
    return assigned_columns(resolver, tables, assignments or {}, alias, insert=insert, cast=cast, lenient=clause.evolving, keeps=keeps)


def _all_columns(resolver: Resolver, tables: Target, source: DataFrame, *, insert: bool, lenient: bool) -> dict[Any, Expression]:
    """The assignments of UPDATE SET * or INSERT *: each target column from the source column of the same name.

    With `lenient` only columns that the source has.  A generated or identity column that the source lacks is left out, and made.
    Raises SchemaMismatch; Spark's AnalysisException where the source has two columns of one name.
    """
    plan = analyzed(resolver.frame).child() if resolver.draws else analyzed(resolver.frame)
    by_name: dict[str, list[tuple[str, JavaObject]]] = {}
    for attribute in resolver.bridge.list((plan if insert else plan.right()).output()):
        by_name.setdefault((name := str(attribute.name())).lower(), []).append((name, attribute))
    names = tables.schema.names
    if twice := [quote(n) for n in names if len(by_name.get(n.lower(), ())) > 1]:
        source.select(*twice)  # Spark refuses what is ambiguous
    if lenient:
        names = [n for n in names if n.lower() in by_name]
    computed = tables.made
    names = [n for n in names if n.lower() in by_name or n not in computed]
    if missing := [n for n in names if n.lower() not in by_name]:
        form = "insertAll" if insert else "updateAll"
        text = f"The source of the MERGE lacks the column {missing[0]}, which {form} needs; it has {', '.join(source.columns)}"
        condition = named("DELTA_MERGE_UNRESOLVED_EXPRESSION", sqlExpr=missing[0], clause=form, cols=", ".join(source.columns))
        raise SchemaMismatch(text, table=resolver.table, condition=condition)
    return {quote(n): resolver.bridge.column(dict(given).get(n, given[0][1])) for n in names for given in (by_name[n.lower()],)}


def _reads(bridge: Catalyst, plan: MergePlan, tables: Target) -> ir.Predicate | None:
    """The predicate by which files are skipped: what ON demands of the target row alone, and the range of the source's keys."""
    parts: list[ir.Predicate] = []
    own, names = translated(bridge, plan.on, tables.ids), tables.schema.names
    if own is not None and own.reads is not None:
        parts.append(own.reads)
    table = plan.source.table
    if table is not None and plan.keys:
        for target_at, source_at in plan.keys:
            column = table.column(source_at)
            if pa.types.is_integer(column.type) or pa.types.is_date32(column.type):
                try:
                    bounds = pc.min_max(column).as_py()
                except OverflowError:  # a date outside of Python's range: without a bound every file is kept
                    continue
                if bounds["min"] is not None:
                    parts.append(ir.compare(">=", (names[target_at],), bounds["min"]))
                    parts.append(ir.compare("<=", (names[target_at],), bounds["max"]))
    return ir.And(tuple(parts)) if parts else None


def _parameters(condition: JavaObject, clauses: Clauses) -> dict[str, Any]:
    """operationParameters of the commit, as delta-spark writes them."""

    def listed(group: Sequence[Clause]) -> str:
        texts = [column_text(c.condition) if isinstance(c.condition, Column) else c.condition for c in group]
        return orjson.dumps([{**({} if t is None else {"predicate": t}), "actionType": c.kind} for c, t in zip(group, texts, strict=True)]).decode()

    return {
        "predicate": orjson.dumps([str(condition.sql())]).decode(),
        "matchedPredicates": listed(clauses.matched),
        "notMatchedPredicates": listed(clauses.not_matched),
        "notMatchedBySourcePredicates": listed(clauses.not_matched_by_source),
    }


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
