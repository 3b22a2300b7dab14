"""Checks new rows against CHECK constraints, column invariants and generated columns: rows on the driver without a job, rows in files in one Spark job.

A row passes a check only where the condition is true; null is a violation, as in delta-spark.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from rowlock.boundary.effects import Kind, RowBlock
from rowlock.boundary.provenance import Origin
from rowlock.conditions import Condition, named
from rowlock.conflict.delta import Slice
from rowlock.engines.spark.catalyst.analysis import Relation, Resolved
from rowlock.engines.spark.catalyst.bridge import JavaObject, analyzed, to_arrow
from rowlock.engines.spark.catalyst.column_rules import session_dependent
from rowlock.engines.spark.catalyst.errors import public_errors
from rowlock.engines.spark.evaluator import Evaluator
from rowlock.exceptions import ConstraintViolated, StatementRefused, UnsupportedFeature
from rowlock.log.snapshot import Snapshot
from rowlock.parquet.blocks import StagedRows, file_block, logical
from rowlock.parquet.checks import check_not_null, check_rows, violation
from rowlock.parquet.values import plain_rows
from rowlock.protocol.actions import AddFile
from rowlock.protocol.char_varchar import FEATURE as CHAR_VARCHAR
from rowlock.protocol.column_values import GENERATED
from rowlock.protocol.constraints import Check, checks_of
from rowlock.storage.store import discard

_PASSED = "__rowlock_passed"
_NAME_OF_FEATURE = {"checkConstraints": "CHECK constraint", GENERATED: "generated column", CHAR_VARCHAR: "bound of a char or varchar column"}


@dataclass(frozen=True, slots=True)
class _Checks:
    """The table's checks, resolved over its columns.  `violated` selects rows that break a check; its outputs are the row and, for each check, whether the row passes."""

    checks: tuple[Check, ...]
    relation: Relation
    violated: Resolved


def check_table(evaluator: Evaluator, table: pa.Table, snapshot: Snapshot, *, generated: bool = True) -> pa.Table:
    """Returns rows on the driver as readers will find them, checked like those of `check_files`.  No job.  Raises ConstraintViolated."""
    rows = check_rows(table, snapshot, evaluator.store.root)
    if rows.num_rows and (found := _resolved(evaluator, snapshot, generated=generated)) is not None:
        session = evaluator.session()
        local = evaluator.bridge.local(found.relation.seq, logical(rows, snapshot), found.relation.schema_json, session)
        _raise_for(evaluator.bridge.evaluate(_plan(evaluator, found, local), evaluator.spark, session), found, evaluator.store.root)
    return rows


def check_files(
    evaluator: Evaluator, files: Sequence[AddFile], snapshot: Snapshot, dead: Mapping[str, BitMap64] | None = None, *, generated: bool = True
) -> None:
    """Checks the rows of written files against NOT NULL and all checks of the table, in one Spark job; rows at the positions in `dead` are left out.

    With `generated=False` the values of generated columns are not checked.  Raises ConstraintViolated.
    """
    gone = dead or {}
    check_not_null(files, snapshot, evaluator.store, gone)
    if not files or (found := _resolved(evaluator, snapshot, generated=generated)) is None:
        return
    frame = evaluator.scanner.frame(snapshot, files, lambda f: gone.get(f.path, BitMap64()))
    child = evaluator.bound(analyzed(frame), found.relation.attributes)
    broken = evaluator.bridge.dataframe(_plan(evaluator, found, child), evaluator.spark, evaluator.session()).limit(1)
    _raise_for(to_arrow(broken), found, evaluator.store.root)


def written_block(
    evaluator: Evaluator, kind: Kind, statement: int, files: Sequence[AddFile], snapshot: Snapshot, origin: Origin | None = None, *, generated: bool = True
) -> RowBlock[StagedRows]:
    """A block of the rows of files that a statement just wrote, once they are checked; where one breaks a constraint the files are deleted, since no commit will name them.

    Raises ConstraintViolated, and StatementRefused for a check that Spark cannot resolve.
    """
    try:
        check_files(evaluator, files, snapshot, generated=generated)
    except (ConstraintViolated, StatementRefused):
        discard(evaluator.store, (f.path for f in files))
        raise
    return file_block(kind, statement, files, origin)


def check_blocks(evaluator: Evaluator, blocks: Sequence[RowBlock], snapshot: Snapshot) -> None:
    """Checks the rows of staged blocks, on the driver or in files.  Raises ConstraintViolated."""
    for block in blocks:
        if block.kind != "matched":
            for table in block.payload.tables:
                check_table(evaluator, table, snapshot)
            check_files(evaluator, block.payload.files, snapshot, block.payload.dead)


def check_slices(evaluator: Evaluator, slices: Sequence[Slice], snapshot: Snapshot) -> None:
    """Checks rows of the table against the definition in `snapshot`, which need not be committed yet.  One Spark job.

    The values of generated columns are not checked again: their writer may have computed them in a session with another
    time zone.  Raises ConstraintViolated, and StatementRefused for a condition that cannot be a constraint.
    """
    resolved = _resolved(evaluator, snapshot)
    _check_booleans(evaluator, snapshot, () if resolved is None else resolved.checks)
    check_files(evaluator, [s.file for s in slices], snapshot, {s.path: evaluator.dead_positions(s) for s in slices}, generated=False)


