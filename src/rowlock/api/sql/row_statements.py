"""UPDATE, DELETE, MERGE and the INSERTs of SQL, as calls of Rowlock's own API.

Expressions stay Spark's: its analyzer resolves them against the table and the source.  A subquery in an expression of a statement is
refused by name; queries, such as the source of a MERGE, may hold any.
"""

from __future__ import annotations

from typing import Any

from rowlock.api import frames
from rowlock.api.handle import session_commits
from rowlock.api.merge_builder import DeltaMergeBuilder
from rowlock.api.overwrites import is_dynamic
from rowlock.api.sql.target import Target, check_given, evolves, fitted, write_arguments
from rowlock.api.transaction import DeltaTransaction
from rowlock.conditions import named
from rowlock.engines.spark.catalyst.types import Column, DataFrame
from rowlock.engines.spark.sql.insert import partition_literal, query_of
from rowlock.engines.spark.sql.parsing import ScalarSubqueries
from rowlock.engines.spark.statements.merge_plan import Clause, Clauses
from rowlock.engines.spark.user_session import Session
from rowlock.exceptions import InvalidInput, SchemaMismatch, StatementRefused
from rowlock.protocol.schema import dotted, quote
from rowlock.transaction.state.options import WriteMode
from rowlock.transaction.state.receipt import Receipt


def update(target: Target, plan: Any) -> DataFrame:
    """UPDATE: the number of rows that changed."""
    table = target.changed()
    values = ScalarSubqueries(target.nodes, target.statement, target.folder, lambda: target.head.schema.names)
    condition, assigned = _condition(target, plan.condition()), _assignments(target, plan.assignments())
    table._run("UPDATE", lambda planner, snapshot: planner.update(snapshot, condition, assigned, table._called, values.computed))
    return _answer(target.results.of("UpdateTable", [(_count(table._receipts.last, "Updated"),)]), table._receipts.last)


def delete(target: Target, plan: Any) -> DataFrame:
    """DELETE: the number of rows that went."""
    table = target.changed()
    condition = plan.condition()
    table.delete(None if target.nodes.is_true(condition) else _expression(target, condition))
    return _answer(target.results.of("DeleteFromTable", [(_count(table._receipts.last, "Deleted"),)]), table._receipts.last)


def truncate(target: Target, plan: Any) -> None:
    """TRUNCATE TABLE: a DELETE of all rows, whose files stay for older versions; never a step of an application."""
    with session_commits(Session(target.spark), instead={"write.txnAppId": None, "write.txnVersion": None}):
        target.table()._truncate()


def merge(target: Target, plan: Any) -> DataFrame:
    """MERGE with every clause: the numbers of rows that it changed, as the builder's `execute` gives them."""
    nodes, table = target.nodes, target.changed()
    values = ScalarSubqueries(nodes, target.statement, target.folder, lambda: target.head.schema.names)
    source, on = nodes.frame(plan.sourceTable()), _expression(target, plan.mergeCondition(), "MERGE condition")

    def clause(action: Any) -> Clause:
        condition, name = _condition(target, action.condition()), target.nodes.class_name(action)  # DeleteAction, UpdateAction, InsertStarAction, ...
        kind, whole = name.removesuffix("Action").removesuffix("Star").lower(), name.endswith("StarAction")
        assigned = None if kind == "delete" or whole else _assignments(target, action.assignments(), inserts=kind == "insert")
        return Clause(kind, condition, assigned, all_columns=whole)

    groups = plan.matchedActions(), plan.notMatchedActions(), plan.notMatchedBySourceActions()
    matched, inserted, alone = (tuple(map(clause, nodes.items(actions))) for actions in groups)
    clauses = Clauses(matched, inserted, alone, values=values.computed)
    evolves = bool(plan.withSchemaEvolution())
    return DeltaMergeBuilder(table._runner, table._receipts, source, on, table._alias, clauses, evolves=evolves).execute()


