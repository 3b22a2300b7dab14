"""`rowlock.to_arrow`: what Spark would read, or a refusal that names the file (I9)."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import rowlock
from interop.readers import assert_same_rows, rows_of
from interop.test_golden import NOT_READ, expected_rows
from rowlock.api.append import opened
from rowlock.exceptions import CorruptLog, InvalidInput, TableNotFound, UnsupportedFeature, VersionNotFound, WrongType
from rowlock.limits import limits
from rowlock.log.table_log import TableLog
from rowlock.parquet.files import open_parquet
from rowlock.protocol.actions import AddFile, CommitInfo
from rowlock.protocol.commits import serialize_commit
from rowlock.protocol.deletion_vector import inline
from rowlock.protocol.schema import PrimitiveType, StructField, StructType
from rowlock.storage.memory import MemoryStore
from rowlock.storage.open import open_store
from rowlock.storage.store import Committed
from support.appends import commit, create, numbers, rows
from support.corpus import GOLDEN, VECTORS, golden_tables


@pytest.mark.parametrize("table", [t["table"] for t in golden_tables() if t["table"] not in NOT_READ])
def test_golden_tables(table: str) -> None:
    """All 43 with expected rows; four of them have partition values in the zone of whoever reads them."""
    ours = rowlock.to_arrow(str(GOLDEN / table / "delta"), time_zone="UTC")
    assert_same_rows(rows_of(ours), expected_rows(table, ours.column_names), "to_arrow", "the expected rows")


ZONED = {"kernel-timestamp-int96", "kernel-timestamp-pst", "kernel-timestamp-timestamp_micros", "kernel-timestamp-timestamp_millis"}


@pytest.mark.parametrize("table", sorted(ZONED))
def test_partition_values_whose_zone_nobody_says_are_refused(table: str) -> None:
    path = str(GOLDEN / table / "delta")
    with pytest.raises(UnsupportedFeature, match=r"part-00000.*has no time zone.*time_zone=") as e:
        rowlock.to_arrow(path)
    assert (e.value.feature, e.value.access) == ("partition timestamps without a zone", "read")
    assert rowlock.to_arrow(path, columns=["time"]).num_rows == rowlock.to_arrow(path, time_zone="UTC").num_rows


def test_rows_that_a_vector_marks_are_left_out() -> None:
    assert rows(str(VECTORS)) == [(n,) for n in range(1, 9)]
    assert rows(str(VECTORS), version=0) == [(n,) for n in range(10)]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def test_versions_and_times(path: str) -> None:
    rowlock.append(path, numbers(1), properties={"delta.enableInCommitTimestamps": "true"})
    rowlock.append(path, numbers(2))
    first, second = (commit(path, v).info for v in (0, 1))
    assert first is not None and second is not None
    at = dt.datetime.fromtimestamp((second.timestamp_ms or 0) / 1000, dt.UTC)
    assert rows(path, timestamp=at) == [(1,), (2,)]
    assert rows(path, timestamp=(at - dt.timedelta(milliseconds=1)).isoformat()) == [(1,)]
    for wrong, error in (({"version": 7}, VersionNotFound), ({"version": 0, "timestamp": at}, InvalidInput), ({"timestamp": "noon"}, InvalidInput)):
        with pytest.raises(error):
            rowlock.to_arrow(path, **wrong)
    with pytest.raises(TableNotFound):
        rowlock.to_arrow(path + "_not")


def test_columns(path: str) -> None:
    rowlock.append(path, pa.table({"a": [1], "B": ["x"], "p": [2]}), partition_by="p")
    assert rowlock.to_arrow(path, columns=["b", "A"]).to_pydict() == {"B": ["x"], "a": [1]}
    assert rowlock.to_arrow(path, columns=["P"]).to_pydict() == {"p": [2]}
    for wrong, error in ((["c"], InvalidInput), ([], InvalidInput), (["a", "A"], InvalidInput), ("a", WrongType)):
        with pytest.raises(error):
            rowlock.to_arrow(path, columns=wrong)


def test_an_empty_table_has_its_columns(path: str) -> None:
    create(path, StructField("id", PrimitiveType("long"), nullable=False), StructField("at", PrimitiveType("timestamp")))
    assert rowlock.to_arrow(path).schema == pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("at", pa.timestamp("us", "UTC"))])


def foreign(path: str, table: pa.Table, *fields: StructField, metadata: dict[str, str] | None = None, **how: Any) -> None:
    """A table with one file as another writer may have made it."""
    state = create(path, *fields)
    with pq.ParquetWriter(f"{path}/foreign.parquet", table.schema, store_schema=False, **how) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(metadata or {})
    state.log.put(
        1,
        serialize_commit(
            CommitInfo({"timestamp": 1, "operation": "WRITE"}),
            adds=[AddFile("foreign.parquet", {}, Path(path, "foreign.parquet").stat().st_size, 1, True, None)],
        ),
    )


WIDER = [
    (pa.array([1, None], pa.int8()), "long", [1, None]),
    (pa.array([2**31 - 1], pa.int32()), "double", [2147483647.0]),
    (pa.array([1.5], pa.float32()), "double", [1.5]),
    (pa.array([dt.date(2026, 1, 1)]), "timestamp_ntz", [dt.datetime(2026, 1, 1)]),
    (pa.array([dt.datetime(2026, 1, 1)], pa.timestamp("ms")), "timestamp", [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]),
    (pa.array([None], pa.null()), "long", [None]),
    (pa.array([b"abc", None], pa.binary()), "string", ["abc", None]),
    (pa.array(["abc", None]), "binary", [b"abc", None]),
    (pa.array([1], pa.timestamp("ms", "UTC")), "timestamp", [dt.datetime(1970, 1, 1, microsecond=1000, tzinfo=dt.UTC)]),
]


@pytest.mark.parametrize(("values", "type_", "expected"), WIDER, ids=lambda v: str(v) if isinstance(v, str) else "")
def test_columns_that_became_wider(path: str, values: pa.Array, type_: str, expected: list[Any]) -> None:
    foreign(path, pa.table({"v": values}), StructField("v", PrimitiveType(type_)))
    assert rowlock.to_arrow(path)["v"].to_pylist() == expected


def test_fields_of_structs_that_came_later_are_null(path: str) -> None:
    inner = StructType((StructField("a", PrimitiveType("long")), StructField("b", PrimitiveType("string"))))
    foreign(path, pa.table({"s": [{"a": 1, "old": 2}, None]}), StructField("s", inner))
    assert rowlock.to_arrow(path)["s"].to_pylist() == [{"a": 1, "b": None}, None]


def moments(*years: int) -> pa.Table:
    return pa.table({"at": pa.array([dt.datetime(y, 1, 1, tzinfo=dt.UTC) for y in years], pa.timestamp("us", "UTC"))})


AT = StructField("at", PrimitiveType("timestamp"))
SPARK_2 = {"org.apache.spark.version": "2.4.8"}
SPARK_3 = {"org.apache.spark.version": "3.5.0"}


def test_int96_of_spark_is_read(path: str) -> None:
    """delta-spark writes timestamps so by default."""
    foreign(path, moments(1900, 2026), AT, metadata=SPARK_3, use_deprecated_int96_timestamps=True)
    assert [v.year for v in rowlock.to_arrow(path)["at"].to_pylist()] == [1900, 2026]


def test_instants_in_a_column_without_a_zone_are_refused_by_what_they_are(path: str) -> None:
    foreign(path, moments(2026), StructField("at", PrimitiveType("timestamp_ntz")), metadata=SPARK_3, use_deprecated_int96_timestamps=True)
    with pytest.raises(UnsupportedFeature, match=r"column at is timestamp\[us\] as INT96 in the file and timestamp\[us\] in the table"):
        rowlock.to_arrow(path)


@pytest.mark.parametrize("int96", [True, False])
def test_moments_of_an_old_calendar_are_refused(path: str, int96: bool) -> None:
    foreign(path, moments(2026, 1700), AT, metadata=SPARK_2, use_deprecated_int96_timestamps=int96)
    with pytest.raises(UnsupportedFeature, match=r"foreign.parquet.*1700.*Spark 2") as e:
        rowlock.to_arrow(path)
    assert e.value.feature == "dates and times in an old calendar"
    assert "rowlock.read" in str(e.value)


@pytest.mark.parametrize("int96", [True, False])
def test_early_moments_of_a_writer_with_todays_calendar_are_read(path: str, int96: bool) -> None:
    foreign(path, moments(1700, 2026), AT, metadata=SPARK_3, use_deprecated_int96_timestamps=int96)
    assert rowlock.to_arrow(path).equals(moments(1700, 2026))


def test_bytes_that_are_no_text_are_refused(path: str) -> None:
    foreign(path, pa.table({"v": pa.array([b"\xff\xfe"])}), StructField("v", PrimitiveType("string")))
    with pytest.raises(UnsupportedFeature, match=r"foreign.parquet") as e:
        rowlock.to_arrow(path)
    assert e.value.feature == "text that is not UTF-8"


@pytest.mark.parametrize("int96", [True, False])
def test_recent_moments_of_an_old_writer_are_read(path: str, int96: bool) -> None:
    foreign(path, moments(1900, 2026), AT, metadata=SPARK_2, use_deprecated_int96_timestamps=int96)
    assert rowlock.to_arrow(path).equals(moments(1900, 2026))


REFUSED_TYPES = [
    (pa.array([1], pa.int64()), PrimitiveType("integer")),
    (pa.array(["1"]), PrimitiveType("long")),
    (pa.array([b"abc"], pa.binary(3)), PrimitiveType("string")),
    (pa.array([1], pa.timestamp("ns", "UTC")), PrimitiveType("timestamp")),
    (pa.array([{"x": 1}]), StructType((StructField("a", PrimitiveType("long")),))),
]


@pytest.mark.parametrize(("values", "type_"), REFUSED_TYPES, ids=lambda v: str(getattr(v, "type", "")))
def test_files_of_other_types_are_refused(path: str, values: pa.Array, type_: Any) -> None:
    foreign(path, pa.table({"v": values}), StructField("v", type_), version="2.6")
    with pytest.raises(UnsupportedFeature, match=r"foreign.parquet.*column v is"):
        rowlock.to_arrow(path)


def test_a_file_that_is_gone_is_named(path: str) -> None:
    rowlock.append(path, numbers(1))
    (name,) = (a.path for a in commit(path, 0).adds)
    Path(path, name).unlink()
    with pytest.raises(CorruptLog, match="not there") as e:
        rowlock.to_arrow(path)
    assert e.value.file == name


# ---- ranges ----------------------------------------------------------------------------------


class Counting(MemoryStore):
    """LostMatches what is asked of it."""

    def __init__(self) -> None:
        super().__init__("memory://counting")
        self.asked: list[tuple[str, int]] = []

    def get(self, key: str) -> bytes:
        data = super().get(key)
        self.asked.append(("get", len(data)))
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.asked.append(("get_range", length))
        return super().get(key)[start : start + length]

    def head(self, key: str) -> int | None:
        self.asked.append(("head", 0))
        return super().head(key)


def test_a_column_of_a_remote_file_is_read_by_ranges() -> None:
    store = Counting()
    sink = pa.BufferOutputStream()
    noise = np.random.default_rng(1).bytes(8 * 400_000)
    pq.write_table(pa.table({"narrow": pa.array(range(400_000)), "wide": pa.array(np.frombuffer(noise, np.int64))}), sink, use_dictionary=False)
    body = sink.getvalue().to_pybytes()
    store.put("f.parquet", body)
    with open_parquet(store, "f.parquet", len(body)) as source:
        assert source.read(columns=["narrow"]).num_rows == 400_000
    assert {kind for kind, _ in store.asked} == {"get_range"}
    assert len(store.asked) <= 3
    assert sum(size for _, size in store.asked) < len(body) * 0.7


@pytest.mark.usual_limits("it counts files")
def test_a_small_remote_file_is_one_request() -> None:
    store = Counting()
    sink = pa.BufferOutputStream()
    pq.write_table(numbers(1, 2), sink)
    body = sink.getvalue().to_pybytes()
    assert len(body) < limits().whole_object_bytes
    store.put("f.parquet", body)
    with open_parquet(store, "f.parquet", len(body)) as source:
        assert source.read().num_rows == 2
    assert store.asked == [("get", len(body))]


@pytest.mark.usual_limits("it counts files")
def test_vectors_of_rowlock_are_left_out(path: str) -> None:
    """As a DELETE would leave it: a vector over two of four rows."""
    rowlock.append(path, numbers(1, 2, 3, 4))
    state = opened(path)
    (add,) = commit(path, 0).adds
    (vector,) = state.vectors.store_all([BitMap64([0, 3])])
    remove = add.removed(deletion_timestamp_ms=1, data_change=True)
    state.log.put(1, serialize_commit(CommitInfo({"timestamp": 1, "operation": "DELETE"}), removes=[remove], adds=[replace(add, deletion_vector=vector)]))
    assert rows(path) == [(2,), (3,)]
    assert rowlock.to_arrow(path, columns=["id"], version=0).num_rows == 4


@pytest.mark.parametrize(("marked", "said"), [([(5, 6)], "marks row 5 of a file of 3 rows"), ([(0, 1 << 30)], "marks 1,073,741,824 rows of a file of 3")])
def test_a_vector_that_does_not_fit_its_file_is_damage(tmp_path: Path, marked: list[tuple[int, int]], said: str) -> None:
    """I9: also where a few bytes mark more rows than memory has room for."""
    path = str(tmp_path / "table")
    rowlock.append(path, pa.table({"id": [1, 2, 3]}), properties={"delta.enableDeletionVectors": "true"})
    log = TableLog(open_store(path))
    (add,) = log.latest().files.adds()
    vector = BitMap64()
    for first, last in marked:
        vector.add_range(first, last)
    forged = replace(add, deletion_vector=inline(vector, limit_bytes=1 << 20))
    assert log.put(1, serialize_commit(CommitInfo({"timestamp": 1}), adds=[forged], removes=[add.removed(1, True)])) == Committed()
    with pytest.raises(CorruptLog, match=said):
        rowlock.to_arrow(path)
