"""Tables that Spark wrote, with the rows that a reader must return.  I9: read right, or refused by name; nothing is guessed.

All expected rows hold moments in UTC: partition values without a zone, also those of tables that were
written in another zone (data-reader-date-types-*, kernel-timestamp-pst), mean UTC in a session in UTC.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rowlock
from interop.readers import Row, assert_same_rows, rows_by_all, rows_of
from rowlock.exceptions import CorruptLog
from rowlock.log.table_log import TableLog
from rowlock.parquet.rows import Rows
from rowlock.storage import open_store
from support.corpus import GOLDEN, VECTORS, golden_tables

pytestmark = pytest.mark.spark

NOT_READ = {
    "checkpoint": "a log alone: it has neither data files nor expected rows; tests/unit/log reads its log",
    "data-reader-absolute-paths-escaped-chars": "damaged on purpose: its log holds no metaData, which is named (tests/unit/log)",
}
"""Golden tables without rows to compare, and why."""

READ = [t for t in golden_tables() if t["table"] not in NOT_READ]


def expected_rows(table: str, names: list[str]) -> list[Row]:
    parts = [pq.read_table(f, partitioning=None) for f in sorted((GOLDEN / table / "expected").rglob("*.parquet"))]
    return rows_of(pa.concat_tables(parts, promote_options="default"), names)


def test_all_golden_tables_are_counted() -> None:
    assert (len(golden_tables()), len(READ), len(NOT_READ)) == (45, 43, 2)


@pytest.mark.parametrize("table", READ, ids=lambda t: str(t["table"]))
def test_rows(spark: SparkSession, table: dict[str, Any]) -> None:
    ours = rowlock.read(spark, str(GOLDEN / table["table"] / "delta")).toArrow()
    assert ours.num_rows == table["expected_rows"]
    assert_same_rows(rows_of(ours), expected_rows(table["table"], ours.column_names), "rowlock", "the expected rows")


@pytest.mark.parametrize("table", READ, ids=lambda t: str(t["table"]))
def test_rows_on_the_driver(table: dict[str, Any]) -> None:
    """What is read without Spark is what Spark reads: a statement over small files must not see other values."""
    store = open_store(GOLDEN / table["table"] / "delta")
    snapshot = TableLog(store).latest()
    found = [Rows(store).read(f, snapshot) for f in snapshot.files.adds() if f.deletion_vector is None]
    if not found or any(t is None for t in found) or len(found) != len(snapshot.files):
        pytest.skip("some of its files are left to Spark")
    ours = pa.concat_tables(t for t in found if t is not None)
    assert_same_rows(rows_of(ours), expected_rows(table["table"], ours.column_names), "rows on the driver", "the expected rows")


def test_a_table_without_metadata_is_named(spark: SparkSession) -> None:
    with pytest.raises(CorruptLog, match="no metaData"):
        rowlock.read(spark, str(GOLDEN / "data-reader-absolute-paths-escaped-chars" / "delta"))


def test_vectors(spark: SparkSession) -> None:
    """Ten rows of which a vector marks two; with a prefix folder for the data file."""
    assert rows_by_all(spark, str(VECTORS)) == [(n,) for n in range(1, 9)]
    assert rows_of(rowlock.read(spark, str(VECTORS), version=0).toArrow()) == [(n,) for n in range(10)]
