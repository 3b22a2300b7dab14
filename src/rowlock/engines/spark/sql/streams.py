"""What writing a stream by format name needs of Spark: a batch as a DataFrame that can be read again, and the id of its query."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from rowlock.engines.spark.catalyst.bridge import JavaObject
from rowlock.exceptions import InvalidInput

_QUERY_ID = "sql.streaming.queryId"
_JOB_GROUP = "spark.jobGroup.id"
"""A run of a query has its id as job group."""


def still(batch: JavaObject, spark: SparkSession) -> DataFrame:
    """The rows of a batch as a DataFrame that is no stream: a plan over a batch would be planned as a batch query, without the stream's state."""
    session = batch.sparkSession()
    return DataFrame(session.internalCreateDataFrame(batch.queryExecution().toRdd(), batch.schema(), False), spark)


def query_id(spark: SparkSession) -> str:
    """The id of the query that this thread runs; it stays the same for as long as the query's checkpoint is there."""
    found = spark.sparkContext.getLocalProperty(_QUERY_ID)
    assert found is not None, "a batch outside of a query"
    return str(found)


def query_and_run(spark: SparkSession, table: str) -> tuple[str, str | None]:
    """The id of the query that this thread runs, and the job group of the thread, which is a new one for each run of the query; None where there is none.

    Raises InvalidInput outside of a query's thread.
    """
    context = spark.sparkContext
    if context.getLocalProperty(_QUERY_ID) is None:
        raise InvalidInput(
            "The sink needs the query that the batch is of: call it in the function of foreachBatch itself, not in a thread that this begins", table=table
        )
    query = query_id(spark)
    return query, context.getLocalProperty(_JOB_GROUP)
