"""Tables that are dropped and made anew in the same place, by files of the same names or by another engine (I3, I5, I9)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import MetadataChangedException
from rowlock.parquet.rows import MaterializedIds
from rowlock.protocol.actions import AddFile
from rowlock.protocol.row_tracking import MaterializedColumns
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
@pytest.mark.short("-driver", "later-large", why="each moment and each way once, instead of their product")
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


SCHEMAS = {"another schema": "id bigint, other string", "the same schema": "id bigint, v bigint"}
OURS: dict[str, Callable[[Any, SparkSession], Any]] = {
    "append": lambda txn, spark: txn.append(spark.sql("select 50L as id, 50L as v")),
    "update": lambda txn, spark: txn.update("id = 1", {"v": "v + 100"}),
}


@pytest.mark.parametrize("how", SCHEMAS)
@pytest.mark.short(ci=("another schema",), why="6 s with delta-spark; tables that Rowlock makes anew are asked above")
def test_delta_spark_replaces_the_table(spark: SparkSession, table_path: str, how: str) -> None:
    """I3, I9: delta-spark's CREATE OR REPLACE gives a table a new id, in the same log: what was staged for the old one lands under no policy."""
    winner = spark.createDataFrame([(1, 5 if how == "the same schema" else "x")], SCHEMAS[how])
    for name, ours in OURS.items():
        for policy in ("repair", "fail"):
            path = f"{table_path}/{name}-{policy}"
            rowlock.write(spark.sql("select id, id as v from range(3)"), path)
            table = DeltaTable.forPath(spark, path)
            before = table._handle.state.refresh()
            with pytest.raises(MetadataChangedException, match=before.metadata.id), table.transaction(on_conflict=policy, granularity="file") as txn:
                ours(txn, spark)
                winner.writeTo(f"delta.`{path}`").using("delta").createOrReplace()
            head = table._handle.state.refresh()
            assert head.version == before.version + 1 and head.metadata.id != before.metadata.id
            assert read(spark, path) == [tuple(r) for r in winner.collect()], f"{name} under {policy}"