@public_errors()
def _check_booleans(evaluator: Evaluator, snapshot: Snapshot, checks: Sequence[Check]) -> None:
    """Raises StatementRefused for a check of another type than boolean, which Spark would cast where it is beside one."""
    asked = evaluator.probe(evaluator.target(snapshot), None, evaluator.session()).select(*(F.expr(c.expression) for c in checks))
    for check, field in zip(checks, asked.schema.fields, strict=True):
        if field.dataType.typeName() != "boolean":
            text = f"{check.name} {check.expression} is of type {field.dataType.simpleString()} and no condition: compare it with a value"
            condition = named("DELTA_NON_BOOLEAN_CHECK_CONSTRAINT", name=check.name, expr=check.expression)
            raise StatementRefused(text, what=_NAME_OF_FEATURE.get(check.feature, "column invariant"), table=evaluator.store.root, condition=condition)


def _why(error: AnalysisException, check: Check) -> Condition:
    """The condition of a check that Spark cannot resolve: that of Spark, and Delta's for one that is no boolean."""
    name, expression = error.getCondition() or "INTERNAL_ERROR", (error.getMessageParameters() or {}).get("sqlExpr", "")
    if name == "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN" or (
        name == "DATATYPE_MISMATCH.DATA_DIFF_TYPES" and expression.endswith(', false)"')
    ):  # as `_resolve` asks it
        return named("DELTA_NON_BOOLEAN_CHECK_CONSTRAINT", name=check.name, expr=check.expression)
    return Condition(name, error.getSqlState(), error.getMessageParameters() or {})


def _first_unresolved(evaluator: Evaluator, snapshot: Snapshot, checks: Sequence[Check]) -> Check:
    """The first check that Spark cannot resolve."""
    for check in checks:
        try:
            _resolve(evaluator, snapshot, (check,))
        except AnalysisException:
            return check
    return checks[0]


def _resolved(evaluator: Evaluator, snapshot: Snapshot, *, generated: bool = True) -> _Checks | None:
    """The table's checks, resolved once for each schema and session setting; None where there are none.  Raises StatementRefused for one that Spark cannot resolve."""
    checks = checks_of(snapshot.metadata, snapshot.schema, snapshot.table)
    if not generated and any(c.feature == GENERATED for c in checks):
        _resolved(evaluator, snapshot)  # an expression that Spark cannot resolve is refused, although its values are not checked
        checks = tuple(c for c in checks if c.feature != GENERATED)
    if not checks:
        return None
    try:
        made: _Checks = evaluator.cached_for_settings(("checks", snapshot.metadata.schema_string, checks), lambda: _resolve(evaluator, snapshot, checks))
    except AnalysisException as e:
        check = _first_unresolved(evaluator, snapshot, checks)
        text = f"{check.name} {check.expression} cannot be asked of this table's rows; drop it, or keep the columns that it names: {e.getMessage() or e}"
        raise StatementRefused(text, what=_NAME_OF_FEATURE.get(check.feature, "column invariant"), table=evaluator.store.root, condition=_why(e, check)) from e
    return made


@public_errors()
def _resolve(evaluator: Evaluator, snapshot: Snapshot, checks: tuple[Check, ...]) -> _Checks:
    target = evaluator.target(snapshot)
    passed = [F.coalesce(F.expr(c.expression), F.lit(False)) for c in checks]
    broken = functools.reduce(operator.or_, (~one for one in passed))
    frame = evaluator.probe(target, None, evaluator.session()).where(broken)
    plan = analyzed(frame.select(*(target.columns[f.name] for f in target.schema.fields), *(h.alias(f"{_PASSED}{n}") for n, h in enumerate(passed))))
    for check, passes in zip(checks, evaluator.bridge.list(plan.projectList().takeRight(len(checks))), strict=True):
        if check.feature == GENERATED and (found := session_dependent(evaluator.bridge, passes)) is not None:
            text = f"a column is generated by what is another value at another time or for another user, {found}: {check.expression}"
            text = f"this version of Rowlock cannot write tables with {GENERATED} ({text})"
            raise UnsupportedFeature(text, feature=GENERATED, access="write", table=snapshot.table)
    condition = plan.child().condition()
    if not condition.deterministic() or evaluator.bridge.subquery.hasSubquery(condition):
        text = "A CHECK constraint must be a deterministic condition on the row's own columns, without a subquery: drop what is none of"
        raise StatementRefused(f"{text} {'; '.join(f'{c.name} ({c.expression})' for c in checks)}", what="CHECK constraint", table=evaluator.store.root)
    return _Checks(checks, target.row(evaluator.bridge), Resolved(plan.projectList(), condition))


def _plan(evaluator: Evaluator, found: _Checks, child: JavaObject) -> JavaObject:
    """The plan of the rows of `child` that break a check.  The current time is fixed here, when rows are checked, not when the checks were resolved."""
    return evaluator.bridge.with_fixed_time(evaluator.bridge.project(found.violated.outputs, evaluator.bridge.filter(found.violated.condition, child)))


def _raise_for(broken: pa.Table, found: _Checks, root: str) -> None:
    if not broken.num_rows:
        return
    (row,) = plain_rows(broken.slice(0, 1))
    passed = [row.pop(f"{_PASSED}{n}") for n in range(len(found.checks))]
    raise violation(found.checks[passed.index(False)], row, root)
