"""Resolves the expressions of users (strings, Columns) with Spark's analyzer, once for each statement.

What Delta does not allow in a statement is refused here by name, before anything is read.  The current time is fixed here
too, so that every rebase computes with the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import DataType, StructField, StructType

from rowlock.conditions import named
from rowlock.engines.spark.catalyst.bridge import Catalyst, JavaObject, analyzed, catalyst, class_name, nullable_type, with_parts_of
from rowlock.engines.spark.catalyst.draws import Draws, of_a_file, with_draws
from rowlock.engines.spark.catalyst.errors import culprit, no_target, sql_function, wider_than_a_row
from rowlock.engines.spark.catalyst.types import StorePolicy, fitted_text
from rowlock.exceptions import InvalidInput, SchemaMismatch, StatementRefused, WrongType
from rowlock.protocol.char_varchar import KEY
from rowlock.protocol.column_values import Generated, Identity, default_of
from rowlock.protocol.schema import column_path, quote

Expression = str | Column
DEFAULT = "DEFAULT"
"""As a value to assign: the column's default."""
_OF_QUERIES = ("MISSING_GROUP_BY", "INVALID_WHERE_CONDITION", "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE")
"""Spark's conditions for an expression that is not computed from one row, where it takes a statement for a query."""


own_columns: ContextVar[Callable[[Column], Column] | None] = ContextVar("what makes columns of a table's DataFrames the table's", default=None)


def as_column(expression: Expression) -> Column:
    """A user's expression as a Column.  Raises InvalidInput for anything else."""
    if isinstance(expression, str):
        return F.expr(expression)
    if isinstance(expression, Column):
        return expression if (placed := own_columns.get()) is None else placed(expression)
    raise WrongType(f"An expression must be a string or a Column, not {type(expression).__name__}")


def is_default(expression: Any) -> bool:
    """Whether a value to assign is the word DEFAULT, which is the column's default where no column has this name."""
    return isinstance(expression, str) and expression.strip().upper() == DEFAULT


@dataclass(frozen=True, slots=True)
class Relation:
    """The attributes that expressions are resolved against, as a tuple and as a Scala Seq, and their Spark schema."""

    attributes: tuple[JavaObject, ...]
    schema: StructType
    schema_json: str
    seq: JavaObject

    @classmethod
    def of(cls, bridge: Catalyst, attributes: Sequence[JavaObject], schema: StructType) -> Relation:
        return cls(tuple(attributes), schema, schema.json(), bridge.seq(attributes))


