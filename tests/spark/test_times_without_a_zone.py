"""Columns of type timestamp_ntz: in the protocol from the start, and the same times in every zone, on the driver and in Spark."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import UnsupportedFeature
from spark.support import take_route, unchanged

pytestmark = pytest.mark.spark


def protocol(path: str, version: int = 0) -> dict[str, Any]:
    lines = Path(path, "_delta_log", f"{version:020}.json").read_text().splitlines()
    return next(json.loads(line)["protocol"] for line in lines if "protocol" in line)


@pytest.mark.parametrize("schema", ["at timestamp_ntz", "s struct<at: array<timestamp_ntz>>"])
@pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "false"}, {"delta.enableRowTracking": "true"}])
@pytest.mark.short("properties0-at timestamp_ntz", "properties1-s struct<at: array<timestamp_ntz>>", "properties2-at timestamp_ntz", why="each property once")
def test_a_new_table_lists_the_feature(spark: Any, table_path: str, schema: str, properties: dict[str, str]) -> None:
    """I9: other engines are told what they must know; delta-spark opens no table that holds the type and does not say so."""
    rowlock.write(
        spark.sql("select 1 as id").selectExpr("id", f"cast(null as {schema.split(maxsplit=1)[1]}) as {schema.split()[0]}"), table_path, properties=properties
    )
    found = protocol(table_path)
    assert (found["minReaderVersion"], found["minWriterVersion"]) == (3, 7)
    assert "timestampNtz" in found["readerFeatures"] and "timestampNtz" in found["writerFeatures"]
    assert spark.read.format("delta").load(table_path).count() == 1


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.parametrize("zone", ["America/New_York", "Australia/Lord_Howe"])
@pytest.mark.short("America/New_York-driver-True", "Australia/Lord_Howe-large-False", why="each zone, way and layout once")
def test_times_stay_as_they_are_in_every_zone(spark: Any, table_path: str, monkeypatch: pytest.MonkeyPatch, zone: str, route: str, partitioned: bool) -> None:
    """I3: times in a zone's gap, before 1582 and with microseconds, through UPDATE, DELETE, MERGE and OPTIMIZE."""
    times = ["2024-03-10 02:30:00", "2024-03-10 03:30:00", "2024-10-06 02:15:00.000001", "1500-02-28 00:00:00.000002", "9999-12-31 23:59:59.999999"]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        take_route(monkeypatch, route)
        rows = spark.sql("select * from values " + ", ".join(f"({n}, timestamp_ntz'{t}', 0)" for n, t in enumerate(times)) + " as t(id, at, v)")
        for _ in range(2):
            rowlock.write(rows, table_path, partition_by=["at"] if partitioned else None)
        t = DeltaTable.forPath(spark, table_path)
        t.update("at >= timestamp_ntz'2024-03-10 02:30:00'", {"v": "v + 1"})
        t.delete("at = timestamp_ntz'2024-03-10 03:30:00'")
        t.alias("t").merge(rows.alias("s"), "t.at = s.at").whenMatchedUpdate(set={"v": "t.v + 10"}).whenNotMatchedInsertAll().execute()
        t.optimize().executeCompaction()
        found = sorted(tuple(r) for r in t.toDF().selectExpr("id", "cast(at as string)", "v").collect())
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    changed = {0: 11, 2: 11, 3: 10, 4: 11}
    assert found == sorted([(1, times[1], 0)] + [(n, times[n], v) for n, v in changed.items() for _ in range(2)])


def test_a_column_is_added_only_where_the_protocol_lists_the_feature(spark: Any, table_path: str) -> None:
    """I9: a table that does not say so gets no such column; the error says what to do, and that works."""
    rowlock.write(spark.sql("select 1 as id"), table_path)
    t = DeltaTable.forPath(spark, table_path)
    with pytest.raises(UnsupportedFeature, match=r"timestampNtz.*addFeatureSupport"):
        t.addColumn("at", "timestamp_ntz")
    t.addFeatureSupport("timestampNtz")
    t.addColumn("at", "timestamp_ntz")
    t.update(None, {"at": "timestamp_ntz'2024-03-10 02:30:00'"})
    assert spark.read.format("delta").load(table_path).selectExpr("cast(at as string)").collect()[0][0] == "2024-03-10 02:30:00"


@pytest.mark.parametrize("kind", ["arrow", "pandas", "nested"])
def test_an_append_makes_such_columns(spark: Any, table_path: str, kind: str) -> None:
    """The same times for every engine, in a table whose protocol says what it holds."""
    times = [dt.datetime(2024, 3, 10, 2, 30), dt.datetime(2026, 1, 1, 12, 0, 0, 1), None]
    rows = pa.table({"id": [1, 2, 3], "at": pa.array(times, pa.timestamp("us"))})
    if kind == "nested":
        rows = pa.table({"id": rows["id"], "at": pa.array([{"l": [t]} for t in times], pa.struct([("l", pa.list_(pa.timestamp("us")))]))})
    for _ in range(2):
        rowlock.append(table_path, rows.to_pandas().astype({"at": "datetime64[ns]"}) if kind == "pandas" else rows)
    found = protocol(table_path)
    assert "timestampNtz" in found["readerFeatures"] and "timestampNtz" in found["writerFeatures"]
    column = "at" if kind != "nested" else "at.l[0]"
    expected = sorted([(n, None if t is None else str(t)) for n, t in enumerate(times, 1)] * 2, key=repr)
    for frame in (rowlock.read(spark, table_path), spark.read.format("delta").load(table_path)):
        assert sorted((tuple(r) for r in frame.selectExpr("id", f"cast({column} as string)").collect()), key=repr) == expected
    assert rowlock.to_arrow(table_path).sort_by("id")["at"].type == rows["at"].type


def test_an_append_adds_such_a_column_only_where_the_protocol_lists_the_feature(spark: Any, table_path: str) -> None:
    """I9: as delta-spark has it, a table that other engines may have open does not come to need a feature by the way."""
    rowlock.append(table_path, pa.table({"id": [1]}))
    rows = pa.table({"id": [2], "at": pa.array([dt.datetime(2024, 3, 10, 2, 30)], pa.timestamp("us"))})
    with unchanged(table_path), pytest.raises(UnsupportedFeature, match=r"timestampNtz.*addFeatureSupport"):
        rowlock.append(table_path, rows, merge_schema=True)
    DeltaTable.forPath(spark, table_path).addFeatureSupport("timestampNtz")
    rowlock.append(table_path, rows, merge_schema=True)
    assert rowlock.to_arrow(table_path).sort_by("id")["at"].to_pylist() == [None, dt.datetime(2024, 3, 10, 2, 30)]
