"""The list of Delta's properties is delta-spark's own."""

from __future__ import annotations

from pyspark.sql import SparkSession

from rowlock.protocol.delta_properties import DELTA_PROPERTIES

OF_OTHERS = {
    "delta.targetFileSize",
    "delta.tuneFileSizesForRewrites",
    "delta.parquet.compression.codec",
    "delta.universalFormat.config",
    "delta.enableIcebergWriterCompatV1",
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
}
"""Properties of Databricks and of delta-kernel, and names that delta-spark does not keep in its list."""


def test_every_property_of_delta_spark_is_in_the_list(spark: SparkSession) -> None:
    """A property that a later delta-spark adds must get its treatment."""
    config = spark._jvm.org.apache.spark.sql.delta.DeltaConfigs.getAllConfigs()  # type: ignore[union-attr]
    found = {entry.key() for entry in _values(config)}
    assert found == set(DELTA_PROPERTIES) - OF_OTHERS


def _values(scala_map):  # type: ignore[no-untyped-def]
    values = scala_map.values().iterator()
    while values.hasNext():
        yield values.next()
