"""What writing a stream by format name needs of Spark: a batch as a DataFrame that can be read again, and the id of its query."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from rowlock.engines.spark.catalyst.bridge import JavaObject

_QUERY_ID = "sql.streaming.queryId"


def still(batch: JavaObject, spark: SparkSession) -> DataFrame:
    """The rows of a batch as a DataFrame that is no stream: a plan over a batch would be planned as a batch query, without the stream's state."""
    session = batch.sparkSession()
    return DataFrame(session.internalCreateDataFrame(batch.queryExecution().toRdd(), batch.schema(), False), spark)


def query_id(spark: SparkSession) -> str:
    """The id of the query that this thread runs; it stays the same for as long as the query's checkpoint is there."""
    found = spark.sparkContext.getLocalProperty(_QUERY_ID)
    assert found is not None, "a batch outside of a query"
    return str(found)
