"""Rowlock as a typed program uses it.  Never run: `make check` has mypy read it, strictly, and a wrong line here is one that a type checker must refuse.

A line that is wrong on purpose bears a `type: ignore` with its code; mypy warns of one that is not needed.
"""

from __future__ import annotations

import datetime
from typing import assert_type

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import rowlock
from rowlock import Conflict, DeltaTable, Limits, Receipt
from rowlock.exceptions import CommitOverwrittenWarning, ConstraintViolated, DeltaConcurrentModificationException, UnsupportedFeature
from rowlock.tables import DeltaMergeBuilder, DeltaMergeMatchedActionBuilder, DeltaOptimizeBuilder, DeltaTableBuilder, DeltaTransaction


def without_spark(path: str) -> None:
    receipt = rowlock.append(path, pa.table({"id": [1]}), partition_by=["id"], properties={"rowlock.lock": "none"}, app_id="loader", app_version=1)
    assert_type(receipt, Receipt)
    assert_type(receipt.version, int | None)
    assert_type(receipt.conflicts, tuple[Conflict, ...])
    rowlock.to_arrow(path, timestamp=datetime.datetime(2026, 1, 31), columns=["id"])
    assert_type(rowlock.set_limits(driver_rows=7), Limits)
    rowlock.append(path, [], merge_schema="yes")  # type: ignore[arg-type]
    rowlock.set_limits(driver_rows="many")  # type: ignore[arg-type]


def knobs(t: DeltaTable, policy: rowlock.OnConflict, level: rowlock.Isolation, by: rowlock.Granularity, line: rowlock.Lock) -> None:
    assert_type(t.transaction(level, policy, by, lock=line, lock_timeout=2.5), DeltaTransaction)
    t.transaction(isolation="serializable", on_conflict="repair", granularity="row", lock="auto")
    t.transaction(isolation="serialisable")  # type: ignore[arg-type]
    t.transaction(on_conflict="retry")  # type: ignore[arg-type]
    t.transaction(granularity="column")  # type: ignore[arg-type]
    t.transaction(lock="yes")  # type: ignore[arg-type]
    rowlock.run(t, lambda txn: txn.delete("id = 1"), retries=3, on_conflict="rerun")
    rowlock.run(t, lambda txn: None, on_conflict="retry")  # type: ignore[call-overload]
    t.generate("symlink_format_manifest")
    t.generate("symlinks")  # type: ignore[arg-type]


def frames(spark: SparkSession, df: DataFrame, path: str, mode: rowlock.WriteMode) -> None:
    assert_type(rowlock.read(spark, path, timestamp="2026-01-31 12:00:00", with_row_ids=True), DataFrame)
    assert_type(rowlock.write(df, path, mode, partition_by="id"), Receipt)
    rowlock.write(df, path, mode="overwrite", replace_where="id = 1")
    rowlock.write(df, path, mode="upsert")  # type: ignore[arg-type]
    assert_type(rowlock.spark(cores=2, stores=["s3", "az"]), SparkSession)
    rowlock.spark(stores=["ftp"])  # type: ignore[list-item]


def builders(spark: SparkSession, df: DataFrame, path: str) -> None:
    builder = DeltaTable.createIfNotExists(spark).location(path).addColumn("id", "BIGINT", nullable=False).partitionedBy("id").property("k", "v")
    assert_type(builder, DeltaTableBuilder)
    t = DeltaTable.forPath(spark, path)
    merge = t.alias("t").merge(df.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"id": "s.id"}).whenNotMatchedInsertAll()
    assert_type(merge, DeltaMergeBuilder)
    assert_type(merge.whenMatched("s.id > 1"), DeltaMergeMatchedActionBuilder)
    assert_type(merge.whenMatched().update({"id": "s.id"}), DeltaMergeBuilder)
    assert_type(merge.execute(), DataFrame)
    assert_type(t.optimize().where("id = 1"), DeltaOptimizeBuilder)
    assert_type(t.optimize().executeZOrderBy("id", "id"), DataFrame)
    t.restoreToTimestamp(datetime.datetime(2026, 1, 31))
    t.restoreToTimestamp(5)  # type: ignore[arg-type]
    with t.transaction() as txn:
        assert_type(txn, DeltaTransaction)
        txn.append(df)
        txn.update("id = 1", {"id": "2"})
    assert_type(txn.receipt, Receipt | None)
    assert_type(t.lastReceipt, Receipt | None)


def errors(error: DeltaConcurrentModificationException, broken: ConstraintViolated, missing: UnsupportedFeature) -> type[UserWarning]:
    assert_type(error.winner_version, int | None)
    assert_type(error.files, tuple[str, ...])
    assert_type(broken.constraint, str | None)
    assert_type(missing.feature, str)
    return CommitOverwrittenWarning
