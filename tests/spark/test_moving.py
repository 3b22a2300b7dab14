"""OPTIMIZE and REORG by Arrow and by Spark on copies of one table: the same rows with the same ids and commit versions, read alike by every reader (I5, I6).

Each table is made once and copied; `moved_bytes` sends a copy down one way or the other.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rowlock
from interop.readers import rows_by_all
from rowlock import DeltaTable
from rowlock.engines.spark.statements import compaction
from rowlock.limits import limited
from rowlock.protocol.actions import AddFile
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import make

pytestmark = pytest.mark.spark

TRACKED = {"delta.enableRowTracking": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
FLAT = """cast(id as int) id, if(id % 3 = 0, null, cast(id as byte)) y, cast(id * 1000 as bigint) l, if(id = 5, double('NaN'), id / 7) d,
    cast(-0.0 * (id % 4) as double) z, cast(id / 3 as decimal(9, 2)) c, cast(id * 1000000007 as decimal(30, 4)) w, if(id % 5 = 0, null, concat('täxt', id)) s,
    cast(concat('b', id) as binary) b, id % 2 = 0 as t, date_add(date '2024-02-28', cast(id as int)) a, timestamp '2024-03-10 02:30:00.000001' + make_dt_interval(id) m,
    cast('1999-12-31 23:59:59.999999' as timestamp_ntz) n, cast(id as float) f"""
NESTED = """cast(id as int) id, cast(array() as array<int>) nothing, cast(map() as map<string,int>) none, if(id % 4 = 0, null, named_struct('a', if(id % 3 = 0, null, id), 'B', array(named_struct('x', id, 'y', cast(null as int))))) st,
    if(id % 5 = 0, null, array(id, null, id + 1)) ar, map(concat('k', id), named_struct('q', if(id % 2 = 0, null, id))) ma"""


def flat(spark: SparkSession, path: str) -> None:
    make(spark, path, spark.sql(f"select {FLAT} from range(40)"), files=3).delete("id in (0, 7, 8, 9, 33, 39)")


def nested(spark: SparkSession, path: str) -> None:
    rowlock.write(spark.sql(f"select {NESTED} from range(0, 40, 1, 3)"), path, properties={**TRACKED, "delta.enableDeletionVectors": "true"})
    DeltaTable.forPath(spark, path).delete("id % 6 = 1")


def by_executors(spark: SparkSession, path: str) -> None:
    for start in (0, 20):
        frame = spark.sql(f"select {FLAT}, named_struct('a', id, 'l', array(id)) st from range({start}, {start + 20})").coalesce(1)
        rowlock.write(frame, path, mode="append", properties={**TRACKED, "delta.enableDeletionVectors": "true"})
    DeltaTable.forPath(spark, path).delete("id % 6 = 1")
    DeltaTable.forPath(spark, path).update("id % 5 = 2", {"s": "'new'"})


def altered(spark: SparkSession, path: str) -> None:
    """Columns were added, renamed and dropped since the files were written, also within structs; the files of an UPDATE hold their rows' ids."""
    frame = spark.sql("select cast(id as int) id, concat('s', id) s, named_struct('a', id, 'b', id * 2) n, 'gone' g from range(30)")
    table = make(spark, path, frame, files=2, **MAPPED, **TRACKED)
    rowlock.sql(spark, f"ALTER TABLE delta.`{path}` RENAME COLUMN s TO `t.x y`")
    rowlock.sql(spark, f"ALTER TABLE delta.`{path}` RENAME COLUMN n.b TO s")
    rowlock.sql(spark, f"ALTER TABLE delta.`{path}` DROP COLUMN g")
    rowlock.sql(spark, f"ALTER TABLE delta.`{path}` ADD COLUMNS (s int, n.new array<string>)")
    table.update("id % 3 = 0", {"s": "id * 3"})
    table.delete("id % 7 = 3")


def found_by_id(spark: SparkSession, path: str) -> None:
    table = make(spark, path, spark.sql("select cast(id as int) id, named_struct('a', id) n from range(30)"), files=3, **{"delta.columnMapping.mode": "id"})
    rowlock.sql(spark, f"ALTER TABLE delta.`{path}` RENAME COLUMN n TO m")
    rowlock.sql(spark, f"ALTER TABLE delta.`{path}` ADD COLUMNS (n string)")
    table.delete("id % 7 = 3")


