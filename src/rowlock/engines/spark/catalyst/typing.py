"""Parses the type of a column as users give it: a DataType, or text such as 'BIGINT' or 'struct<a:int>'."""

from __future__ import annotations

from pyspark.sql.types import DataType, StructType

from rowlock.engines.spark.catalyst.errors import BadType
from rowlock.exceptions import WrongType


def parse_type(given: str | DataType) -> DataType:
    """The DataType that was given, as it is or parsed from text.  Raises BadType for text that Spark's parser does not know."""
    if isinstance(given, DataType):
        return given
    if not isinstance(given, str):
        raise WrongType(f"A column's type is a DataType or a string, not {type(given).__name__}")
    try:
        parsed = StructType.fromDDL(f"c {given}")
    except Exception as e:
        raise BadType(f"{given!r} is not a type that Spark knows") from e
    assert isinstance(parsed, StructType)
    return parsed.fields[0].dataType
