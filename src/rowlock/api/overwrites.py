"""What an overwrite replaces: all rows, those of a condition, those that a new row matches (`replace_using` and `replace_on`, delta-spark's replaceUsing
and replaceOn), the partitions that the new rows fall into, or the table's columns with its rows.

An overwrite that says that it changes no row (delta-spark's option dataChange=false) is a compaction, once the rows were compared.  delta-spark takes the
writer's word: a row that another commit added meanwhile would be lost, and streams would not read it.  Here the rows that are given
must be those that the table holds, and its files are rewritten by OPTIMIZE, which no other writer can be harmed by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Literal, get_args

from rowlock import arguments
from rowlock.api import expressions
from rowlock.api.handle import Handle, Receipts
from rowlock.api.optimize_builder import DeltaOptimizeBuilder
from rowlock.api.row_writes import Stage
from rowlock.conditions import Condition, named
from rowlock.engines.spark.catalyst.types import Column, DataFrame, SparkSession, columns_of_frame
from rowlock.engines.spark.plan import Overwrite
from rowlock.engines.spark.statements import sources
from rowlock.exceptions import InvalidInput
from rowlock.log.snapshot import Snapshot
from rowlock.protocol.actions import AddFile, Metadata, SetTransaction
from rowlock.protocol.column_values import DEFAULTS
from rowlock.protocol.features import named_in, writer_features
from rowlock.protocol.schema import StructType, nullable
from rowlock.transaction.definition import replacement
from rowlock.transaction.state.call import settings
from rowlock.transaction.state.receipt import Receipt

PartitionOverwriteMode = Literal["static", "dynamic"]
_SETTING, _DYNAMIC = "spark.sql.sources.partitionOverwriteMode", "partition_overwrite_mode='dynamic'"


def matching_of(on: str | Column | None, using: str | Sequence[str] | None, alias: str | None, path: str) -> Overwrite:
    """Which rows a new row replaces, by the arguments of `rowlock.write`; all where they say nothing of it.  Raises InvalidInput, WrongType."""
    expressions.expression(on, "replace_on")
    columns = arguments.one_or_more_names(using, "replace_using")
    if using is not None and (not columns or not all(c.strip() for c in columns)):
        raise InvalidInput("replace_using must not contain empty column names", table=path, condition=named("DELTA_ILLEGAL_OPTION"))
    if on is not None and using is not None:
        text = "replace_on and replace_using do not go together: each says what is replaced"
        raise InvalidInput(text, table=path, condition=_incompatible("replaceOn", "replace_using"))
    return Overwrite(on=on, using=columns, alias=arguments.optional(arguments.text, alias, "target_alias"))


def overwrite_of(
    spark: SparkSession,
    path: str,
    mode: str,
    where: str | Column | None,
    overwrite_schema: bool,
    partition_mode: PartitionOverwriteMode | None,
    matching: Overwrite,
    data_change: bool = True,
) -> Overwrite:
    """What a write replaces, by its arguments and the session's setting.  Raises InvalidInput for arguments that do not go together."""
    expressions.expression(where, "replace_where")
    arguments.flag(overwrite_schema, "overwrite_schema")
    if partition_mode is not None:
        arguments.one_of(partition_mode, "partition_overwrite_mode", get_args(PartitionOverwriteMode), path)
    if matching.alias is not None and matching.on is None and where is None:
        raise InvalidInput("target_alias goes with replace_on or replace_where, and neither is given", table=path)
    by_match = "replace_using" if matching.using else "replace_on"
    given = {
        "replace_where": where is not None,
        by_match: matching.by_match,
        "overwrite_schema": overwrite_schema,
        _DYNAMIC: partition_mode == "dynamic",
    }
    chosen = [name for name, is_given in given.items() if is_given]
    if not arguments.flag(data_change, "data_change"):
        if mode != "overwrite" or (chosen and chosen != ["replace_where"]) or isinstance(where, Column):
            text = "data_change=False goes with mode='overwrite' and at most a replace_where as text: it compacts files"
            raise InvalidInput(text, table=path, condition=_incompatible("dataChange", by_match) if matching.by_match and mode == "overwrite" else None)
        return Overwrite(where, same=True)
    if chosen and mode != "overwrite":
        raise InvalidInput(f"{chosen[0]} goes with mode='overwrite', not with mode={mode!r}", table=path)
    if len(chosen) > 1:
        text = f"{chosen[0]} and {chosen[1]} do not go together: each says what is replaced"
        raise InvalidInput(text, table=path, condition=_apart(chosen, by_match))
    if mode != "overwrite" or chosen or partition_mode is not None:
        return replace(matching, where=where, dynamic=partition_mode == "dynamic", schema=overwrite_schema)
    return Overwrite(dynamic=is_dynamic(spark))


