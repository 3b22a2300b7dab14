"""Rows that are kept of data files (I5)."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import rowlock
from model.schedules.play import schema_string
from rowlock.boundary.row_identity import columns_of
from rowlock.caches import ROW_IDS, ROWS
from rowlock.exceptions import ConstraintViolated
from rowlock.log.table_log import TableLog
from rowlock.parquet import checks
from rowlock.parquet.rows import MaterializedIds, Rows
from rowlock.protocol.actions import AddFile
from rowlock.protocol.partition_values import parse
from rowlock.protocol.schema import DecimalType, parse_schema
from rowlock.protocol.statistics import leaves_of
from rowlock.storage.local import LocalStore
from rowlock.transaction.definition.creation import draft_snapshot, new_metadata

NAMES = ["k", "v"]


@pytest.mark.parametrize("differing", ["size", "time", "table"])
def test_rows_of_a_file_of_the_same_name(tmp_path: Path, differing: str) -> None:
    """I5: what is kept of a file is believed for that file alone: by name, size, time of change and table."""
    check_kept(tmp_path, differing)


def test_rows_of_a_file_of_another_table(tmp_path: Path) -> None:
    """I5: the same name, size and time, as a backup that was put back has them, in a table that was made anew."""
    check_kept(tmp_path, "table")


def check_kept(tmp_path: Path, differing: str) -> None:
    rows = Rows(LocalStore(tmp_path))
    snapshot = draft_snapshot(new_metadata(schema_string([(n, "long", True) for n in NAMES]), (), {}), str(tmp_path))
    file = AddFile("part-0.parquet", {}, 0, 1, True, None)
    for first in (100, 500):
        values = np.arange(first, first + 3)
        pq.write_table(pa.table({"k": values, "v": values + 1}), tmp_path / file.path, compression="none")
        if first == 500:
            file = replace(file, modification_time_ms=2) if differing == "time" else file
            snapshot = replace(snapshot, metadata=replace(snapshot.metadata, id="another")) if differing == "table" else snapshot
        file = replace(file, size_bytes=(tmp_path / file.path).stat().st_size + (first if differing == "size" else 0))
        found = [
            rows.read(file, snapshot),
            rows.read_columns(file, NAMES, snapshot),
            rows.read_positions(file, np.arange(3), snapshot),
            rows.read_at(file, np.arange(3), NAMES, snapshot),
        ]
        assert [t.column("k").to_pylist() for t in found if t is not None] == [values.tolist()] * 4


def nested(column: str, fields: str) -> str:
    """A schema of `id bigint` and a struct with fields of text, as the log has it."""
    inner = [{"name": n, "type": "string", "nullable": True, "metadata": {}} for n in fields]
    columns = [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": column, "type": {"type": "struct", "fields": inner}, "nullable": True, "metadata": {}},
    ]
    return orjson.dumps({"type": "struct", "fields": columns}).decode()


def test_a_field_that_was_dropped_and_added_again_is_another(tmp_path: Path) -> None:
    """I5: where columns are mapped, what is kept of a struct is kept for one meaning of its fields."""
    store, mode = LocalStore(tmp_path), {"delta.columnMapping.mode": "name"}
    rows = Rows(store)
    snapshot = draft_snapshot(new_metadata(nested("s", "ab"), (), mode), str(tmp_path))
    (staged,) = rows.write(pa.table({"id": [1], "s": pa.array([{"a": "x", "b": "old"}])}), snapshot)
    assert rows.read_columns(staged.add, ["s"], snapshot).column("s").to_pylist() == [{"a": "x", "b": "old"}]
    schema = orjson.loads(snapshot.metadata.schema_string)
    schema["fields"][1]["type"]["fields"][1]["metadata"] = {"delta.columnMapping.id": 9, "delta.columnMapping.physicalName": "col-new"}
    text = orjson.dumps(schema).decode()
    later = replace(snapshot, metadata=replace(snapshot.metadata, schema_string=text), schema=parse_schema(text))
    for found in (
        rows.read_columns(staged.add, ["s"], later),
        rows.read(staged.add, later).select(["s"]),
        rows.read_at(staged.add, np.arange(1), ["s"], later),
    ):
        assert found.column("s").to_pylist() == [{"a": "x", "b": None}]


def test_a_dictionary_in_a_field_that_differs_by_case_is_left_to_spark(tmp_path: Path) -> None:
    """I9: what Arrow cannot give new names is no error of a statement on Spark, which reads it."""
    store = LocalStore(tmp_path)
    snapshot = draft_snapshot(new_metadata(nested("s", "a"), (), {}), str(tmp_path))
    for field, expected in (("a", [{"a": "x"}]), ("A", None)):
        inner = pa.StructArray.from_arrays([pa.array(["x"]).dictionary_encode()], [field])
        pq.write_table(pa.table({"id": [1], "s": inner}), tmp_path / f"{field}.parquet")
        found = Rows(store).read(AddFile(f"{field}.parquet", {}, (tmp_path / f"{field}.parquet").stat().st_size, 1, True, None), snapshot)
        assert (None if found is None else found.column("s").to_pylist()) == expected


def test_a_null_is_found_in_a_file_whose_columns_arrow_counts_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I3: where nothing is known of a footer's leaves, NOT NULL is asked of the rows."""
    schema = schema_string([("k", "long", True), ("v", "long", True)]).replace(
        '"name":"k","type":"long","nullable":true', '"name":"k","type":"long","nullable":false'
    )
    snapshot = draft_snapshot(new_metadata(schema, (), {}), str(tmp_path))
    assert not snapshot.schema.fields[0].nullable
    pq.write_table(pa.table({"k": pa.array([1, None], pa.int64()), "v": [1, 2]}), tmp_path / "part-0.parquet")
    file = AddFile("part-0.parquet", {}, (tmp_path / "part-0.parquet").stat().st_size, 1, True, '{"numRecords":2}')
    monkeypatch.setattr(checks, "leaves_of", lambda metadata: None)
    with pytest.raises(ConstraintViolated, match="k is NOT NULL"):
        checks.check_not_null([file], snapshot, LocalStore(tmp_path))


