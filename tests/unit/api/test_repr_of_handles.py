"""What handles, transactions and builders print: their table and their state, without I/O and never an address in memory."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import rowlock
from rowlock import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def table(spark: SparkSession, table_path: str) -> DeltaTable:
    rowlock.write(spark.createDataFrame([(1, "a"), (2, "b")], "id bigint, day string"), table_path, partition_by="day")
    return DeltaTable.forPath(spark, table_path)


def shown(value: Any, table: DeltaTable) -> str:
    """What a value prints, the table's path as PATH."""
    assert not re.search(r"0x[0-9a-f]{4,}|object at", repr(value))
    return repr(value).replace(table._handle.path, "PATH")


def test_table(spark: SparkSession, table: DeltaTable) -> None:
    assert shown(table, table) == "DeltaTable('PATH', version=0, columns=[id, day], partitioned_by=['day'])"
    aliased = table.alias("t")
    table.delete("id = 1")
    assert shown(aliased, table) == "DeltaTable('PATH', version=1, columns=[id, day], partitioned_by=['day'], alias='t')"


@pytest.mark.no_peers("the table is deleted")
def test_no_file_is_asked(table: DeltaTable) -> None:
    shutil.rmtree(table._handle.path)
    assert "version=0" in repr(table)
    assert "UPDATE" not in repr(table.optimize()) and "'PATH'" in shown(table.optimize(), table)


def test_transaction(table: DeltaTable) -> None:
    txn = table.transaction()
    assert shown(txn, table) == "DeltaTransaction('PATH', not begun)"
    with txn:
        txn.delete("id = 1")
        txn.update("id = 2", {"day": "'c'"})
        assert shown(txn, table) == "DeltaTransaction('PATH', open, read_version=0, statements=[DELETE, UPDATE])"
        assert str(txn.receipt).startswith("UPDATE: no version, nothing was committed\n  rows   1 updated")
    assert shown(txn, table) == "DeltaTransaction('PATH', statements=[DELETE, UPDATE], committed as version 1)"
    with pytest.raises(RuntimeError), table.transaction() as over:
        raise RuntimeError
    assert shown(over, table) == "DeltaTransaction('PATH', statements=[], over, nothing committed)"


def test_merge(spark: SparkSession, table: DeltaTable) -> None:
    merge = table.alias("t").merge(spark.range(3).alias("s"), "t.id = s.id").whenMatchedDelete("s.id > 1").whenNotMatchedInsert(values={"id": "s.id"})
    assert shown(merge, table) == ("DeltaMergeBuilder('PATH', on='t.id = s.id', clauses=[whenMatched('s.id > 1') delete, whenNotMatched insert], alias='t')")
    evolving = table.merge(spark.range(3), F.lit(True)).withSchemaEvolution().whenNotMatchedInsertAll()
    assert shown(evolving, table) == "DeltaMergeBuilder('PATH', on=<Column>, clauses=[whenNotMatched insert all], schema_evolution=True)"
    bare = table.merge(spark.range(3), "true")
    for action, name in (
        (bare.whenMatched("id = 1"), "DeltaMergeMatchedActionBuilder"),
        (bare.whenNotMatched("id = 1"), "DeltaMergeNotMatchedActionBuilder"),
        (bare.whenNotMatchedBySource("id = 1"), "DeltaMergeNotMatchedBySourceActionBuilder"),
    ):
        assert shown(action, table) == f"{name}(DeltaMergeBuilder('PATH', on='true', clauses=[]), condition='id = 1')"
    assert shown(bare.whenMatched(), table) == "DeltaMergeMatchedActionBuilder(DeltaMergeBuilder('PATH', on='true', clauses=[]))"


def test_optimize(table: DeltaTable) -> None:
    assert shown(table.optimize().where("day = 'a'"), table) == "DeltaOptimizeBuilder('PATH', where=\"day = 'a'\")"


def test_table_builder(spark: SparkSession, table: DeltaTable) -> None:
    builder = DeltaTable.createIfNotExists(spark).location("/lake/t").partitionedBy("day").property("rowlock.lockProvider", "postgresql://me:secret@db/x")
    for n in range(10):
        builder.addColumn(f"c{n}", "BIGINT")
    assert shown(builder, table) == (
        "DeltaTableBuilder(createIfNotExists, columns=[c0, c1, c2, c3, c4, c5, c6, c7, and 2 more], "
        "location='/lake/t', partitioned_by=['day'], properties=['rowlock.lockProvider'])"
    )
