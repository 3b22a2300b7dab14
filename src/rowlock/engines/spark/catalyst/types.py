"""pyspark's types under this package's name, for layers that may not import pyspark."""

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql.types import DataType, StructField, StructType

__all__ = ["Column", "DataFrame", "DataType", "Row", "SparkSession", "StructField", "StructType"]