def test_all_of_a_column_that_a_file_lacks_is_null(tmp_path: Path) -> None:
    """I3: a file older than a column has null in it, which NOT NULL is asked of; rows that are gone do not count, nor does the case of a name."""
    schema = schema_string([("k", "long", True), ("v", "long", True)]).replace('"nullable":true', '"nullable":false')
    snapshot = draft_snapshot(new_metadata(schema, (), {}), str(tmp_path))
    for name, rows in (("old", {"v": [1, 2]}), ("none", {"x": [1, 2]}), ("whole", {"K": [1, 2], "v": [3, 4]})):
        pq.write_table(pa.table(rows), tmp_path / name)
        file = AddFile(name, {}, (tmp_path / name).stat().st_size, 1, True, '{"numRecords":2}')
        checks.check_not_null([file], snapshot, LocalStore(tmp_path), {name: BitMap64([0, 1])})
        if name == "whole":
            checks.check_not_null([file], snapshot, LocalStore(tmp_path))
            continue
        with pytest.raises(ConstraintViolated, match="k is NOT NULL"):
            checks.check_not_null([file], snapshot, LocalStore(tmp_path), {name: BitMap64([1])})


@pytest.mark.parametrize("made", [pa.list_view, pa.large_list_view], ids=["list_view", "large_list_view"])
def test_leaves_of_every_kind_of_list(tmp_path: Path, made: Callable[[pa.DataType], pa.DataType]) -> None:
    inner = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    rows = pa.array([{"a": 1, "b": 2}], inner)
    size, view = (pa.int32(), pa.ListViewArray) if made is pa.list_view else (pa.int64(), pa.LargeListViewArray)
    pq.write_table(pa.table({"l": pa.array([[{"a": 1, "b": 2}]], pa.list_(inner)), "k": [1]}), tmp_path / "x.parquet")
    plain = leaves_of(pq.ParquetFile(tmp_path / "x.parquet").metadata)
    pq.write_table(pa.table({"l": view.from_arrays(pa.array([0], size), pa.array([1], size), rows), "k": [1]}), tmp_path / "y.parquet")
    assert (
        leaves_of(pq.ParquetFile(tmp_path / "y.parquet").metadata) == plain and plain is not None and [leaf.path for leaf in plain] == [("l",), ("l",), ("k",)]
    )


def test_statistics_columns_are_named_as_sql_names_them(tmp_path: Path) -> None:
    """I9: a property that is accepted has its effect: `delta.dataSkippingStatsColumns` with dots, commas and quotes in names."""
    mode = {"delta.columnMapping.mode": "name", "delta.dataSkippingStatsColumns": "`a.b`, `c,d` ,e"}
    rowlock.append(str(tmp_path / "t"), pa.table({"a.b": [1], "c,d": [2], "e": [3], "f": [4]}), properties=mode)
    snapshot = TableLog(LocalStore(tmp_path / "t")).latest()
    (file,) = snapshot.files.adds()
    held = orjson.loads(file.stats)["minValues"]
    named = {f.name: f.physical_name for f in snapshot.schema.fields}
    assert held == {named["a.b"]: 1, named["c,d"]: 2, named["e"]: 3}


def test_a_decimal_partition_value_with_more_digits_is_read_as_spark_casts_it() -> None:
    """I3: a file is skipped by the value that its rows have."""
    assert parse("1.235", DecimalType(4, 2)) == decimal.Decimal("1.24") and parse("-1.235", DecimalType(4, 2)) == decimal.Decimal("-1.24")
    assert str(parse("1.2", DecimalType(38, 18))) == "1.2"


def test_the_cache_counts_what_a_table_of_few_rows_takes_in_memory(tmp_path: Path) -> None:
    """Arrow's objects for a column take more than a few values do: 4,000 tables like this one took 120 MB, and counted as 5."""
    fields = {f"c{n}": [n] for n in range(10)} | {f"s{n}": [{"a": n, "b": [n]}] for n in range(5)}
    rowlock.append(tmp_path, pa.table(fields))
    snapshot = TableLog(LocalStore(tmp_path)).latest()
    before, rows = ROWS.size, Rows(LocalStore(tmp_path))
    rows.read(next(iter(snapshot.files.adds())), snapshot)
    assert 20_000 < ROWS.size - before < 60_000


def test_the_cache_counts_what_ids_take_in_memory(tmp_path: Path) -> None:
    """Two arrays of three numbers take 790 bytes with their place in the cache."""
    rowlock.append(tmp_path, pa.table({"k": [1, 2, 3]}), properties={"delta.enableRowTracking": "true"})
    snapshot = TableLog(LocalStore(tmp_path)).latest()
    before, columns, ids = ROW_IDS.size, columns_of(snapshot), MaterializedIds(LocalStore(tmp_path))
    assert columns is not None
    ids.at(columns)(next(iter(snapshot.files.adds())), np.arange(3))
    assert ROW_IDS.size - before >= 700
