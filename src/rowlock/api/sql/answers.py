"""What Spark is answered on a session with Rowlock: statements, reads and writes by format name (see engines/spark/sql/callback.py)."""

from __future__ import annotations

from typing import Any

from rowlock.api import frames, newest
from rowlock.api.sql import beside, statements, streams
from rowlock.api.sql.reading import frame_of, frame_of_named, no_table_is_no_path
from rowlock.api.sql.target import write_arguments
from rowlock.api.stream_source import source
from rowlock.engines.spark.catalyst.bridge import class_name
from rowlock.engines.spark.catalyst.types import DataFrame, SparkSession
from rowlock.engines.spark.sql.guard import Guard
from rowlock.engines.spark.sql.nodes import Nodes
from rowlock.engines.spark.sql.relations import analyzed, check_given_schema, local_path, named, partition_columns, plan_of
from rowlock.engines.spark.sql.session import serves_delta
from rowlock.exceptions import InvalidInput

_MODES = {"Append": "append", "Overwrite": "overwrite", "ErrorIfExists": "error", "Ignore": "ignore"}


class SparkAnswers:
    """Carries out what Spark hands over.  One object for all sessions and threads; it holds nothing."""

    def claim(self, spark: SparkSession, plan: Any, top: bool) -> Any:
        """See `Answers`."""
        nodes = Nodes(spark)
        if not beside.is_asked(nodes, plan):
            return None
        if top and beside.is_write(plan):
            return nodes.jvm_type(statements.NOTHING)
        with no_table_is_no_path(class_name(plan)):
            answer = statements.answer_of(nodes, plan, top)
        return None if answer is None else nodes.jvm_type(answer)

    def claim_text(self, spark: SparkSession, text: str) -> Any:
        """See `Answers`."""
        nodes = Nodes(spark)
        statement = statements.own_statement(nodes, text) if beside.is_asked_text(spark, text) else None
        return None if statement is None else nodes.jvm_type(statements.own_answer(statement))

    def run(self, spark: SparkSession, what: Any) -> DataFrame | None:
        """See `Answers`."""
        nodes = Nodes(spark)
        if not isinstance(what, str):
            if beside.is_write(what):
                self.save(spark, *beside.write_of(nodes, what))
                return None
            with no_table_is_no_path(class_name(what)):
                return statements.carry_out(nodes, what)
        statement = statements.own_statement(nodes, what)
        if statement is None:
            raise InvalidInput(f"This is no statement any more: {what}")
        return statements.carry_out_own(nodes, statement)

    def check(self, spark: SparkSession, command: Any) -> None:
        """See `Answers`."""
        if serves_delta(spark):
            Guard(spark).check(command)

    def read(self, spark: SparkSession, options: dict[str, str], schema: str | None) -> Any:
        """See `Answers`."""
        if not options.get("path"):
            raise InvalidInput('Say where the table is: spark.read.format("rowlock").load("/path/of/table")')
        path = local_path(options["path"])
        frame = frame_of(spark, path, options)
        check_given_schema(schema, frame, path)
        return analyzed(frame)

    def scan(self, spark: SparkSession, table: str, version: int | None, columns: str, hidden: list[str] | None, versions: Any) -> Any:
        """See `Answers`."""
        return newest.scan(spark, table, version, columns, hidden, versions)

    def relation(self, spark: SparkSession, node: Any) -> Any:
        """See `Answers`."""
        nodes = Nodes(spark)
        found = named(nodes, node) if beside.is_asked_name(nodes, node) else None
        if found is not None and class_name(node) == "UnresolvedRelation" and node.isStreaming():
            return plan_of(spark.readStream.format("rowlock").options(**found.options).load(found.path), found.name)
        if found is None:
            return None
        with no_table_is_no_path():
            return plan_of(frame_of_named(spark, found), found.name)

    def save(self, spark: SparkSession, mode: str, options: dict[str, str], rows: DataFrame) -> None:
        """See `Answers`."""
        place = next((v for k, v in options.items() if k.lower() == "path"), "")
        if not place:
            raise InvalidInput('Say where the table is to be: df.write.format("rowlock").save("/path/of/table")')
        path = local_path(place)
        arguments = write_arguments(options, path)
        frames.write(rows, path, mode=_MODES[mode], partition_by=partition_columns(options), **arguments)  # type: ignore[arg-type]

    def sink(self, spark: SparkSession, options: dict[str, str], partition_by: list[str], mode: str) -> None:
        """See `Answers`."""
        streams.check_sink(options, mode)

    def batch(self, spark: SparkSession, number: int, options: dict[str, str], partition_by: list[str], mode: str, rows: DataFrame) -> None:
        """See `Answers`."""
        streams.write_batch(spark, number, options, partition_by, mode, rows)

    def stream_columns(self, spark: SparkSession, options: dict[str, str], schema: str | None) -> Any:
        """See `Answers`."""
        return Nodes(spark).jvm_type(source.columns(spark, options, schema))

    def stream_open(self, spark: SparkSession, options: dict[str, str], schema: str | None, place: str) -> str:
        """See `Answers`."""
        return source.open_stream(spark, options, schema, place)

    def stream(self, spark: SparkSession, number: str, what: str, values: list[Any]) -> Any:
        """See `Answers`."""
        if what == "stop":
            return source.stop(number)
        found = source.stream(number)
        if what == "latest":
            return found.latest(values[0], unlimited=bool(values[1]))
        if what == "batch":
            return found.batch(values[0], values[1])
        if what == "committed":
            return found.committed(values[0])
        if what == "available_now":
            return found.available_now()
        return found.name if what == "name" else Nodes(spark).jvm_type(found.columns)
