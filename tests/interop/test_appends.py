"""What `append` writes is read by deltalake and DuckDB, and what they and Spark write by `to_arrow` (I5)."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import rowlock
from interop.readers import assert_same_rows, by_deltalake, by_duckdb, engine_of, rows_of
from support.appends import commit, numbers, rows

NOON = dt.datetime(2026, 11, 21, 12, 30, 15, 123456, tzinfo=dt.UTC)
KINDS: dict[str, list[Any]] = {
    "long": [2**63 - 1, -(2**63), None],
    "text": ["é😀", "", None],
    "day": [dt.date(1970, 1, 1), dt.date(9999, 12, 31), None],
    "at": [NOON, dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC), None],
    "money": [Decimal("12345678.90"), Decimal("-0.01"), None],
    "real": [1.5, float("inf"), None],
    "flag": [True, False, None],
    "raw": [b"\x00\xff", b"", None],
    "list": [[1, None], [], None],
    "struct": [{"a": 1, "b": {"c": "x"}}, {"a": None, "b": None}, None],
    "map": [[("k", 1)], [], None],
}
TYPES = pa.schema(
    [
        ("long", pa.int64()),
        ("text", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("money", pa.decimal128(10, 2)),
        ("real", pa.float64()),
        ("flag", pa.bool_()),
        ("raw", pa.binary()),
        ("list", pa.list_(pa.int32())),
        ("struct", pa.struct([("a", pa.int8()), ("b", pa.struct([("c", pa.string())]))])),
        ("map", pa.map_(pa.string(), pa.int64())),
    ]
)
EVERY_KIND = pa.table(KINDS, schema=TYPES)


def agree(path: str, *, without: frozenset[str] = frozenset()) -> list[Any]:
    """The rows that to_arrow, deltalake and DuckDB all find."""
    ours = rowlock.to_arrow(path)
    for name, read in (("deltalake", by_deltalake), ("duckdb", by_duckdb)):
        if name not in without:
            assert_same_rows(rows_of(ours), rows_of(read(None, path), ours.column_names), f"{path}: to_arrow", name)  # type: ignore[arg-type]
    return rows_of(ours)


PROPERTIES: dict[str, dict[str, str]] = {
    "plain": {"delta.enableDeletionVectors": "false"},
    "vectors": {},
    "mapped": {"delta.columnMapping.mode": "name"},
    "tracked": {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true", "delta.enableChangeDataFeed": "true"},
}


@pytest.mark.parametrize("kind", PROPERTIES)
def test_every_type_is_read_by_others(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "table")
    rowlock.append(path, EVERY_KIND, properties=PROPERTIES[kind])
    rowlock.append(path, EVERY_KIND.select(["text", "long"]))
    assert len(agree(path)) == 6
    assert rowlock.to_arrow(path, version=0).equals(EVERY_KIND)


@pytest.mark.parametrize("column", [n for n in TYPES.names if n not in ("list", "struct", "map", "real", "raw")])
def test_partitions_are_read_by_others(tmp_path: Path, column: str) -> None:
    path = str(tmp_path / "table")
    rowlock.append(path, EVERY_KIND.select([column, "real"]), partition_by=column)
    rowlock.append(path, EVERY_KIND.select([column, "real"]))
    assert len(agree(path)) == 6


def test_deltalake_and_append_in_turns(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    data = EVERY_KIND.select(["long", "money", "at", "flag"])
    write_deltalake(path, data, partition_by=["flag"])
    for _ in range(3):
        rowlock.append(path, data)
        write_deltalake(path, data, mode="append")
    assert len(agree(path)) == 21
    ours, theirs = ([a.partition_values for a in commit(path, v).adds] for v in (1, 2))
    assert sorted(map(str, ours)) == sorted(map(str, theirs))


def test_a_checkpoint_of_appends_is_read_by_others(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    for n in range(12):
        rowlock.append(path, numbers(n), properties={"delta.checkpointInterval": "5"})
    assert (tmp_path / "table" / "_delta_log" / f"{10:020}.checkpoint.parquet").exists()
    for old in range(10):
        (tmp_path / "table" / "_delta_log" / f"{old:020}.json").unlink()
    assert agree(path) == sorted(((n,) for n in range(12)), key=repr)


@pytest.mark.spark
def test_spark_and_append_change_one_table(spark: Any, table_path: str) -> None:
    """Appends beside statements of Rowlock's Spark engine and of delta-spark; after the test all four readers agree."""
    rowlock.append(table_path, EVERY_KIND, properties={"delta.enableRowTracking": "true"}, partition_by="day")
    from delta.tables import DeltaTable as Theirs

    from rowlock import DeltaTable

    DeltaTable.forPath(spark, table_path).update("flag", {"text": "'ours'"})
    rowlock.append(table_path, EVERY_KIND)
    Theirs.forPath(spark, table_path).delete("real is null")
    Theirs.forPath(spark, table_path).update("text = ''", {"text": "'theirs'", "at": "at + interval 1 second"})
    rowlock.append(table_path, EVERY_KIND.select(["long"]))
    rowlock.append(table_path, pa.table({"day": [dt.date(1066, 10, 14)], "at": pa.array([dt.datetime(1066, 10, 14, 9, tzinfo=dt.UTC)])}))
    ours = rowlock.to_arrow(table_path)
    theirs = spark.read.format("delta").load(table_path).toArrow()
    assert_same_rows(rows_of(ours), rows_of(theirs, ours.column_names), "to_arrow", "delta-spark")
    assert ours.num_rows == 3 + 3 - 2 + 3 + 1
    ids = rowlock.read(spark, table_path, with_row_ids=True).toArrow()["_row_id"].to_pylist()
    assert len(set(ids)) == len(ids) == ours.num_rows
    assert any("apache-spark" in engine_of(c) for c in (Path(table_path) / "_delta_log").glob("*.json"))


@pytest.mark.spark
def test_int96_of_delta_spark_is_read(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "theirs")
    spark.sql(
        "select id, timestamp_seconds(1600000000.123456 + id) at, cast(id as decimal(20,3)) d, named_struct('t', timestamp'1900-01-02 00:00:00') s from range(5)"
    ).write.format("delta").save(path)
    assert rows(path)[1][1] == dt.datetime(2020, 9, 13, 12, 26, 41, 123456, tzinfo=dt.UTC)
    assert_same_rows(rows_of(rowlock.to_arrow(path)), rows_of(spark.read.format("delta").load(path).toArrow()), "to_arrow", "delta-spark")
