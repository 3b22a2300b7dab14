"""Strings that are no UTF-8, which Spark makes by casting binary: they are values like others, without bounds in the statistics (I3, I5)."""

from __future__ import annotations

from typing import Any

import pytest

import rowlock
from rowlock import DeltaTable
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from support.turning_down import turn_down

pytestmark = [pytest.mark.spark, pytest.mark.no_peers("deltalake refuses text that is no UTF-8")]
WAYS = {"driver": {}, "large": {"driver_rows": 0, "local_rows": 0, "moved_bytes": 0, "append_driver_bytes": 0, "single_task_bytes": 0}}
ROWS = [(1, "6f6b"), (2, "c328"), (3, "ff"), (4, "e282ac")]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.short("large", why="the same statement the other way; the ways themselves are compared in test_routes")
def test_text_that_is_no_utf8_is_kept(spark: Any, table_path: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.createDataFrame(ROWS, "id long, h string").selectExpr("id", "unhex(h) b", "'x' s")
    rowlock.write(frame, table_path, properties={"delta.enableChangeDataFeed": "true"})
    turn_down(monkeypatch, **WAYS[way])
    table = DeltaTable.forPath(spark, table_path)
    table.update(set={"s": "cast(b as string)"})
    source = table.toDF().where("id in (2, 4)").selectExpr("s", "id + 10 id", "b")
    rowlock.write(source.select("id", "b", "s"), table_path, mode="append")
    table.alias("t").merge(spark.sql("select cast(x'c328' as string) s, 1 one").alias("u"), "t.s = u.s").whenMatchedUpdate(set={"id": "t.id + 100"}).execute()
    table.delete("s = cast(x'ff' as string)")
    rows = {(r.id, r.h) for r in rowlock.read(spark, table_path).selectExpr("id", "hex(s) h").collect()}
    assert rows == {(1, "6F6B"), (102, "C328"), (112, "C328"), (4, "E282AC"), (14, "E282AC")}
    for file in state_of(open_store(table_path)).refresh().files.adds():
        lows, highs = (file.parsed_stats().get(bound, {}) for bound in ("minValues", "maxValues"))
        assert not {"\ufffd", "\ufffd("} & {lows.get("s"), highs.get("s")}, "a bound that stands for no value"
    table.optimize().executeCompaction()
    assert {(r.id, r.h) for r in spark.read.format("delta").load(table_path).selectExpr("id", "hex(s) h").collect()} == rows