def insert(target: Target, plan: Any) -> None:
    """INSERT INTO and INSERT OVERWRITE: by position, by a list of columns or BY NAME, with static partitions; anew where columns were renamed meanwhile.

    `df.write.insertInto(t)` is one, too, with the writer's options.
    """
    nodes = target.nodes
    criteria = nodes.option(plan.replaceCriteriaOpt()) if nodes.has_method(plan, "replaceCriteriaOpt") else None
    if criteria is not None and nodes.class_name(criteria) == "InsertReplaceWhere":
        return overwrite(target, plan, criteria.cond())
    if criteria is not None:
        target.refuse("REPLACE USING / ON", "Use MERGE, or INSERT INTO ... REPLACE WHERE")
    query, given_options = query_of(nodes, plan, target.handle.state.refresh)
    options = write_arguments(given_options, target.path, replaces=bool(plan.overwrite()))
    if options.pop("overwrite_schema", False):
        target.refuse("with overwriteSchema", "Use saveAsTable: insertInto takes the table's columns")
    evolving = (nodes.has_method(plan, "withSchemaEvolution") and bool(plan.withSchemaEvolution())) or evolves(options)
    options.pop("merge_schema", None)
    if plan.ifPartitionNotExists():
        target.refuse("IF NOT EXISTS", "Leave IF NOT EXISTS out")
    rows = nodes.frame(query)
    spec = nodes.mapping(plan.partitionSpec())
    table = target.table().toDF()
    partitions = {c.lower() for c in target.head.partition_columns}
    if other := [name for name in spec if name.lower() not in partitions]:
        text = f"PARTITION names {other[0]}, by which the table is not partitioned"
        raise InvalidInput(text, table=target.path, condition=named("NON_PARTITION_COLUMN", columnName=quote(other[0])))
    fixed = {name: value.get() for name, value in spec.items() if value.isDefined()}  # None for NULL; the others are columns of the query, in the table's order
    chosen = any(name.startswith("replace_") for name in options)
    asked = options.get("partition_overwrite_mode") == "dynamic" or is_dynamic(target.spark)  # a session's `dynamic` outdoes the option, as with delta-spark
    dynamic = bool(plan.overwrite()) and len(fixed) < len(partitions) and asked and not chosen
    how: dict[str, Any] = {"mode": "overwrite" if plan.overwrite() else "append", **options}
    if plan.overwrite() and not chosen:
        how["partition_overwrite_mode"] = "dynamic" if dynamic else "static"
    given, taken = [str(c) for c in nodes.items(plan.userSpecifiedCols())], {name.lower() for name in fixed}
    if twice := [c for c in given if c.lower() in taken]:
        condition = named("STATIC_PARTITION_COLUMN_IN_INSERT_COLUMN_LIST", staticName=twice[0])
        raise InvalidInput(f"PARTITION and the list of columns both give {twice[0]}", table=target.path, condition=condition)
    others = [c for c in table.columns if c.lower() not in taken]
    names = given or (list(rows.columns) if plan.byName() else others)
    if evolving and not given:  # the columns beyond those of the table are new, under their own names
        names = [*names, *rows.columns[len(names) :]]
    check_given(target, (*names, *fixed))
    moved = {n.lower() for pair in zip(rows.columns, names, strict=False) if pair[0].lower() != pair[1].lower() for n in pair}
    asked_by = " ".join((str(options.get("replace_on", "")), *options.get("replace_using", ()))).lower()
    if any(name in asked_by for name in moved if name):  # the column of SELECT '' has no name
        target.refuse(
            "with replaceOn or replaceUsing",
            "Name the columns of the rows as the table does: by their own names another column would be meant than by position",
        )
    rows = fitted(target, rows, names, by_name=bool(plan.byName()), evolving=evolving, listed=bool(given))
    where: Column | None = None
    for name, value in fixed.items():
        column, same = partition_literal(table, name, value, target.path, replaces=bool(plan.overwrite()) and not dynamic)
        rows = rows.withColumn(name, column)
        where = same if where is None else where & same
    try:
        _write(target, rows, where if plan.overwrite() and not dynamic else None, evolving=evolving, dynamic=dynamic, **how)
    except SchemaMismatch:
        if target.table().toDF().columns == table.columns:
            raise
        insert(target, plan)


def _write(target: Target, rows: DataFrame, where: Column | None, *, evolving: bool, dynamic: bool, mode: WriteMode, **how: Any) -> None:
    """Writes the rows of an INSERT: as a transaction of its own, or in the one that is open."""
    table = target.changed()
    if not isinstance(table, DeltaTransaction):
        frames.write(rows, target.path, merge_schema=evolving, mode=mode, **(how if where is None else {**how, "replace_where": where}))
    elif evolving or dynamic or how.keys() - {"partition_overwrite_mode"}:
        target.refuse("with new columns, dynamic partitions or options in a transaction over several tables", "Make it a statement of its own")
    elif mode == "append":
        table.append(rows)
    else:
        table.overwrite(rows, where)


