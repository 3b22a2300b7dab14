"""Tables that are dropped and made anew in the same place, by files of the same names or by another engine (I3, I5, I9)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rowlock import DeltaTable
from rowlock.protocol.actions import AddFile
from rowlock.protocol.row_tracking import MaterializedColumns
from rowlock.spark.row_ids import MaterializedIds
from rowlock.storage.local import LocalStore
from spark.support import read, take_route

pytestmark = pytest.mark.spark
WRITTEN_S = 1_700_000_000
ROWS = 64


def convert(spark: SparkSession, path: str, first: int, *, at_s: int = WRITTEN_S) -> DeltaTable:
    """A table out of one Parquet file, which always has the same name and the same size."""
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    place = f"{path}/part-0.parquet"
    ids = np.arange(ROWS)
    pq.write_table(pa.table({"id": ids, "v": ids + first, "w": ids * 0}), place, compression="none", use_dictionary=False)
    os.utime(place, (at_s, at_s))
    return DeltaTable.convertToDelta(spark, f"parquet.`{path}`")


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.parametrize("later_s", [0, 5], ids=["", "later"])
def test_a_file_of_the_same_name_is_another_file(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str, later_s: int) -> None:
    """I5: rows that are kept of a file, and plans that have opened it, are those of its table, size and time."""
    take_route(monkeypatch, route)
    table = convert(spark, table_path, 1000)
    size = os.path.getsize(f"{table_path}/part-0.parquet")
    table.update("id >= 0 and v % 2 = 0", {"w": "w + 1"})  # what is read for it is kept
    state = table._handle.state
    convert(spark, table_path, 2000, at_s=WRITTEN_S + later_s)
    assert os.path.getsize(f"{table_path}/part-0.parquet") == size
    again = DeltaTable.forPath(spark, table_path)
    assert again._handle.state is state, "what is kept is shared"
    again.update("id >= 0 and v % 2 = 0", {"w": "w + 7"})
    assert read(spark, table_path) == sorted(((i, i + 2000, 0 if i % 2 else 7) for i in range(ROWS)), key=repr)


def test_ids_of_a_file_of_the_same_name(tmp_path: Path) -> None:
    """I6: ids that a file holds are those of its size and time, too."""
    names, kept = MaterializedColumns("_row_id", "_row_version"), MaterializedIds(LocalStore(tmp_path))
    for first, at_ms in ((100, 1), (500, 2)):
        place = tmp_path / "part-0.parquet"
        pq.write_table(pa.table({"_row_id": pa.array(range(first, first + 3), pa.int64()), "_row_version": pa.array([1, 1, 1], pa.int64())}), place)
        file = AddFile("part-0.parquet", {}, place.stat().st_size, at_ms, True, None)
        assert kept.at(names)(file, np.arange(3))[0].tolist() == [first, first + 1, first + 2]
