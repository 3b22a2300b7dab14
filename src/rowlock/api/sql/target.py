"""What the statements of SQL share: the table that a statement is on, options of writes, and rows that fit a table as Spark's INSERT fits them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from rowlock import arguments
from rowlock.api.delta_table import DeltaTable
from rowlock.api.handle import Handle
from rowlock.api.row_writes import widened_metadata, widening
from rowlock.api.transaction import DeltaTransaction
from rowlock.conditions import Condition, named
from rowlock.display import count
from rowlock.engines.spark import catalog
from rowlock.engines.spark.catalyst.analysis import TableName
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession, columns_of_frame
from rowlock.engines.spark.frames.results import Results
from rowlock.engines.spark.read.scan import table_schema
from rowlock.engines.spark.sql.insert import assigned
from rowlock.engines.spark.sql.nodes import Nodes
from rowlock.exceptions import SchemaMismatch, refuse
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.column_values import CURRENT_DEFAULT, GENERATION_EXPRESSION, is_identity
from rowlock.protocol.paths import path_of
from rowlock.protocol.schema import StructType, dotted, parse_schema, quote, unresolved_column
from rowlock.protocol.schema_fit import goes_by_name, listed_by_name, named_by_place
from rowlock.transaction.state.call import settings

open_part: ContextVar[Callable[[str], DeltaTransaction] | None] = ContextVar("the parts of the transaction in which statements run", default=None)
"""Returns the part of a table, by its path; None where each statement is a transaction of its own."""


@dataclass(frozen=True, slots=True)
class Target:
    """The table that a statement is on.

    statement  what it is called in errors
    parts      the table's name
    folder     where it is; None where there is none yet
    alias      the name that its expressions may use for it: the one given, else the last part of the table's name
    """

    nodes: Nodes
    statement: str
    parts: tuple[str, ...]
    folder: str | None
    alias: str | None = None

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self.nodes.spark

    @property
    def results(self) -> Results:
        """What statements return, on the session."""
        return Results(self.nodes.spark)

    @property
    def path(self) -> str:
        """The folder of a table that is there."""
        assert self.folder is not None
        return self.folder

    def changed(self) -> DeltaTable | DeltaTransaction:
        """What carries out the statement: the table, or its part of the transaction in which the statement runs, under its alias."""
        part_of = open_part.get()
        return self.table() if part_of is None else part_of(self.path).alias(self.alias or self._alias_by_name())

    @property
    def handle(self) -> Handle:
        """The table that is there: opened as the transaction opened it in which the statement runs."""
        part_of = open_part.get()
        if part_of is not None:
            return part_of(self.path)._handle
        return Handle(self.spark, self.path, name=() if self.path == self.parts[-1] else self.parts)

    def table(self) -> DeltaTable:
        """The table that is there, under its alias."""
        return DeltaTable(self.handle).alias(self.alias or self._alias_by_name())

    @property
    def head(self) -> Snapshot:
        """The newest version of the table that is there."""
        return self.handle.state.refresh()

    @property
    def whole_name(self) -> tuple[str, ...]:
        """The parts of the name with its schema and its catalog; of a path the format's name and the path after the catalog."""
        return ("spark_catalog", *self.parts) if path_of(self.parts) is not None else catalog.Name(self.spark, dotted(self.parts)).parts

    def _alias_by_name(self) -> TableName:
        """The name with its schema and its catalog, by which expressions may call the table without an alias."""
        return TableName.of(self.parts if path_of(self.parts) is not None else self.whole_name)

    def refuse(self, what: str, instead: str, condition: Condition | None = None) -> None:
        """Raises UnsupportedFeature for a form of the statement that Rowlock has not."""
        refuse(f"{self.statement} {what}".strip(), self.folder or ".".join(self.parts), "this version of Rowlock has no such form", instead, condition)


def fitted(
    target: Target, rows: DataFrame, names: Sequence[str], *, by_name: bool = False, fills: bool = False, evolving: bool = False, listed: bool = False
) -> DataFrame:
    """The rows under the table's columns `names`, by position, cast as the session's store assignment policy says.  Raises SchemaMismatch.

    With `by_name` the fields of structs are matched by their names, and with `fills` those that the rows lack are null, as in writes of DataFrames; with `evolving` columns and fields that the table lacks keep their own types.
    `listed`: the statement itself lists the names, which adds none to the table's.
    """
    if len(rows.columns) != len(names):
        counts = {"numColumns": len(names), "insertColumns": len(rows.columns)}
        too_few = named("DELTA_INSERT_COLUMN_ARITY_MISMATCH", tableName=".".join(target.parts), columnName="not enough data columns", **counts)
        text = f"The INSERT gives {count(len(rows.columns), 'column')} for {len(names)}: {', '.join(names)}. List those that it gives after the table's name"
        raise SchemaMismatch(text, table=target.path, condition=too_few if len(rows.columns) < len(names) else named("DELTA_METADATA_MISMATCH"))
    head = target.head
    given, may_widen = columns_of_frame(rows), widening(head) if evolving else None
    placed = listed_by_name(given, names, head.schema, may_widen) if listed and not by_name else None
    by_name = by_name or placed is not None or (not listed and goes_by_name(given, names, head.schema, may_widen))
    if evolving and not (listed and {n.lower() for n in names}.difference(n.lower() for n in table_schema(head).names)):
        added = [replace(f, name=n) for f, n in zip((placed or given).fields, names, strict=True)]
        if not by_name:
            added = [f if (at := head.schema.find(f.name)) is None else replace(f, type=named_by_place(f.type, at.type)) for f in added]
        head = replace(head, metadata=(wider := widened_metadata(head, StructType(tuple(added)))), schema=parse_schema(wider.schema_string, head.table))
    schema = table_schema(head)
    known = {f.name.lower(): f for f in schema.fields}
    if missing := [n for n in names if n.lower() not in known]:
        text = f"There is no column {missing[0]!r} to set; the table has {', '.join(schema.names)}. Leave it out, or let the write add it (mergeSchema)"
        raise SchemaMismatch(text, table=target.path, condition=unresolved_column(missing[:1], schema.names) if listed else named("DELTA_METADATA_MISMATCH"))
    times = Counter(n.lower() for n in names)
    if twice := [n for n in names if times[n.lower()] > 1]:
        duplicate = named("DELTA_DUPLICATE_COLUMNS_FOUND.READ_SCHEMA", duplicateCols=", ".join(twice))
        condition = named("COLUMN_ALREADY_EXISTS", columnName=quote(twice[-1])) if listed else duplicate
        raise SchemaMismatch(f"A column is set twice: {', '.join(names)}", table=target.path, condition=condition)
    return assigned(rows, [known[n.lower()] for n in names], ".".join(target.parts), by_name=by_name, fills=fills, placed=placed, with_metadata=evolving)


