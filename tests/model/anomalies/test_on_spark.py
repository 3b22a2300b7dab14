"""The same anomalies on Spark, through `with table.transaction()`: what each isolation level promises, I3."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rowlock
from model.anomalies.anomaly import Anomaly, Outcome, Rows, cases, name_of, play, tuples
from model.schedules.on_spark import change
from rowlock_simulation.memory.sql.script import Script

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
        rows = pa.Table.from_pylist([dict(zip(("k", "v"), row, strict=True)) for row in anomaly.rows], pa.schema({"k": pa.int64(), "v": pa.int64()}))
        rowlock.append(path, rows)

    def begin(self, level: str, policy: str) -> Session:
        return Session(self._spark, rowlock.DeltaTable.forPath(self._spark, self._path).transaction(isolation=level, on_conflict=policy))

    def rows(self) -> Rows:
        return tuples(rowlock.read(self._spark, self._path).collect())


@pytest.mark.parametrize(("anomaly", "outcome"), list(cases()), ids=name_of)
@pytest.mark.short(
    "g0_write_cycles-serializable-repair",
    "g1a_aborted_reads-serializable-fail",
    "g1b_intermediate_reads-snapshot-repair",
    "g1c_circular_information_flow-snapshot-fail",
    "g2_anti_dependency_cycle-write_serializable-repair",
    "g2_item_write_skew-snapshot-repair",
    "g_single_read_skew-serializable-repair",
    "otv_observed_transaction_vanishes-serializable-fail",
    "p4_increments-write_serializable-fail",
    "p4_lost_update-snapshot-fail",
    "pmp_phantom_of_a_predicate-write_serializable-repair",
    "pmp_predicate_many_preceders-write_serializable-fail",
    ci=(
        "g0_write_cycles-snapshot-fail",
        "g1a_aborted_reads-write_serializable-repair",
        "g1b_intermediate_reads-write_serializable-fail",
        "g1c_circular_information_flow-serializable-repair",
        "g2_anti_dependency_cycle-snapshot-repair",
        "g2_item_write_skew-write_serializable-fail",
        "g_single_read_skew-snapshot-fail",
        "otv_observed_transaction_vanishes-write_serializable-repair",
        "p4_increments-snapshot-repair",
        "p4_lost_update-serializable-repair",
        "pmp_phantom_of_a_predicate-serializable-fail",
        "pmp_predicate_many_preceders-snapshot-repair",
    ),
    why="all levels and policies run in memory; on Spark one of them for each anomaly",
)
def test_anomaly(spark: SparkSession, table_path: str, anomaly: Anomaly, outcome: Outcome) -> None:
    play(anomaly, outcome, World(spark, table_path, anomaly))
