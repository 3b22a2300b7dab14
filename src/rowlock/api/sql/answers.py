"""What Spark is answered on a session with Rowlock: statements, reads, writes and streams by format name (see engines/spark/sql/session.py).

A stream's batch is one commit, and a batch that runs again is not written again.  `rowlock.sql` runs a text by the same mapping without any class in Spark's
JVM: Spark parses it, and Delta tables in it become Rowlock's plans.

On a session that has delta-spark's JAR, too, the session's setting may give Delta tables to Rowlock: then all statements that change them are Rowlock's, and
queries stay delta-spark's, which read the same rows.  Else those that name Rowlock are: rowlock.`/path`, and tables that are made USING rowlock.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from rowlock.api import frames
from rowlock.api.change_feed import Bound, changes
from rowlock.api.handle import Handle, by_settings_of
from rowlock.api.sql import statements
from rowlock.api.sql.descriptions import quoted
from rowlock.api.sql.target import Target, evolves, fitted, open_part, write_arguments
from rowlock.api.stream_source import source
from rowlock.api.transaction import DeltaTransaction
from rowlock.arguments import option_is_true, pass_over, warn_once
from rowlock.conditions import named as condition
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession, StructType, columns_of_frame
from rowlock.engines.spark.frames.results import Results
from rowlock.engines.spark.sql.nodes import Nodes
from rowlock.engines.spark.sql.parsing import Named, Replaced
from rowlock.engines.spark.user_session import Session
from rowlock.exceptions import InvalidInput, PathNotFound, SchemaMismatch, TableNotFound, UnsupportedFeature, refuse
from rowlock.protocol.paths import moment_in, partitions_in, place_in, strip_scheme
from rowlock.protocol.schema import VOID, quote, type_names
from rowlock.storage.open import open_store
from rowlock.transaction.definition import creation
from rowlock.transaction.state import call

_OWN = "rowlock"
_PATH_IN_TEXT = re.compile(r"\b`?rowlock`?\s*\.\s*`", re.IGNORECASE)
_DELTA_SPARKS = "org.apache.spark.sql.delta.sources.DeltaDataSource"


def is_asked(nodes: Nodes, plan: Any) -> bool:
    """Whether a command is Rowlock's to look at."""
    if Session(nodes.spark).serves_delta:
        return True
    makes = nodes.kind(plan) in statements.MAKES
    return (makes and nodes.format_of(plan) == _OWN) or any(_is_own(parts) for parts, _ in nodes.targets(plan, makes=makes))


def is_asked_text(spark: SparkSession, text: str) -> bool:
    """Whether a text that may be a statement of Delta's own is Rowlock's to look at."""
    if Session(spark).serves_delta:
        return True
    if not _PATH_IN_TEXT.search(text):
        return False
    found = statements.parsed_own(spark, text)
    return found is not None and _is_own(found.table)


def is_asked_name(nodes: Nodes, node: Any) -> bool:
    """Whether what a query names is Rowlock's to read."""
    if Session(nodes.spark).serves_delta:
        return True
    if nodes.class_name(node) == "UnresolvedTableValuedFunction":
        return False
    return _is_own(nodes.parts(node.relation() if nodes.class_name(node) == "RelationTimeTravel" else node))


def is_write(nodes: Nodes, plan: Any) -> bool:
    """Whether a command writes a DataFrame by format name to delta-spark's data source."""
    return nodes.class_name(plan) == "SaveIntoDataSourceCommand" and str(plan.dataSource().getClass().getName()) == _DELTA_SPARKS


def write_of(nodes: Nodes, plan: Any) -> tuple[str, dict[str, str], DataFrame]:
    """The mode, the options and the rows of such a write."""
    held = plan.options()
    options = held.originalMap() if nodes.class_name(held) == "CaseInsensitiveMap" else held
    return str(plan.mode().name()), {str(k): str(v) for k, v in nodes.mapping(options).items()}, nodes.frame(plan.query())


def _is_own(parts: Any) -> bool:
    return parts is not None and len(parts) == 2 and str(parts[0]).lower() == _OWN