def widened(spark: SparkSession, path: str) -> None:
    frame = spark.sql("select cast(id as int) id, cast(id as byte) v, cast(id as float) f, cast(id as decimal(4, 1)) d, date '2024-01-01' t from range(30)")
    table = make(spark, path, frame, files=2, **{"delta.enableTypeWidening": "true", "delta.feature.timestampNtz": "supported"})
    for change in ("v TYPE bigint", "f TYPE double", "d TYPE decimal(12, 2)", "t TYPE timestamp_ntz"):
        rowlock.sql(spark, f"ALTER TABLE delta.`{path}` ALTER COLUMN {change}")
    rowlock.append(path, rowlock.read(spark, path).limit(3).toArrow())
    table.delete("id % 7 = 3")


def partitioned(spark: SparkSession, path: str) -> None:
    """Partition values with characters of URLs and folders, empty ones and nulls; more bins than cores."""
    value = "element_at(array('a b%2=1', 'ä/\\'', null, 'x:y#?', '__HIVE'), cast(id % 5 as int) + 1)"
    frame = spark.sql(f"select cast(id as int) id, {value} p, timestamp '2024-03-10 02:30:00' q, id v from range(40)")
    make(spark, path, frame, files=3, partition_by=["p", "q"], **TRACKED).delete("id % 6 = 1")


def void_and_char(spark: SparkSession, path: str) -> None:
    frame = spark.sql("select cast(id as int) id, cast(null as void) nothing, named_struct('a', id, 'v', null) st from range(20)")
    rowlock.write(frame.repartition(3), path, mode="append")
    rowlock.sql(spark, f"ALTER TABLE delta.`{path}` ADD COLUMNS (c char(5))")
    DeltaTable.forPath(spark, path).update("id % 2 = 0", {"c": "'ab'"})


def timed(spark: SparkSession, path: str) -> None:
    make(spark, path, spark.sql("select cast(id as int) id from range(20)"), files=2, **{"delta.enableInCommitTimestamps": "true"}).delete("id = 3")


TABLES: dict[str, Callable[[SparkSession, str], None]] = {
    f.__name__: f for f in (flat, nested, by_executors, altered, found_by_id, widened, partitioned, void_and_char, timed)
}


UNREAD = {"void_and_char": ("deltalake", "duckdb"), "widened": ("deltalake",)}
"""By table, the readers that lack the type void, or the feature."""


def known(spark: SparkSession, path: str) -> list[str]:
    """All rows, with their ids and commit versions where the table tracks them."""
    tracked = "delta.enableRowTracking" in DeltaTable.forPath(spark, path).detail().first()["properties"]
    return sorted(map(str, rowlock.read(spark, path, with_row_ids=tracked).collect()))


def adds(path: str) -> list[AddFile]:
    """The live files, in the order of their partitions."""
    return sorted(state_of(open_store(path)).refresh().files.adds(), key=lambda f: (str(sorted(f.partition_values.items())), f.num_records or 0))


def says(more: Any, less: Any) -> bool:
    """Whether statistics hold all that others do."""
    return all(k in more and says(more[k], v) for k, v in less.items()) if isinstance(less, dict) else bool(more == less)


@pytest.mark.parametrize("of", [pytest.param(n, marks=pytest.mark.no_peers("readers without a feature")) if n in UNREAD else n for n in TABLES])
@pytest.mark.short("by_executors", "altered", ci=("partitioned",), why="the layout that test_moved_rows has, too")
def test_both_ways_leave_the_same_table(spark: SparkSession, tmp_path: Path, of: str) -> None:
    """The same rows, ids, commit versions, partition values and statistics (of Arrow's rows also those of floats and arrays); what stays behind is read by all."""
    first = str(tmp_path / "first")
    TABLES[of](spark, first)
    before, moved = known(spark, first), {}
    for way, most in (("arrow", 1 << 40), ("spark", 0)):
        path = str(tmp_path / way)
        shutil.copytree(first, path)
        with limited(moved_bytes=most, local_rows=0), pytest.MonkeyPatch.context() as patch:
            written = counting(patch)
            DeltaTable.forPath(spark, path).optimize().executeCompaction()
        assert (not written) == (way == "arrow"), "it went the other way"
        assert known(spark, path) == before
        moved[way] = adds(path)
        rows_by_all(spark, path, without=UNREAD.get(of, ()))
    assert [f.partition_values for f in moved["arrow"]] == [f.partition_values for f in moved["spark"]]
    for one, other in zip(moved["arrow"], moved["spark"], strict=True):
        assert one.deletion_vector is None and says(json.loads(one.stats or ""), json.loads(other.stats or ""))
    held = {n for f in moved["arrow"] for n in pq.read_schema(f"{tmp_path}/arrow/{f.path}").names}
    assert not {n for n in held if n.startswith("__rowlock")}, "no origin is written into files"