@dataclass(frozen=True, slots=True)
class Target:
    """What every statement on a table is resolved against; made once for each schema of the table.

    plan        an empty relation with the table's columns, which are all that expressions can name
    relation    the table's columns and the two columns of the address
    address     the attributes of the address
    source_row  the attribute of the number of a row in the source of a MERGE
    columns     a Column for each of the table's columns
    nulls       a typed null under the name of each
    names       from attribute id to the name of the table's column
    ids         the same without text that has a collation and char columns
    generated   the table's generated columns
    defaults    the SQL text of the default of each column that has one
    identities  the table's identity columns
    """

    plan: JavaObject
    relation: Relation
    address: tuple[JavaObject, ...]
    source_row: JavaObject
    schema: StructType
    columns: Mapping[str, Column]
    nulls: Mapping[str, Column]
    names: Mapping[int, str]
    ids: Mapping[int, str]
    generated: tuple[Generated, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    identities: tuple[Identity, ...] = ()

    def row(self, bridge: Catalyst) -> Relation:
        """The relation of the table's columns, without the address."""
        size = len(self.schema.fields)
        return Relation.of(bridge, self.relation.attributes[:size], StructType(self.relation.schema.fields[:size]))

    @property
    def made(self) -> frozenset[str]:
        """The columns whose values are made where a statement leaves them out: generated ones and identity columns."""
        return frozenset((*(g.name for g in self.generated), *(i.name for i in self.identities)))

    def default(self, path: Sequence[str]) -> Expression:
        """What the word DEFAULT stands for in an assignment to this column, null where it has no default; for a field inside of one, as in Spark, a column's name.

        Raises InvalidInput where it would be null and may not be.
        """
        return DEFAULT if len(path) > 1 else default_of(path[0], self.defaults, {f.name for f in self.schema.fields if not f.nullable} - self.made)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A resolved `SELECT outputs FROM relation WHERE condition`; `outputs` is a Scala Seq.  `draws`: values of a MERGE that are not deterministic."""

    outputs: JavaObject
    condition: JavaObject | None
    draws: Draws | None = None

    def rows(self, bridge: Catalyst, child: JavaObject) -> JavaObject:
        """The plan of the rows of `child` that meet the condition, with what `outputs` read."""
        met = bridge.filter(self.condition, child)
        return met if self.draws is None else self.draws.below(bridge, met)

    def over(self, bridge: Catalyst, child: JavaObject) -> JavaObject:
        """The plan of the outputs over `child`."""
        return bridge.project(self.outputs, self.rows(bridge, child))


class Resolver:
    """Resolves the expressions of one statement over one frame; `statement` is its name for errors.  The last `draws` columns of the frame are `with_draws`'s."""

    def __init__(self, spark: SparkSession, frame: DataFrame, statement: str, table: str, draws: int = 0) -> None:
        self.spark, self.frame, self.statement, self.table, self.draws = spark, frame, statement, table, draws
        self.bridge: Catalyst = catalyst(spark)
        self.policy = StorePolicy(self.bridge, spark, table)

    def with_draws(self, values: Sequence[Expression]) -> tuple[Resolver, list[Column]]:
        """(a resolver whose frame computes what is not deterministic in `values`, the values over that frame).

        Raises StatementRefused for a function that asks for the file of a row: rows on the driver have none.
        """
        frame, drawn, found = with_draws(self.bridge, self.frame, [as_column(v) for v in values])
        for each in found:
            if name := of_a_file(self.bridge, each):
                raise self._refused(f"{name}(), which rows on the driver cannot tell", "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED")
        return Resolver(self.spark, frame, self.statement, self.table, len(found)), drawn

    def attributes(self) -> list[JavaObject]:
        """The attributes of the frame."""
        return self.bridge.list(analyzed(self.frame).output())

    def fixed(self, selected: DataFrame, condition: Expression | None, beside: Sequence[JavaObject] = ()) -> Resolved:
        """The resolved expressions of a frame from `selected`, with the current time fixed (see `resolved`).  Raises StatementRefused."""
        return self.resolved(self.bridge.with_fixed_time(analyzed(selected)), condition, beside)

    def selected(self, outputs: Sequence[Column], condition: Expression | None = None) -> DataFrame:
        """The frame of `outputs` where `condition` holds, in one analysis.  Raises Spark's AnalysisException, StatementRefused for what is no expression of a row."""
        try:
            frame = self.frame if condition is None else self.frame.where(as_column(condition))
            return frame.select(*outputs)
        except AnalysisException as e:
            if e.getCondition() in _OF_QUERIES:
                raise self._refused("an aggregate or a window function") from None
            if (e.getMessageParameters() or {}).get("objectName", "").strip("`").upper() == DEFAULT and DEFAULT not in str(condition).upper():
                text = f"{self.statement} sets a column to DEFAULT alone: the word may not stand within an expression"
                raise StatementRefused(text, what=DEFAULT, table=self.table, condition=named("DEFAULT_PLACEMENT_INVALID")) from None
            raise

    def resolved(self, plan: JavaObject, condition: Expression | None = None, beside: Sequence[JavaObject] = ()) -> Resolved:
        """The expressions of an analyzed plan from `selected`, then the attributes `beside`, which no expression of a user can name.

        Raises StatementRefused where an expression is not computed from one row alone.
        """
        if class_name(plan) != "Project" or (condition is not None and class_name(plan.child()) != "Filter"):
            raise self.wider(plan, "an aggregate, a window or a generator: an expression that is not computed from one row alone")
        resolved_condition = plan.child().condition() if condition is not None else None
        below = plan.child().child() if condition is not None else plan.child()
        if (
            class_name(below) not in ("LocalRelation", "SubqueryAlias", "Join", "LogicalRelation")
            and below.output().toString() != analyzed(self.frame).output().toString()
        ):
            raise self.wider(plan, wider_than_a_row(below))
        outputs = plan.projectList()
        if not (plan.deterministic() and plan.subqueriesAll().isEmpty()):  # the source of a MERGE may be so, the statement may not
            for e in [*self.bridge.list(outputs), *([resolved_condition] if resolved_condition is not None else [])]:
                self.check(e)
        outputs = outputs.appendedAll(self.bridge.seq(beside)) if beside else outputs
        return Resolved(outputs, resolved_condition, self._draws(below) if self.draws else None)

    def _draws(self, below: JavaObject) -> Draws:
        """The values that the projection below a statement draws.  Raises StatementRefused for a subquery in one."""
        values = tuple(self.bridge.list(below.projectList())[-self.draws :])
        if any(self.bridge.subquery.hasSubquery(v) for v in values):
            raise self._refused("a subquery", "DELTA_UNSUPPORTED_SUBQUERY")
        return Draws(values, self.table)

    def check(self, expression: JavaObject) -> None:
        """Raises StatementRefused for a subquery or a non-deterministic expression."""
        if self.bridge.subquery.hasSubquery(expression):
            raise self._refused("a subquery", "DELTA_UNSUPPORTED_SUBQUERY", operation=self.statement, cond=expression.sql())
        if not expression.deterministic():
            condition = "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED" if self.statement == "MERGE" else "INVALID_NON_DETERMINISTIC_EXPRESSIONS"
            given = {"operation": self.statement, "expression": expression.sql()} if self.statement == "MERGE" else {"sqlExprs": f'"{expression.sql()}"'}
            raise self._refused(f"{culprit(expression)}, a non-deterministic expression", condition, **given)

    def wider(self, plan: JavaObject, what: str) -> StatementRefused:
        """The error of an analyzed plan that computes more than expressions of one row: a function that SQL defines is named, otherwise `what`."""
        if (name := sql_function(self.bridge, plan)) is None:
            return self._refused(what)
        return self._refused(f"{name}(), a function that SQL defines", "UNSUPPORTED_SQL_UDF_USAGE", functionName=f"`{name}`", nodeName=self.statement)

    def _refused(self, what: str, condition: str = "UNSUPPORTED_EXPR_FOR_OPERATOR", **parameters: str) -> StatementRefused:
        text = f"{self.statement} may not contain {what}: compute it first, and use MERGE with that (a DataFrame, a view or a subquery) as its source"
        parameters = parameters or {"invalidExprSqls": what}
        return StatementRefused(text, what=what, table=self.table, condition=named(condition, **parameters))


def at_one_time(bridge: Catalyst, plans: Sequence[JavaObject]) -> list[JavaObject]:
    """The analyzed plans with the current time fixed, to the same value in all of them."""
    union = bridge.union_node(bridge.seq(plans), False, False)
    return bridge.list(bridge.with_fixed_time(union).children())


class TableName(str):
    """A table's name, by which expressions may call its columns, also behind the names before it: `sales.id`, `shop.sales.id`, `spark_catalog.shop.sales.id`."""

    qualifier: tuple[str, ...] = ()

    @classmethod
    def of(cls, parts: Sequence[str]) -> TableName:
        """The name of these parts."""
        out = cls(parts[-1])
        out.qualifier = tuple(parts[:-1])
        return out


def without_name(parts: Sequence[str], alias: str | None) -> list[Sequence[str]]:
    """What may be left of a column's name behind the name of its table, the longest name first."""
    whole = [p.lower() for p in (*alias.qualifier, alias)] if isinstance(alias, TableName) else [alias.lower()] if alias else []
    return [parts[n:] for n in range(len(whole), 0, -1) if len(parts) > n and [p.lower() for p in parts[:n]] == whole[-n:]]


def target_path(key: Any, schema: StructType, alias: str | None, table: str) -> tuple[str, ...]:
    """The exact names, from the top, of the column or field that an assignment's key names.  Raises SchemaMismatch, InvalidInput."""
    if isinstance(key, Column):
        key = column_text(key)
    if not isinstance(key, str):
        raise InvalidInput(f"A column to set must be named by a string, not {type(key).__name__}", table=table)
    parts = column_path(key)
    found = next((path for p in (*without_name(parts, alias), parts) if (path := _walk(p, schema))), None)  # first a column of the table, as Spark has it
    if found is None:
        text = f"There is no column {key!r} to set; the table has {', '.join(schema.names)}"
        paths = [parts, *without_name(parts, alias)]
        raise SchemaMismatch(text, table=table, condition=no_target(next((p for p in paths if _walk(p[:1], schema)), parts), schema))
    return found


def column_text(column: Column) -> str:
    """The expression of a Column as text."""
    text = str(column)
    return text[len("Column<'") : -len("'>")]


def _walk(parts: Sequence[str], schema: StructType) -> tuple[str, ...] | None:
    """The exact names of a path in the schema, an exact match before one that differs by case; None where there is none."""
    out: list[str] = []
    current: DataType = schema
    for part in parts:
        if not isinstance(current, StructType):
            return None
        match = [f for f in current.fields if f.name == part] or [f for f in current.fields if f.name.lower() == part.lower()]
        if not match:
            return None
        out.append(match[0].name)
        current = match[0].dataType
    return tuple(out)


def outcome_frame(
    resolver: Resolver, schema: StructType, outputs: Callable[[bool], Sequence[Column]], condition: Expression | None, *, try_plain: bool
) -> DataFrame:
    """The frame of `outputs(cast)`, whose first columns are the table's.

    With `try_plain` the outputs are tried without casts first, and cast only where a type differs from the table's.
    """
    if try_plain:
        frame = resolver.selected(outputs(False), condition)
        if all(_same_type(a.dataType, f.dataType) for a, f in zip(frame.schema.fields, schema.fields, strict=False)):
            return frame
    return resolver.selected(outputs(True), condition)


def assigned_columns(
    resolver: Resolver,
    target: Target,
    assignments: Mapping[Any, Expression],
    alias: str | None,
    *,
    insert: bool,
    cast: bool = True,
    lenient: bool = False,
    keeps: bool = False,
) -> dict[str, Column]:
    """The value of each column that is set; with `cast`, cast to the column's type as Delta casts on assignment.

    With `insert` keys of nested fields are refused.  With `lenient` structs may lack fields of the table's: these are null, and
    with `keeps` as they were.  Raises SchemaMismatch, InvalidInput.
    """
    schema = target.schema
    given = [(target_path(k, schema, alias, resolver.table), v) for k, v in assignments.items()]
    # As in Spark, a column of this name is meant where there is one.
    is_column = any(is_default(v) for _, v in given) and any(c.upper() == DEFAULT for c in resolver.frame.columns)
    paths = [(path, as_column(target.default(path) if is_default(v) and not is_column else v)) for path, v in given]
    _refuse_overlaps([p for p, _ in paths], resolver.table)
    if not cast and all(len(p) == 1 and KEY not in schema[p[0]].metadata for p, _ in paths):  # a bounded text is cut and filled up as a text alone
        return {p[0]: value.alias(p[0]) for p, value in paths}
    if not paths:
        return {}
    types = resolver.frame.select(*[c.alias(f"c{n}") for n, (_, c) in enumerate(paths)]).schema
    out: dict[str, Column] = {}
    nested: dict[str, dict[tuple[str, ...], Column]] = {}
    for (path, value), actual in zip(paths, types.fields, strict=True):
        wanted: Any = schema
        for part in path:
            wanted = wanted[part].dataType
        wanted = nullable_type(wanted)  # nulls are checked in the rows, later
        old = target.columns[path[0]] if keeps and len(path) == 1 else None
        fitted = _assigned(_Assignment(resolver, lenient), value, actual.dataType, wanted, ".".join(path), old)
        if len(path) == 1:
            out[path[0]] = fitted_text(fitted, schema[path[0]]).alias(path[0])
        elif insert:
            condition = named("DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION", operation="INSERT clause of MERGE operation", fieldName=".".join(map(quote, path)))
            raise SchemaMismatch(f"A nested field cannot be inserted alone: {'.'.join(path)}", table=resolver.table, condition=condition)
        else:
            nested.setdefault(path[0], {})[path[1:]] = fitted
    for name, fields in nested.items():
        out[name] = _with_fields(target.columns[name], schema[name].dataType, fields).alias(name)
    return out


def _with_fields(base: Column, kind: DataType, fields: Mapping[tuple[str, ...], Column]) -> Column:
    """A struct with some of its fields, at any depth, replaced.

    A null struct becomes one whose other fields are null, as in Delta (`Column.withField` leaves it null).
    """
    assert isinstance(kind, StructType)
    made = []
    for f in kind.fields:
        inside = {path[1:]: value for path, value in fields.items() if path[0] == f.name}
        old = base.getField(f.name)
        value = inside[()] if () in inside else _with_fields(old, f.dataType, inside) if inside else old
        made.append(value.alias(f.name))
    return F.struct(*made)


@dataclass(frozen=True, slots=True)
class _Assignment:
    """How a value becomes a column's; `lenient` lets structs lack fields of the column's."""

    resolver: Resolver
    lenient: bool


def _assigned(how: _Assignment, value: Column, actual: DataType, wanted: DataType, name: str, old: Column | None = None) -> Column:
    """A value as the column's type.  Fields that a struct lacks are those of `old`, null without it.  Raises SchemaMismatch."""
    if _same_type(actual, wanted):
        return value
    if actual.typeName() == "void":
        return value.cast(wanted)  # null, or an error that it raises
    if isinstance(actual, StructType) and isinstance(wanted, StructType):
        return _struct_by_name(how, value, actual, wanted, name, old)
    made = with_parts_of(value, actual, wanted, lambda v, have, want: _assigned(how, v, have, want, name)) if "struct<" in wanted.simpleString() else None
    if made is not None:
        return made
    return how.resolver.policy.stored(value, actual, wanted, name)


def _struct_by_name(how: _Assignment, value: Column, actual: StructType, wanted: StructType, name: str, old: Column | None) -> Column:
    """A struct value with the fields of the column's struct, matched by name.  Raises SchemaMismatch."""
    have = {f.name.lower(): f for f in actual.fields}
    lacks = {f.name.lower() for f in wanted.fields} - set(have)
    if len(actual.fields) > len(wanted.fields) - len(lacks) or (lacks and not how.lenient):
        text = f"A struct with fields {', '.join(actual.names)} cannot be put into column {name}, which has {', '.join(wanted.names)}"
        raise SchemaMismatch(text, table=how.resolver.table, condition=named("DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION"))

    def field(f: StructField) -> Column:
        given, before = have.get(f.name.lower()), None if old is None else old.getField(f.name)
        if given is None:
            return F.lit(None).cast(f.dataType) if before is None else before
        return _assigned(how, value.getField(given.name), given.dataType, f.dataType, f"{name}.{f.name}", before)

    absent = value.isNull() if old is None or not _lacks_fields(actual, wanted) else value.isNull() & old.isNull()
    return F.when(absent, F.lit(None)).otherwise(F.struct(*[field(f).alias(f.name) for f in wanted.fields]))


def _lacks_fields(actual: DataType, wanted: DataType) -> bool:
    """Whether a struct, or one within it, lacks a field of the wanted one."""
    if not (isinstance(actual, StructType) and isinstance(wanted, StructType)):
        return False
    have = {f.name.lower(): f.dataType for f in actual.fields}
    return any(f.name.lower() not in have or _lacks_fields(have[f.name.lower()], f.dataType) for f in wanted.fields)


def _same_type(a: DataType, b: DataType) -> bool:
    return bool(nullable_type(a) == nullable_type(b))


def _refuse_overlaps(paths: Sequence[tuple[str, ...]], table: str) -> None:
    """Raises InvalidInput where a statement sets a column twice, or a field and the struct around it."""
    for n, a in enumerate(paths):
        for b in paths[n + 1 :]:
            if a[: len(b)] == b or b[: len(a)] == a:
                condition = named("DELTA_CONFLICT_SET_COLUMN", columnList=f"[`{'.'.join(a)}`, `{'.'.join(b)}`]")
                raise InvalidInput(f"The statement sets {'.'.join(a)} and {'.'.join(b)}, which overlap", table=table, condition=condition)