def append(target: Target, plan: Any) -> None:
    """`df.writeTo(t).append()`, and AppendData as others make it: by name or by position."""
    options = _options(target, plan, replaces=False)
    frames.write(_rows(target, plan, evolves(options)), target.path, **options)


def overwrite(target: Target, plan: Any, condition: Any = None) -> None:
    """INSERT INTO ... REPLACE WHERE, whose condition an INSERT of Spark 4.3 has apart, and `df.writeTo(t).overwrite(condition)`."""
    options = _options(target, plan)
    condition = plan.deleteExpr() if condition is None else condition
    where = None if target.nodes.is_true(condition) else _expression(target, condition)
    static = {"partition_overwrite_mode": "static"} if where is None else {}  # it says itself what it replaces: the session's setting has no say in it
    frames.write(_rows(target, plan, evolves(options)), target.path, mode="overwrite", **{"replace_where": where, **static, **options})


def overwrite_partitions(target: Target, plan: Any) -> None:
    """`df.writeTo(t).overwritePartitions()`: the partitions that the rows fall into; all rows of a table without partitions."""
    options = _options(target, plan)
    rows = _rows(target, plan, evolves(options))
    frames.check_partitions(target.head, rows)
    frames.write(rows, target.path, mode="overwrite", **{**options, "partition_overwrite_mode": "dynamic"})


def _options(target: Target, plan: Any, *, replaces: bool = True) -> dict[str, Any]:
    """The options of a write as arguments; WITH SCHEMA EVOLUTION is one of them."""
    given = target.nodes.mapping(plan.writeOptions()) if target.nodes.has_method(plan, "writeOptions") else {}
    options = write_arguments(given, target.path, replaces=replaces)
    evolving = target.nodes.has_method(plan, "withSchemaEvolution") and bool(plan.withSchemaEvolution())
    return {**options, "merge_schema": True} if evolving else options


def _rows(target: Target, plan: Any, evolving: bool) -> DataFrame:
    rows = target.nodes.frame(plan.query())
    columns = target.table().toDF().columns
    by_name = bool(plan.isByName() if target.nodes.has_method(plan, "isByName") else plan.byName())
    names = list(rows.columns) if by_name else [*columns, *rows.columns[len(columns) :]] if evolving else columns
    return fitted(target, rows, names, by_name=by_name, fills=by_name and plan.origin().sqlText().isEmpty(), evolving=evolving)


def _answer(rows: DataFrame, receipt: Receipt | None) -> DataFrame:
    """The answer of a statement that changes rows; none, as delta-spark has it, where its step of an application is in the log already."""
    return rows.limit(0) if receipt is not None and receipt.already_committed else rows


def _count(receipt: Receipt | None, word: str) -> int:
    """The rows that a statement changed (`Updated`, `Deleted`), committed already or within an open transaction."""
    metrics = {} if receipt is None else receipt.metrics
    return int(metrics.get(f"num{word}Rows", metrics.get(f"numTargetRows{word}", 0)))


def _condition(target: Target, held: Any) -> Column | None:
    """The condition that an Option holds."""
    found = target.nodes.option(held)
    return None if found is None else _expression(target, found)


def _expression(target: Target, expression: Any, where: str = "condition") -> Column:
    """An expression as a Column, which Spark resolves later.  Raises StatementRefused for a subquery."""
    if target.nodes.bridge.subquery.hasSubquery(expression):
        text = str(expression.toString())
        raise StatementRefused(
            f"{target.statement} may not contain a subquery in a {where}: use MERGE, whose source may be any query",
            what="a subquery",
            table=target.folder,
            condition=named("DELTA_UNSUPPORTED_SUBQUERY", operation=f"{target.statement} {where}", cond=text),
        )
    return target.nodes.column(expression)


def _assignments(target: Target, assignments: Any, *, inserts: bool = False) -> dict[str, Column | str]:
    """The columns that a clause sets, and their values, with their subqueries."""
    out: dict[str, Column | str] = {}
    for a in target.nodes.items(assignments):
        key = dotted([str(p) for p in target.nodes.items(a.key().nameParts())])
        if key in out or (inserts and key.lower() in map(str.lower, out)):
            condition = named("DELTA_DUPLICATE_COLUMNS_ON_INSERT") if inserts else named("DELTA_CONFLICT_SET_COLUMN", columnList=f"[{key}, {key}]")
            raise InvalidInput(f"The statement sets {key} twice", table=target.folder, condition=condition)
        out[key] = target.nodes.default(a.value()) or target.nodes.column(a.value())
    return out
