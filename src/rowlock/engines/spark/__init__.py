"""The data plane on Apache Spark, the only folder that imports pyspark."""

from rowlock import extras

extras.need("Spark's part of Rowlock", "pyspark", "xxhash")