@pytest.mark.parametrize("keys", [["id"], ["l", "st.a"]], ids=["one key", "two keys"])
@pytest.mark.short("two keys", ci=("one key",), why="the easier case")
def test_sorted_rows_are_the_same_both_ways(spark: SparkSession, tmp_path: Path, keys: list[str]) -> None:
    """I5, I6: by Arrow as by Spark the same rows, ids and commit versions, in about as many files, which divide the rows by their keys."""
    first = str(tmp_path / "first")
    by_executors(spark, first)
    DeltaTable.forPath(spark, first).setProperties({"delta.targetFileSize": "2000"})
    before, files = known(spark, first), {}
    for way, most in (("arrow", 1 << 40), ("spark", 0)):
        path = str(tmp_path / way)
        shutil.copytree(first, path)
        with limited(moved_bytes=1 << 40, sorted_bytes=most, local_rows=0), pytest.MonkeyPatch.context() as patch:
            written = counting(patch)
            DeltaTable.forPath(spark, path).optimize().executeZOrderBy(*keys)
        assert (not written) == (way == "arrow"), "it went the other way"
        assert known(spark, path) == before
        files[way] = adds(path)
        assert not any(f.deletion_vector for f in files[way])
    assert 3 <= len(files["arrow"]) <= 2 * len(files["spark"])
    ranges = sorted((stats["minValues"]["id"], stats["maxValues"]["id"]) for f in files["arrow"] if (stats := f.parsed_stats()))
    assert all(before < after for (_, before), (after, _) in pairwise(ranges)), "the keys rise with id, so no two files overlap"
    assert not {n for f in files["arrow"] for n in pq.read_schema(f"{tmp_path}/arrow/{f.path}").names if n.startswith("__rowlock")}


@pytest.mark.parametrize("most", [0, 1 << 40], ids=["spark", "arrow"])
@pytest.mark.short("arrow", ci=("spark",), why="Spark's own writer, which heeds them by itself")
def test_the_sessions_settings_hold_in_every_bin(spark: SparkSession, table_path: str, most: int) -> None:
    """Bins are written side by side, each in a thread: the codec and the most rows of a file are those of the call."""
    table = make(spark, table_path, spark.sql("select cast(id as int) id, cast(id % 3 as int) p from range(30)"), files=2, partition_by=["p"])
    settings = {"spark.sql.parquet.compression.codec": "zstd", "spark.sql.files.maxRecordsPerFile": "4"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        with limited(moved_bytes=most, local_rows=0):
            table.optimize().executeCompaction()
    finally:
        for name in settings:
            spark.conf.unset(name)
    groups = [pq.ParquetFile(f"{table_path}/{f.path}").metadata.row_group(0) for f in adds(table_path)]
    assert sorted(g.num_rows for g in groups) == [2, 2, 2, 4, 4, 4, 4, 4, 4]
    assert {g.column(0).compression for g in groups} == {"ZSTD"}


@pytest.mark.parametrize("most", [0, 1 << 40], ids=["spark", "arrow"])
@pytest.mark.short("arrow", ci=("spark",), why="the same bin by Spark's own writer")
@pytest.mark.no_peers("DuckDB passes over the zone of a partition value")
def test_a_partition_whose_value_is_spelled_in_two_ways_is_one(spark: SparkSession, table_path: str, tmp_path: Path, most: int) -> None:
    """As delta-spark has it; its files were left as they were."""
    made, at = tmp_path / "made", dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    for n in range(4):
        rowlock.append(made, pa.table({"id": [n], "at": [at]}), partition_by=["at"])
    shutil.copytree(made, table_path)
    commit = Path(table_path, "_delta_log", f"{1:020}.json")
    commit.write_text(commit.read_text().replace('"2020-01-01T00:00:00.000000Z"', '"2020-01-01 01:00:00+01:00"'))
    table = DeltaTable.forPath(spark, table_path)
    with limited(moved_bytes=most, local_rows=0):
        table.optimize().executeCompaction()
        assert len(adds(table_path)) == 1
        table.optimize().executeZOrderBy("id")
    found = rowlock.to_arrow(table_path).to_pylist()
    assert sorted(row["id"] for row in found) == [0, 1, 2, 3] and {row["at"] for row in found} == {at}


def counting(patch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows where Spark writes a bin."""
    written, write = list[str](), compaction.write_native

    def noted(*args: Any, **kwargs: Any) -> Any:
        written.append("")
        return write(*args, **kwargs)

    patch.setattr(compaction, "write_native", noted)
    return written
