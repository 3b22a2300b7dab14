"""Streams into a table by format name: each batch is one commit, and a batch that runs again is not written again."""

from __future__ import annotations

from typing import Any

from rowlock.api import frames
from rowlock.api.sql.target import write_arguments
from rowlock.conditions import named
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession
from rowlock.engines.spark.sql.relations import local_path
from rowlock.engines.spark.sql.streams import query_id
from rowlock.exceptions import InvalidInput, UnsupportedFeature

_OF_SPARK = frozenset(("checkpointlocation", "queryname"))
_NOT_IN_STREAMS = ("replaceWhere", "txnAppId", "txnVersion", "partitionOverwriteMode")


def check_sink(options: dict[str, str], mode: str) -> None:
    """Raises where a stream cannot write with these options or in this output mode."""
    path, arguments = _arguments(options)
    if arguments.get("overwrite_schema") and mode != "Complete":
        raise InvalidInput("overwriteSchema goes with output mode complete, in which each batch replaces all rows", table=path)
    if mode not in ("Append", "Complete"):
        raise InvalidInput(
            f"A stream writes a table in output mode append or complete, not {mode.lower()}: for updates use foreachBatch and DeltaTable.merge",
            table=path,
            condition=named("DELTA_UNSUPPORTED_OUTPUT_MODE", dataSource="delta", mode=mode),
        )


def write_batch(spark: SparkSession, number: int, options: dict[str, str], partition_by: list[str], mode: str, rows: DataFrame) -> None:
    """Appends a batch to the table, or replaces its rows in output mode complete, as step `number` of the query's id."""
    path, arguments = _arguments(options)
    how: dict[str, Any] = (
        {"mode": "overwrite", "partition_overwrite_mode": None if arguments.get("overwrite_schema") else "static"} if mode == "Complete" else {}
    )
    frames.write(rows, path, partition_by=partition_by, app_id=query_id(spark), app_version=number, **how, **arguments)


def _arguments(options: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """(the table's path, arguments of `rowlock.write`) of the options of a DataStreamWriter."""
    given = {name: value for name, value in options.items() if name.lower() not in _OF_SPARK}
    place = next((value for name, value in given.items() if name.lower() == "path"), "")
    if not place:
        raise InvalidInput('Say where the table is to be: df.writeStream.format("rowlock").start("/path/of/table")')
    path = local_path(place)
    if said := next((name for name in _NOT_IN_STREAMS if name.lower() in {n.lower() for n in given}), None):
        raise UnsupportedFeature(
            f"The option {said} of a stream is refused: each batch is a step of the query's own id. Leave it out, or write with foreachBatch",
            feature=f"option {said} of a stream",
            access="write",
            table=path,
        )
    return path, write_arguments(given, path)