def run_text(spark: SparkSession, text: str, args: dict[str, Any] | list[Any] | None) -> DataFrame:
    """See `rowlock.sql`."""
    part_of = open_part.get()  # asked here: Java may call on another thread
    nodes = Replaced(spark, lambda found: _rows_within(spark, found, part_of))
    own = statements.own_statement(nodes, text)
    if own is not None:
        if part_of is not None:
            raise _not_within(own.kind)
        return _answered(spark, statements.carry_out_own(nodes, own))
    if Session(spark).is_enabled and part_of is None:
        return spark.sql(text, args)
    plan = nodes.parsed(text, args)
    if not nodes.is_command(plan):
        if nodes.class_name(plan) == "Union" and all(statements.answer_of(nodes, each, True) is not None for each in nodes.items(plan.children())):
            for each in nodes.items(plan.children()):
                statements.carry_out(nodes, each)
            return Results(spark).of()
        if nodes.has_commands(plan):
            refuse("Several statements in one", None, "Rowlock carries out one statement at a time", "Write them one by one")
        return nodes.frame(plan)
    if part_of is not None and nodes.kind(plan) not in _WITHIN:
        raise _not_within(nodes.statement_name(plan))
    if statements.answer_of(nodes, plan, True) is not None:
        return _answered(spark, statements.carry_out(nodes, plan))
    if nodes.is_harmless(plan, on_delta=False) and nodes.class_name(plan) not in ("CompoundBody", "ExplainCommand", "CreateView", "CacheTableAsSelect"):
        return spark.sql(text, args)
    refuse(nodes.statement_name(plan), None, "rowlock.sql runs queries, and statements on Delta tables", "Use spark.sql")


_WITHIN = frozenset(("UpdateTable", "DeleteFromTable", "MergeIntoTable", "InsertIntoStatement"))
"""The statements that a transaction over several tables may have, by the classes of their plans."""


def _not_within(statement: str) -> InvalidInput:
    """The error for a statement that a transaction over several tables does not have."""
    return InvalidInput(f"{statement} cannot be part of a transaction over several tables, which has UPDATE, DELETE, MERGE, INSERT and queries")


def _answered(spark: SparkSession, frame: DataFrame | None) -> DataFrame:
    return Results(spark).of() if frame is None else frame


def _rows_within(spark: SparkSession, found: Named, part_of: Callable[[str], DeltaTransaction] | None) -> DataFrame:
    """The rows of a table that a query names, within a transaction as that sees them."""
    plain = found.version is None and found.timestamp is None and not found.changes
    return part_of(found.path).toDF() if part_of is not None and plain else frame_of_named(spark, found)


_OF_SPARK = frozenset(("checkpointlocation", "queryname"))
_NOT_IN_STREAMS = ("replaceWhere", "txnAppId", "txnVersion", "partitionOverwriteMode")


def check_sink(spark: SparkSession, options: dict[str, str], partition_by: list[str], mode: str) -> None:
    """Raises where a stream cannot write with these options or in this output mode."""
    path, arguments = _arguments(options)
    if arguments.get("overwrite_schema") and mode != "Complete":
        raise InvalidInput("overwriteSchema goes with output mode complete, in which each batch replaces all rows", table=path)
    if mode not in ("Append", "Complete"):
        text = f"A stream writes a table in output mode append or complete, not {mode.lower()}: for updates use foreachBatch and DeltaTable.merge"
        raise InvalidInput(text, table=path, condition=condition("DELTA_UNSUPPORTED_OUTPUT_MODE", dataSource="delta", mode=mode))


