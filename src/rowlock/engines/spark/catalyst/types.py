"""Re-exports types of pyspark for folders that may not import pyspark themselves."""

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql.types import DataType, StructField, StructType

__all__ = ["Column", "DataFrame", "DataType", "Row", "SparkSession", "StructField", "StructType"]
