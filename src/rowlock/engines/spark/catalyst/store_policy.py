"""The session's policy of storing: which values of other types a column takes."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType

from rowlock.conditions import named
from rowlock.engines.spark.catalyst.bridge import Catalyst
from rowlock.exceptions import SchemaMismatch


def store_policy(spark: SparkSession) -> str:
    """ANSI, LEGACY or STRICT, as `spark.sql.storeAssignmentPolicy` says."""
    return str(spark.conf.get("spark.sql.storeAssignmentPolicy", "ANSI")).upper()


def check_up_cast(bridge: Catalyst, spark: SparkSession, actual: DataType, wanted: DataType, name: str, table: str) -> None:
    """Raises SchemaMismatch where the policy is STRICT and a value of a type may be lost as the other."""
    if store_policy(spark) != "STRICT" or bridge.can_up_cast(actual.json(), wanted.json()):
        return
    given, type_ = actual.simpleString(), wanted.simpleString()
    raise SchemaMismatch(
        f"Column {name} is {type_}, and spark.sql.storeAssignmentPolicy=STRICT stores no {given} in it: cast the value",
        table=table,
        condition=named("CANNOT_UP_CAST_DATATYPE", expression=name, sourceType=given, targetType=type_, details=""),
    )