def _apart(chosen: Sequence[str], by_match: str) -> Condition | None:
    """Delta's condition for two arguments that each say what is replaced; None where it has none."""
    if by_match not in chosen:
        if _DYNAMIC not in chosen:
            return None
        by_filter = "replace_where" in chosen
        return named("DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE") if by_filter else named("DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE")
    if "overwrite_schema" in chosen:
        return _incompatible("overwriteSchema", by_match)
    if "replace_where" in chosen:
        return named("DELTA_OVERWRITE_BY_FILTER_INCOMPATIBLE_REPLACE_ON_OR_USING")
    return named("DELTA_DYNAMIC_PARTITION_OVERWRITE_INCOMPATIBLE_REPLACE_ON_OR_USING")


def _incompatible(option: str, by_match: str) -> Condition:
    second = "replaceUsing" if by_match == "replace_using" else "replaceOn"
    return named("DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS", firstDeltaOption=option, secondDeltaOption=second)


def is_dynamic(spark: SparkSession) -> bool:
    """Whether the session's setting asks for dynamic partition overwrite."""
    return str(spark.conf.get(_SETTING, "static")).lower() == "dynamic"


def columns_of_new(df: DataFrame, properties: Mapping[str, str], features: Set[str] = frozenset()) -> StructType:
    """The columns that a table gets from a DataFrame; the defaults of the rows' columns stay where it has their feature, or where `properties` or the session name it."""
    return columns_of_frame(df, defaults=DEFAULTS in features | named_in(settings().table_defaults(properties)))


def overwrite_schema(
    handle: Handle, df: DataFrame, *, partition_by: Sequence[str], app: SetTransaction | None = None, max_records: int | None = None
) -> Receipt:
    """Replaces rows, columns and partitioning of a table that is there by those of a DataFrame, in one commit.  Raises as `replacement.overwrite_schema` does."""
    schema = nullable(columns_of_frame(df, defaults=DEFAULTS in writer_features(handle.state.refresh().protocol)))
    return replacement.overwrite_schema(handle.state, schema, partition_by, writer_of(handle, df, max_records), app=app)


def writer_of(handle: Handle, df: DataFrame, max_records: int | None = None) -> replacement.Write:
    """What writes the rows of a DataFrame, as they are at that moment, into data files of a table that has its columns; none that are older than the head."""

    def write(draft: Snapshot, head: Snapshot) -> tuple[Sequence[AddFile], Sequence[int]]:
        rows = sources.frame_of_now(df)
        read = sources.versions_read(handle.engine.evaluator, rows, head.version)
        adds = [] if any(v < head.version for v in read) else _staged(handle, rows, draft, max_records)
        return adds, (*read, *sources.versions_read(handle.engine.evaluator, rows, handle.state.refresh().version)) if read else ()

    return write


def stage_of(handle: Handle, df: DataFrame, max_records: int | None = None) -> Stage:
    """What writes the rows of a DataFrame, as they are at that moment, into data files of a new table of its columns."""
    return lambda draft: _staged(handle, sources.frame_of_now(df), draft, max_records)


def _staged(handle: Handle, rows: DataFrame, draft: Snapshot, max_records: int | None) -> list[AddFile]:
    """The data files of the rows, written for a draft of the table."""
    handle.engine.check_slices([], snapshot=draft)  # a constraint on a column that goes, before anything is written
    return handle.engine.write_frame(rows, snapshot=draft, max_records=max_records)


def overwrite_matching(
    handle: Handle,
    df: DataFrame,
    what: Overwrite,
    *,
    metadata: Callable[[Snapshot], Metadata] | None = None,
    app: SetTransaction | None = None,
    max_records: int | None = None,
) -> Receipt:
    """Deletes the rows of a table that a row of `df` matches, and adds all rows of `df`, in one commit.  Raises what a MERGE and an append raise."""
    pinned: list[sources.Source] = []
    with handle.holding(pinned):
        return handle.run("WRITE", lambda planner, snapshot: planner.matching(snapshot, df, what, pinned, max_records), metadata=metadata, app=app)


def rearrange(handle: Handle, df: DataFrame, where: str | None) -> Receipt:
    """Compacts the files of a table, or those of the partitions that `where` names.

    Raises InvalidInput where the rows of `df` are others than the table has there, StatementRefused for a condition on other columns than partition columns.
    """
    snapshot = handle.state.refresh()
    if not handle.planner.holds_rows(snapshot, df, where):
        raise not_the_same(handle.path, "those that are given are not the table's: leave it out to replace rows", version=snapshot.version)
    receipts = Receipts()
    DeltaOptimizeBuilder(handle, receipts, where).executeCompaction()
    assert receipts.last is not None
    return receipts.last


def not_the_same(path: str, why: str, op: str | None = None, version: int | None = None) -> InvalidInput:
    """The error for a write that says that no row changes where more than files would; `op`: what of the table it would change."""
    text = f"data_change=False (dataChange=false) says that the rows stay the same, but {why}"
    return InvalidInput(text, table=path, version=version, condition=named("DELTA_DATA_CHANGE_FALSE", op=op) if op else None)


def no_table_yet(path: str) -> InvalidInput:
    """The error for a new table with data_change=False."""
    return not_the_same(path, "there is no table yet: leave it out to make one", "Create a Delta table")
