"""The session's policy of storing: which values of other types a column takes."""

from __future__ import annotations

from functools import cached_property

from pyspark.sql import Column, SparkSession
from pyspark.sql.types import DataType

from rowlock.conditions import named
from rowlock.engines.spark.catalyst.bridge import Catalyst
from rowlock.exceptions import SchemaMismatch


def store_policy(spark: SparkSession) -> str:
    """ANSI, LEGACY or STRICT, as `spark.sql.storeAssignmentPolicy` says."""
    return str(spark.conf.get("spark.sql.storeAssignmentPolicy", "ANSI")).upper()


class StorePolicy:
    """The policy of a session for the values of one statement, which asks for it once, where a value has another type than its column."""

    def __init__(self, bridge: Catalyst, spark: SparkSession, table: str) -> None:
        self._bridge, self._spark, self._table = bridge, spark, table

    @cached_property
    def _name(self) -> str:
        return store_policy(self._spark)

    def stored(self, value: Column, actual: DataType, wanted: DataType, name: str) -> Column:
        """A value of a type as the type of the column `name`.  Raises SchemaMismatch where the policy is STRICT and a value may be lost so."""
        if self._name == "STRICT" and not self._bridge.can_up_cast(actual.json(), wanted.json()):
            given, type_ = actual.simpleString(), wanted.simpleString()
            raise SchemaMismatch(
                f"Column {name} is {type_}, and spark.sql.storeAssignmentPolicy=STRICT stores no {given} in it: cast the value",
                table=self._table,
                condition=named("CANNOT_UP_CAST_DATATYPE", expression=name, sourceType=given, targetType=type_, details=""),
            )
        return self._bridge.ansi_cast(value, wanted, lenient=self._name == "LEGACY")
