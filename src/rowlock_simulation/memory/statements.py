"""Turns scripts (`sql.script`) into statements for the in-memory engine, and runs them on a table.

Expressions are compiled against the table's schema once, here; the payload holds the source rows of a MERGE and the rows of
an append.
"""

from __future__ import annotations

from rowlock.boundary.engine import Statement
from rowlock.exceptions import ConstraintViolated, InvalidInput, SchemaMismatch
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile
from rowlock.transaction.lease_line import LeaseLine
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.transaction import Options, StagingTransaction, Table, Transaction
from rowlock_simulation.memory.rules import Change, InsertRule, MatchedRule, MergeRule, NewRows, RowRule
from rowlock_simulation.memory.skipping import predicate_of, predicate_of_merge
from rowlock_simulation.memory.sql import script as scripts
from rowlock_simulation.memory.sql.expressions import Evaluate, Relation, Row, Scope, compile_expression, is_true
from rowlock_simulation.memory.sql.script import Append, Assignments, Clause, Delete, Literals, Merge, Optimize, Overwrite, Script, Update

TARGET, SOURCE = "t", "s"


def operation(script: Script) -> str:
    """The operation of a script as commitInfo names it."""
    match script:
        case Append() | Overwrite():
            return "WRITE"
        case _:
            return type(script).__name__.upper()


def parameters(script: Script) -> dict[str, str]:
    """The operationParameters of a script for commitInfo."""
    match script:
        case Append():
            return {"mode": "Append"}
        case Overwrite():
            return {"mode": "Overwrite"}
        case _:
            return {"statement": scripts.render(script)}


def statements_of(script: Script, snapshot: Snapshot) -> tuple[Statement, ...]:
    """The statements of a script, resolved against the snapshot.  Raises SchemaMismatch, InvalidInput, StatementRefused, ConstraintViolated."""
    columns = snapshot.schema.names
    target = Relation(TARGET, columns)
    match script:
        case Update(assignments, where):
            rule = RowRule(_condition(where, (target,)), _update(assignments, columns, (target,)))
            return (Statement("update", rule, predicate_of(where, target), sets=tuple(_name(c, columns) for c, _ in assignments)),)
        case Delete(where):
            return (Statement("delete", RowRule(_condition(where, (target,)), Change(None)), predicate_of(where, target)),)
        case Merge():
            return (_merge(script, target),)
        case Append(rows):
            return (Statement("append", NewRows(_rows(rows, columns)), sets=columns),)
        case Overwrite(rows, where):
            condition = _condition(where, (target,))
            new = _rows(rows, columns)
            if outside := next((row for row in new if condition is not None and not is_true(condition, (row,))), None):
                raise ConstraintViolated(f"a row is outside of what is replaced ({where}): {outside}")
            replaced = Statement("delete", RowRule(condition, Change(None)), predicate_of(where, target))
            return (replaced, Statement("append", NewRows(new), sets=columns))
        case Optimize():
            return (Statement("move", None, only=bins(snapshot)),)


def bins(snapshot: Snapshot) -> tuple[tuple[str, ...], ...]:
    """The groups of files that a compaction rewrites: the files of each partition that has several files or one with deleted rows."""
    by_partition: dict[tuple[tuple[str, str | None], ...], list[AddFile]] = {}
    for file in snapshot.files.adds():
        by_partition.setdefault(tuple(sorted(file.partition_values.items())), []).append(file)
    groups = by_partition.values()
    return tuple(sorted(tuple(sorted(f.path for f in group)) for group in groups if len(group) > 1 or group[0].deletion_vector))


def run(table: Table, script: Script, options: Options | None = None) -> Receipt:
    """Stages a script in a transaction of its own, waiting for leases first, and commits it."""
    with LeaseLine(table.state) as line:
        return commit(stage(table, script, options, line), script)


def stage(table: Table, script: Script, options: Options | None = None, line: LeaseLine | None = None) -> Transaction:
    """A transaction with the script staged; waits in `line`, if given, and begins anew where others committed meanwhile."""
    if line is None:
        txn = table.begin(options)
        txn.execute(*statements_of(script, txn.base))
        return txn
    staging = StagingTransaction(line, lambda reruns: table.begin(options, reruns=reruns))
    staging.stage(lambda base: (statements_of(script, base), {}))
    return staging.txn


def commit(txn: Transaction, script: Script) -> Receipt:
    """Commits a transaction under the operation name and parameters of its script."""
    return txn.commit(operation(script), parameters(script))


def _condition(sql: str | None, scope: Scope) -> Evaluate | None:
    return None if sql is None else compile_expression(sql, scope)


def _name(column: str, columns: tuple[str, ...]) -> str:
    found = next((c for c in columns if c.lower() == column.lower().removeprefix(f"{TARGET}.")), None)
    if found is None:
        raise SchemaMismatch(f"there is no column {column!r}; the table has {', '.join(columns)}")
    return found


def _update(assignments: Assignments, columns: tuple[str, ...], scope: Scope) -> Change:
    return Change(tuple((_name(c, columns), compile_expression(e, scope)) for c, e in assignments))


def _rows(rows: tuple[Literals, ...], columns: tuple[str, ...]) -> tuple[Row, ...]:
    if wrong := next((r for r in rows if len(r) != len(columns)), None):
        raise SchemaMismatch(f"{wrong!r} has {len(wrong)} values; the columns are {', '.join(columns)}")
    return tuple(dict(zip(columns, row, strict=True)) for row in rows)


def _merge(script: Merge, target: Relation) -> Statement:
    source = Relation(SOURCE, script.columns)
    rows = _rows(script.rows, script.columns)
    both = (target, source)
    rule = MergeRule(
        source=rows,
        on=compile_expression(script.on, both),
        matched=tuple(_matched(c, target, source, both) for c in script.of("matched")),
        not_matched=tuple(_insert(c, target, source) for c in script.of("not matched")),
        by_source=tuple(_matched(c, target, source, (target,)) for c in script.of("not matched by source")),
    )
    predicate = None if rule.by_source else predicate_of_merge(script.on, target, source, rows)
    return Statement("merge", rule, predicate, source_rows=len(rows))


def _all_columns(target: Relation, source: Relation) -> Assignments:
    """The assignments of UPDATE SET * and INSERT *: every column of the target from the source column of the same name."""
    if missing := [c for c in target.columns if c.lower() not in (s.lower() for s in source.columns)]:
        raise SchemaMismatch(f"* needs every column of the table in the source; {', '.join(missing)} is not there")
    return tuple((c, f"{SOURCE}.{c}") for c in target.columns)


def _matched(clause: Clause, target: Relation, source: Relation, scope: Scope) -> MatchedRule:
    condition = _condition(clause.condition, scope)
    if clause.action == "delete":
        return MatchedRule(condition, Change(None))
    if clause.action not in ("update", "update all") or (clause.action == "update all" and len(scope) == 1):
        raise InvalidInput(f"WHEN {clause.when.upper()} cannot {clause.action.upper()}")
    assignments = _all_columns(target, source) if clause.action == "update all" else clause.assignments
    return MatchedRule(condition, _update(assignments, target.columns, scope))


def _insert(clause: Clause, target: Relation, source: Relation) -> InsertRule:
    if clause.action not in ("insert", "insert all"):
        raise InvalidInput(f"WHEN NOT MATCHED cannot {clause.action.upper()}")
    assignments = _all_columns(target, source) if clause.action == "insert all" else clause.assignments
    values = tuple((_name(c, target.columns), compile_expression(e, (source,))) for c, e in assignments)
    return InsertRule(_condition(clause.condition, (source,)), values, target.columns)
