"""Rows found with numpy are too many at most, never too few: every row for which Spark says true is among them (I3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.engines.spark.catalyst.row_masks import RowMask

pytestmark = [pytest.mark.spark, pytest.mark.no_peers("what it writes, other tests write too")]

_NUMBERS = (None, -(2**63), -(2**31), -129, -64, -7, -1, 0, 1, 6, 7, 63, 64, 128, 2**31, 2**63 - 1)
UNDERSTOOD = (
    "id % 64 = 0", "id % 7 = -1", "id % 7 <> 1 and id > 0", "id > -129 and id <= 64", "small < 7", "cast(small as bigint) > 6", "7 >= id", "-1 = id % 64",
    "id in (1, 7, -64)", "small in (1, 2) or id = 64", "id = 9223372036854775807", "id % 64 = 0 and small > 0", "tiny >= 6 or tiny % 3 = -1",
)  # fmt: skip
NOT_UNDERSTOOD = (
    "not (id = 7)",
    "id is null",
    "id <=> 7",
    "id % -7 = -1 and small <> 0",
    "text > '6'",
    "id % 64 = 0 or text = '7'",
    "abs(small) = 7",
    "id / 7 = 1",
    "small + 1 = 8",
)


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    path = str(tmp_path_factory.mktemp("masks") / "table")
    rows = [(n, n if n is None or abs(n) < 2**31 else None, n if n is None or abs(n) < 128 else None, None if n is None else str(n)) for n in _NUMBERS]
    rowlock.write(spark.createDataFrame(rows, "id bigint, small int, tiny tinyint, text string").coalesce(1), path)
    return DeltaTable.forPath(spark, path)


def _mask(table: DeltaTable, condition: str) -> RowMask | None:
    from rowlock.engines.spark.statements.row_statements import delete_statement

    mask: Any = delete_statement(table._handle.evaluator, table._handle.state.refresh(), condition, None).payload.mask
    return mask


@pytest.mark.parametrize("condition", [*UNDERSTOOD, *NOT_UNDERSTOOD, *(f"({a}) and ({b})" for a in NOT_UNDERSTOOD[:6] for b in UNDERSTOOD[:3])])
@pytest.mark.short(
    "id % 7 = -1",
    "id > -129 and id <= 64",
    "cast(small as bigint) > 6",
    "id in (1, 7, -64)",
    "id % 64 = 0 and small > 0",
    "tiny >= 6 or tiny % 3 = -1",
    "not (id = 7)",
    "id is null",
    "id <=> 7",
    "text > '6'",
    "(id % 64 = 0 or text = '7') and (id % 7 <> 1 and id > 0)",
    why="one condition of each form",
)
def test_no_row_is_missed(table: DeltaTable, condition: str) -> None:
    mask = _mask(table, condition)
    frame = table.toDF()
    arrow = frame.toArrow()
    true = np.array([row[0] for row in frame.selectExpr(f"coalesce({condition}, false)").collect()])
    kept = np.ones(len(true), bool) if mask is None else mask.of(arrow.select(list(mask.names)))
    assert not (true & ~kept).any()
    if condition in UNDERSTOOD and "<>" not in condition:
        assert mask is not None and (true == kept).all(), "it is understood, so it finds just these rows"


@pytest.mark.usual_limits("it counts jobs")
def test_an_update_runs_no_job(spark: SparkSession, table_path: str) -> None:
    rowlock.write(spark.range(200_000).selectExpr("id", "id % 97 as g", "0L as v"), table_path)
    table = DeltaTable.forPath(spark, table_path)
    table.update("id % 64 = 3 and g < 10 and v > -1", {"v": "v + 1"})
    tracker = spark.sparkContext.statusTracker()
    before = max(tracker.getJobIdsForGroup(None), default=-1)
    table.update("id % 64 = 5 and g < 10 and v > -2", {"v": "v + id"})
    assert max(tracker.getJobIdsForGroup(None), default=-1) == before
    expected = spark.range(200_000).where("id % 97 < 10").selectExpr("sum(if(id % 64 = 3, 1, 0) + if(id % 64 = 5, id, 0))").first()
    assert table.toDF().selectExpr("sum(v)").first() == expected
