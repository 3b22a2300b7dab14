"""Streams by function: a table as a source, and one as a sink of foreachBatch; both work on a session without `rowlock.enable`, too."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from rowlock import arguments
from rowlock.api import expressions, frames
from rowlock.api.connect import check_classic
from rowlock.api.sql.answers import ANSWERS
from rowlock.api.stream_source.options import STORAGE
from rowlock.api.stream_source.source import columns
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession
from rowlock.engines.spark.sql import session
from rowlock.engines.spark.user_session import Session
from rowlock.exceptions import InvalidInput
from rowlock.transaction.state import call


def read(
    spark: SparkSession,
    path: str,
    *,
    starting_version: int | Literal["latest"] | None = None,
    starting_timestamp: str | datetime.datetime | None = None,
    read_change_feed: bool = False,
    max_files_per_trigger: int | None = None,
    max_bytes_per_trigger: int | str | None = None,
    ignore_deletes: bool = False,
    ignore_changes: bool = False,
    skip_change_commits: bool = False,
    fail_on_data_loss: bool = True,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A table as the source of a stream: its rows, then those that are appended, each once however often the query is killed and started again.

    The same as `spark.readStream.format("delta").options(...).load(path)` on a session with `rowlock.enable`; works without it and beside delta-spark's JAR.
    The log is read on the driver, by the query; the rows are read by its Spark jobs.  docs/streams.md says what ends a stream.

    Args:
        spark: A classic SparkSession (not Spark Connect) of Spark 4.0 to 4.3.
        path: A local path or a URL, as `DeltaTable.forPath` takes it.
        starting_version: Leave out the table's rows, and begin with what this version adds; `latest` is the version after the newest one.
        starting_timestamp: The same with the first version at or after a time: text that Spark can cast to a timestamp, or a datetime.
        read_change_feed: Read the change data feed: `_change_type`, `_commit_version` and `_commit_timestamp` follow the table's columns.
        max_files_per_trigger: How many files a batch reads; 1000, or no limit where max_bytes_per_trigger is given.
        max_bytes_per_trigger: After how many bytes of files a batch ends; or text such as `500m`.
        ignore_deletes: Read on where a version only removes whole files.
        ignore_changes: Read on where a version changes rows: all rows of the files that it rewrites are read again.
        skip_change_commits: Leave out versions that change or delete rows.
        fail_on_data_loss: Raise where the log no longer has what is to be read next; else it is left out.
        options: Further options by the names that docs/streams.md lists, such as `{"excludeRegex": "part-0"}` or `schemaTrackingLocation`.
        storage_options: How to reach a cloud, as in `DeltaTable.forPath`.

    Returns:
        A streaming DataFrame; `df.writeStream` starts a query.

    Raises:
        TableNotFound: There is no Delta table at the path.
        InvalidInput: An argument is not possible, or two do not go together.
        UnsupportedFeature: The table needs a feature that this version cannot read, or the session cannot do this.

    Examples:
        >>> rows = rowlock.streaming.read(spark, path, max_files_per_trigger=100)
        >>> rows.isStreaming
        True
        >>> sums = rows.groupBy("region").sum("amount")
    """
    check_classic(expressions.session(spark, "spark"), "rowlock.streaming.read")
    arguments.path(path, "path")
    flags = (
        ("readChangeFeed", "read_change_feed", read_change_feed),
        ("ignoreDeletes", "ignore_deletes", ignore_deletes),
        ("ignoreChanges", "ignore_changes", ignore_changes),
        ("skipChangeCommits", "skip_change_commits", skip_change_commits),
        ("failOnDataLoss", "fail_on_data_loss", fail_on_data_loss),
    )
    given = {option: str(arguments.flag(value, name)).lower() for option, name, value in flags}
    if isinstance(starting_timestamp, datetime.datetime):
        moment = datetime.datetime.fromtimestamp(Session(spark).milliseconds(starting_timestamp, path) / 1000, datetime.UTC)
        starting_timestamp = moment.isoformat()
    for option, name, value in (
        ("startingVersion", "starting_version", starting_version),
        ("startingTimestamp", "starting_timestamp", starting_timestamp),
        ("maxFilesPerTrigger", "max_files_per_trigger", max_files_per_trigger),
        ("maxBytesPerTrigger", "max_bytes_per_trigger", max_bytes_per_trigger),
    ):
        if value is not None:
            given[option] = value if isinstance(value, str) else str(arguments.number(value, name))
    given |= arguments.text_by_text(options or {}, "options")
    given |= {f"{STORAGE}{name}": value for name, value in arguments.text_by_text(storage_options or {}, "storage_options").items()}
    given["path"] = str(path)
    schema = columns(spark, given, None)
    return spark.readStream.format(session.stream_source(spark, ANSWERS)).schema(schema).options(**given).load()


def sink(
    path: str,
    *,
    mode: Literal["append", "overwrite"] = "append",
    partition_by: str | Sequence[str] | None = None,
    merge_schema: bool = False,
    name: str | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that writes each batch into a table, once however often the batch is given; made where there is no table.

    Each batch is one commit: step `batch id` of the application whose name is the query's id, which its checkpoint keeps.  Spark jobs write the rows.

    Args:
        path: A local path or a URL, as `DeltaTable.forPath` takes it.
        mode: `append`, or `overwrite`: the batch replaces the table's rows.
        partition_by: Columns to partition a table by that is made.
        merge_schema: Whether columns that the table lacks are added to it.
        name: Distinguishes sinks of one table in one query, each of which writes a part of every batch; another one for each, the same for good.
        properties: Table properties of a table that is made.
        storage_options: How to reach a cloud, as in `DeltaTable.forPath`.

    Returns:
        The function, of a DataFrame and the number of the batch.

    Raises:
        InvalidInput: The mode is another one.  When a batch is written: a batch is given twice, or outside of a query's thread; and what `rowlock.write` raises, which ends the query.

    Examples:
        >>> rows = rowlock.streaming.read(spark, path)
        >>> writer = rows.writeStream.foreachBatch(rowlock.streaming.sink(folder + "/copy")).option("checkpointLocation", folder + "/checkpoint")
        >>> writer.trigger(availableNow=True).start().awaitTermination()
        >>> rowlock.read(spark, folder + "/copy").count()
        3
    """
    arguments.path(path, "path")
    if mode not in ("append", "overwrite"):
        raise InvalidInput(f"mode is append or overwrite, not {mode!r}", table=str(path))

    arguments.optional(arguments.text, name, "name")
    written: list[tuple[str, str | None, int]] = []
    static: Literal["static"] | None = "static" if mode == "overwrite" else None  # whatever the session's setting is

    def write_batch(rows: DataFrame, number: int) -> None:
        check_classic(rows.sparkSession, "rowlock.streaming.sink")
        query, run = Session(rows.sparkSession).query_and_run(str(path))
        if run is not None and (query, run, number) in written:
            raise InvalidInput(
                f"The sink was given batch {number} twice, and would leave the second rows out as a batch that runs again: "
                "unite the DataFrames, or make a sink with another name for each",
                table=str(path),
            )
        with call.writing_batch(query, number, "Append" if mode == "append" else "Complete"):
            frames.write(
                rows,
                path,
                mode=mode,
                partition_overwrite_mode=static,
                partition_by=partition_by,
                merge_schema=merge_schema,
                properties=properties,
                app_id=query if name is None else f"{query}/{name}",
                app_version=number,
                storage_options=storage_options,
            )
        written[:] = [(query, run, number)]

    return write_batch