_IGNORED = frozenset(("path", "__required_write_privileges__", "__partition_columns"))
_OPTIONS: Mapping[str, str] = {
    "mergeSchema": "merge_schema",
    "overwriteSchema": "overwrite_schema",
    "replaceWhere": "replace_where",
    "replaceUsing": "replace_using",
    "replaceOn": "replace_on",
    "targetAlias": "target_alias",
    "dataChange": "data_change",
    "partitionOverwriteMode": "partition_overwrite_mode",
    "txnAppId": "app_id",
    "txnVersion": "app_version",
    "userMetadata": "user_metadata",
    "maxRecordsPerFile": "max_records_per_file",
    "compression": "compression",
    "optimizeWrite": "optimize_write",
}
"""The arguments of `rowlock.write` by the names of options."""
_ARGUMENTS = {name.lower(): argument for name, argument in _OPTIONS.items()}
"""The same by the names in small letters: Spark's options have no case."""


def write_arguments(options: Mapping[str, str], table: str, *, replaces: bool = True) -> dict[str, Any]:
    """The arguments of `rowlock.write` that options of a DataFrameWriter stand for; without those that a write has no use for which does not replace rows.

    Warns of an option without effect.  Raises UnsupportedFeature for a misspelt one, InvalidInput for a value that none of its kind is.
    """
    out: dict[str, Any] = {}
    for name, value in options.items():
        lower = name.lower()
        if lower in _IGNORED:
            continue
        if lower in _ARGUMENTS:
            out[_ARGUMENTS[lower]] = _value(lower, name, value, table)
        elif lower.startswith(("delta.", "rowlock.")):
            out.setdefault("properties", {})[name] = value
        else:
            arguments.pass_over([name], tuple(_OPTIONS), "write", "write", table)
    if out.get("overwrite_schema") and "replace_where" in out:
        del out["overwrite_schema"]
        arguments.warn_once("The option overwriteSchema of a write has no effect beside replaceWhere")
    return {name: value for name, value in out.items() if value is not None and (replaces or name not in ("overwrite_schema", "partition_overwrite_mode"))}


def evolves(options: Mapping[str, Any]) -> bool:
    """Whether a write with these arguments adds columns that the table lacks: as they say, else as the session's setting does."""
    given = options.get("merge_schema")
    return settings().flag("schema.autoMerge.enabled") if given is None else bool(given)


def _value(lower: str, name: str, text: str, table: str) -> Any:
    """The value of an option as its argument takes it; None where it says nothing."""
    if lower in ("mergeschema", "overwriteschema", "datachange", "optimizewrite"):
        return arguments.option_is_true(name, text, table)
    if lower == "replaceusing":
        return list(dict.fromkeys(c.strip() for c in text.split(",")))
    if lower == "partitionoverwritemode":
        if text.lower() not in ("static", "dynamic"):
            raise arguments.illegal_option(name, text, "must be 'static' or 'dynamic'", table)
        return text.lower()
    if lower in ("txnversion", "maxrecordsperfile"):
        number = int(text) if text.strip().lstrip("-").isdecimal() else None
        if number is None or (lower == "txnversion" and number < 0):
            raise arguments.illegal_option(name, text, "must be a non-negative integer", table)
        return max(0, number)  # as Spark has it: no limit below 1
    return text


def check_given(target: Target, names: Iterable[str]) -> None:
    """Raises SchemaMismatch for a column that an INSERT leaves out and that has no value of its own, where the session's setting gives it no null."""
    if arguments.is_set(target.spark, "spark.sql.defaultColumn.useNullsForMissingDefaultValues", otherwise=True):
        return
    schema, given = target.head.schema, {n.lower() for n in names}
    for field in schema.fields:
        if field.name.lower() not in given and not (is_identity(field) or {CURRENT_DEFAULT, GENERATION_EXPRESSION} & field.metadata.keys()):
            text = f"The INSERT has no value for column {field.name}, and spark.sql.defaultColumn.useNullsForMissingDefaultValues=false gives it no null"
            raise SchemaMismatch(text, table=target.path, condition=named("DELTA_INSERT_COLUMN_MISMATCH", columnName=field.name))