def write_batch(spark: SparkSession, rows: DataFrame, number: int, options: dict[str, str], partition_by: list[str], mode: str) -> None:
    """Appends a batch of a stream, or replaces the rows by it in output mode complete, as step `number` of the query's id: once however often it is given."""
    path, arguments = _arguments(options)
    if VOID in type_names(columns_of_frame(rows)):
        raise SchemaMismatch("A stream writes no columns of type void: cast them", table=path, condition=condition("DELTA_NULL_SCHEMA_IN_STREAMING_WRITE"))
    how: dict[str, Any] = (
        {"mode": "overwrite", "partition_overwrite_mode": None if arguments.get("overwrite_schema") else "static"} if mode == "Complete" else {}
    )
    if not arguments.get("overwrite_schema"):
        target = Target(Nodes(spark), "The stream", ("delta", path), path)
        with contextlib.suppress(TableNotFound), by_settings_of(Session(spark)):
            frames.check_partitions(target.head, rows, partition_by)
            rows = fitted(target, rows, rows.columns, by_name=True, fills=True, evolving=evolves(arguments))
    query = Session(spark).query_and_run(path)[0]
    with call.writing_batch(query, int(number), mode):
        frames.write(rows, path, partition_by=partition_by, app_id=query, app_version=int(number), **how, **arguments)


