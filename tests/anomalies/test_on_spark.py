"""The same anomalies on Spark, through `with table.transaction()`: what each isolation level promises, I3."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

import rowlock
from anomalies.anomaly import Anomaly, Outcome, Rows, cases, name_of, play, tuples
from rowlock.engines.memory.sql.script import Script
from schedules.on_spark import change

pytestmark = [pytest.mark.spark, pytest.mark.no_peers("the same writes as those of the schedules, whose tables the peers read")]


class Session:
    def __init__(self, spark: SparkSession, txn: Any) -> None:
        self._spark, self._txn = spark, txn
        txn.__enter__()

    def run(self, statement: Script) -> None:
        change(self._txn, statement, lambda columns, rows: self._spark.createDataFrame(list(rows), "k bigint, v bigint"))

    def read(self) -> Rows:
        return tuples(self._txn.toDF().collect())

    def commit(self) -> None:
        self._txn.__exit__(None, None, None)

    def abort(self) -> None:
        error = RuntimeError("given up")
        self._txn.__exit__(RuntimeError, error, None)


class World:
    def __init__(self, spark: SparkSession, path: str, anomaly: Anomaly) -> None:
        self._spark, self._path = spark, path
        rowlock.write(spark.createDataFrame(list(anomaly.rows), "k bigint, v bigint"), path)

    def begin(self, level: str, policy: str) -> Session:
        return Session(self._spark, rowlock.DeltaTable.forPath(self._spark, self._path).transaction(isolation=level, on_conflict=policy))

    def rows(self) -> Rows:
        return tuples(rowlock.read(self._spark, self._path).collect())


@pytest.mark.parametrize(("anomaly", "outcome"), list(cases()), ids=name_of)
def test_anomaly(spark: SparkSession, table_path: str, anomaly: Anomaly, outcome: Outcome) -> None:
    play(anomaly, outcome, World(spark, table_path, anomaly))