def _arguments(options: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """(the table's path, arguments of `rowlock.write`) of the options of a DataStreamWriter."""
    given = {name: value for name, value in options.items() if name.lower() not in _OF_SPARK}
    path = place_in(given, 'Say where the table is to be: df.writeStream.format("rowlock").start("/path/of/table")')
    if refused := next((name for name in _NOT_IN_STREAMS if name.lower() in {n.lower() for n in given}), None):
        text = f"The option {refused} of a stream is refused: each batch is a step of the query's own id. Leave it out, or write with foreachBatch"
        raise UnsupportedFeature(text, feature=f"option {refused} of a stream", access="write", table=path)
    return path, write_arguments(given, path)


_MODES = {"Append": "append", "Overwrite": "overwrite", "ErrorIfExists": "error", "Ignore": "ignore"}


def claim(spark: SparkSession, plan: Any, top: bool) -> StructType | None:
    """The columns of what a statement returns if Rowlock carries it out; None leaves it to Spark.  Raises for what is refused."""
    nodes = Nodes(spark)
    if not is_asked(nodes, plan):
        return None
    if top and is_write(nodes, plan):
        return Results.columns("")
    with no_table_is_no_path(nodes.class_name(plan)):
        return statements.answer_of(nodes, plan, top)


def claim_text(spark: SparkSession, text: str) -> StructType | None:
    """The same for a text that may be a statement which only Delta has."""
    nodes = Nodes(spark)
    statement = statements.own_statement(nodes, text) if is_asked_text(spark, text) else None
    return None if statement is None else Results.columns(statement.kind)


def carry_out(spark: SparkSession, what: Any) -> DataFrame | None:
    """Carries out a claimed statement: a plan, or a text."""
    nodes = Nodes(spark)
    if not isinstance(what, str):
        if is_write(nodes, what):
            save(spark, *write_of(nodes, what))
            return None
        with no_table_is_no_path(nodes.class_name(what)):
            return statements.carry_out(nodes, what)
    statement = statements.own_statement(nodes, what)
    if statement is None:
        raise InvalidInput(f"This is no statement any more: {what}")
    return statements.carry_out_own(nodes, statement)


def read(spark: SparkSession, options: dict[str, str], schema: str | None) -> DataFrame:
    """A table's rows; `schema` is what the caller says that its columns are, as JSON."""
    given = {name.lower(): value for name, value in options.items()}
    if not given.get("path"):
        raise InvalidInput('Say where the table is: spark.read.format("rowlock").load("/path/of/table")')
    path = strip_scheme(given["path"])
    frame = frame_of(spark, path, given)
    _check_given_schema(schema, frame, path)
    return frame


def _check_given_schema(given: str | None, frame: DataFrame, table: str) -> None:
    """Raises SchemaMismatch where a caller says that a table has other columns than it has; the catalog's entries say none."""
    if given is None:
        return
    wanted = StructType.fromJson(orjson.loads(given))
    if wanted.fields and [(f.name.lower(), f.dataType) for f in wanted.fields] != [(f.name.lower(), f.dataType) for f in frame.schema.fields]:
        raise SchemaMismatch(f"The table's columns are {frame.schema.simpleString()}, not {wanted.simpleString()}: leave schema() out", table=table)


def relation(spark: SparkSession, node: Any) -> DataFrame | None:
    """The rows of an older version of a table, or of one named by its path; None where the node names no Delta table."""
    nodes = Nodes(spark)
    found = Named.of(nodes, node) if is_asked_name(nodes, node) else None
    if found is not None and nodes.class_name(node) == "UnresolvedRelation" and node.isStreaming():
        return spark.readStream.format("rowlock").options(**found.options).load(found.path).alias(found.name)
    if found is None:
        return None
    with no_table_is_no_path("table_changes" if found.changes else "UpdateTable"):
        return frame_of_named(spark, found).alias(found.name)


def save(spark: SparkSession, mode: str, options: dict[str, str], rows: DataFrame) -> None:
    """Writes a DataFrame by format name."""
    path = place_in(options, 'Say where the table is to be: df.write.format("rowlock").save("/path/of/table")')
    arguments = write_arguments(options, path, replaces=mode == "Overwrite")
    if "properties" in arguments:  # also where the table is there, which keeps its own
        with by_settings_of(Session(spark)):
            creation.check_properties(arguments["properties"], path)
    by = [str(c) for c in orjson.loads(options.get("__partition_columns") or "[]")]  # which Spark hands over among the options
    frames.save(rows, path, mode=_MODES[mode], partition_by=by, **arguments)


def stream(spark: SparkSession, number: str, what: str, values: list[Any]) -> Any:
    """What the source with a number is asked, see StreamSource in streams.java."""
    if what == "stop":
        return source.stop(number)
    found = source.stream(number)
    if what == "latest":
        return found.latest(values[0], unlimited=values[1])
    asked = getattr(found, what)
    return asked if what in ("name", "columns") else asked(*values)  # batch, committed, available_now


ANSWERS: Mapping[str, Callable[..., Any]] = {
    "claim": claim, "claim_text": claim_text, "run": carry_out, "read": read, "scan": frames.scan, "relation": relation, "save": save,
    "sink": check_sink, "batch": write_batch, "stream_columns": source.columns, "stream_open": source.open_stream, "stream": stream,
}  # fmt: skip
"""What Spark is answered, by the word with which Rowlock's classes in the JVM ask."""


_VERSION, _TIME = "versionasof", "timestampasof"
_FEED = ("readchangefeed", "readchangedata")
_BOUNDS = frozenset(("startingversion", "endingversion", "startingtimestamp", "endingtimestamp"))
_NO_EFFECT = frozenset(("path", "serialization.format"))
_SPELLED = ("versionAsOf", "timestampAsOf", "readChangeFeed", "startingVersion", "endingVersion", "startingTimestamp", "endingTimestamp")
_KNOWN = frozenset((*_NO_EFFECT, _VERSION, _TIME, *_FEED, *_BOUNDS))


def frame_of(spark: SparkSession, path: str, options: Mapping[str, str]) -> DataFrame:
    """The rows that options of a DataFrameReader ask for; their names are in small letters.

    Raises UnsupportedFeature for a misspelt option, PathNotFound (an AnalysisException, as delta-spark raises) where there is no table.
    """
    try:
        return _frame(spark, path, options)
    except TableNotFound as e:
        raise path_not_found(path) from e


def _frame(spark: SparkSession, path: str, options: Mapping[str, str]) -> DataFrame:
    pass_over(sorted(set(options) - _KNOWN), _SPELLED, "read", "read", path)
    version, timestamp = options.get(_VERSION), options.get(_TIME)
    if not any(option_is_true(name, options[name], path) for name in _FEED if name in options):
        for bound in _BOUNDS & options.keys():
            warn_once(f"The option {bound} of a read without readChangeFeed=true has no effect on a Delta table")
        return _read(spark, path, None if version is None else _number(version, "versionAsOf", path), timestamp)
    if version is not None or timestamp is not None:
        text = "readChangeFeed does not go with versionAsOf or timestampAsOf: use startingVersion and endingVersion"
        raise InvalidInput(text, table=path, condition=condition("DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS"))
    start = _bound(options, "starting", path)
    if start is None:
        raise InvalidInput("readChangeFeed needs startingVersion or startingTimestamp", table=path, condition=condition("DELTA_NO_START_FOR_CDC_READ"))
    return changes(spark, path, start, _bound(options, "ending", path))


def frame_of_named(spark: SparkSession, found: Named) -> DataFrame:
    """The rows of a table that a query names: as it is, at a version or a time, or its changes."""
    if found.options:
        if found.version is not None or found.timestamp is not None:
            raise InvalidInput("Options do not go with VERSION AS OF or TIMESTAMP AS OF: leave one of them out", table=found.path)
        return frame_of(spark, found.path, found.options)
    if found.changes:
        return changes(spark, found.path, *found.changes)
    return _read(spark, found.path, found.version, found.timestamp)


def _read(spark: SparkSession, path: str, version: int | None, timestamp: str | datetime.datetime | None) -> DataFrame:
    """The rows of a table; where the path is none, of the version or the time (`/lake/sales@v3`, `/lake/sales@20260102030405678`) or of the partition with which it ends."""
    try:
        frame = frames.frame_at(Handle(spark, path), version, timestamp)
        return Nodes.marked(frame, path) if version is None and timestamp is None else frame
    except TableNotFound:
        if found := moment_in(path):
            if version is not None or timestamp is not None:
                twice = condition("DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS")
                raise InvalidInput("The path ends with a version or a time, and options say one, too", table=path, condition=twice) from None
            return frames.frame_at(Handle(spark, found[0]), *found[1:])
        folder, values = partitions_in(path)
        if values and values.keys() <= set((snapshot := (handle := Handle(spark, folder)).at(version, timestamp)).partition_columns):
            met = " AND ".join(f"{quote(n)} <=> {'NULL' if v is None else quoted(v)}" for n, v in values.items())
            if handle.planner.files_where(snapshot, met):
                return frames.frame_at(handle, version, timestamp).where(met)
        raise


def _bound(options: Mapping[str, str], name: str, path: str) -> Bound | None:
    """The version or the time with which the changes start or end."""
    version, timestamp = options.get(f"{name}version"), options.get(f"{name}timestamp")
    if version is not None and timestamp is not None:
        both = condition("DELTA_MULTIPLE_CDC_BOUNDARY", startingOrEnding=name)
        raise InvalidInput(f"Give {name}Version or {name}Timestamp, not both", table=path, condition=both)
    return timestamp if version is None else _number(version, f"{name}Version", path)


def _number(text: str, name: str, path: str) -> int:
    if not text.removeprefix("-").isdecimal():
        why = (
            condition("DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE", timeTravelKey=name)
            if name == "versionAsOf"
            else condition("DELTA_VERSION_INVALID", version=text)
        )
        raise InvalidInput(f"{name} is a number, not {text!r}", table=path, condition=why)
    return int(text)


def path_not_found(path: str) -> PathNotFound:
    """The error for a path that is no table's, for which a read has one condition where there is nothing and another where there is something else."""
    there = next(iter(open_store(path).list(recursive=True, limit=1)), None) is not None
    why = condition("DELTA_TABLE_NOT_FOUND", tableName=f"`{path}`") if there else condition("PATH_NOT_FOUND", path=path)
    return PathNotFound(f"{path} is not a Delta table: correct the path, or make the table", table=path, condition=why)


_OF_ROWS = frozenset(("UpdateTable", "DeleteFromTable", "MergeIntoTable", "InsertIntoStatement", "AppendData"))


@contextlib.contextmanager
def no_table_is_no_path(statement: str = "UpdateTable") -> Iterator[None]:
    """A block in which a table that is not there is a path that is not there: so it is for statements on rows, and not for ALTER TABLE and OPTIMIZE."""
    try:
        yield
    except TableNotFound as e:
        if statement not in _OF_ROWS or e.table is None or e.condition is None or e.condition.name != "DELTA_MISSING_DELTA_TABLE":
            raise
        raise path_not_found(e.table) from e
