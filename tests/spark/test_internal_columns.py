"""The columns by which Rowlock finds rows are nobody's: no expression sees them, and no table or source may have columns of such names (I3, I9)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import RowlockError, SchemaMismatch, StatementRefused, UnsupportedFeature
from spark.support import ROUTES, make, read, take_route, unchanged

pytestmark = pytest.mark.spark

Statement = Callable[[DeltaTable, Callable[[str], Any]], Any]
SEEN: dict[str, Statement] = {
    "the condition of DELETE": lambda t, m: t.delete("__rowlock_pos = 1"),
    "in other letters": lambda t, m: t.delete("__ROWLOCK_POS = 1"),
    "a Column": lambda t, m: t.delete(F.col("__rowlock_path").isNotNull()),
    "the condition of UPDATE": lambda t, m: t.update("__rowlock_path is not null", {"v": "'x'"}),
    "a value of UPDATE": lambda t, m: t.update(set={"v": "__rowlock_path"}),
    "ON of MERGE": lambda t, m: m("t.id = s.id and t.__rowlock_pos = s.__rowlock_source").whenMatchedDelete().execute(),
    "a condition of MERGE": lambda t, m: m("t.id = s.id").whenMatchedDelete("__rowlock_source = 0").execute(),
    "a value of MERGE": lambda t, m: m("t.id = s.id").whenMatchedUpdate(set={"v": "cast(__rowlock_source as string)"}).execute(),
    "an insert of MERGE": lambda t, m: m("t.id = s.id").whenNotMatchedInsert(values={"id": "s.id", "v": "cast(__rowlock_source as string)"}).execute(),
    "a row without a match": lambda t, m: m("t.id = s.id").whenNotMatchedBySourceDelete("__rowlock_pos >= 0").execute(),
    "what is replaced": lambda t, m: rowlock.write(t.toDF(), t._handle.path, mode="overwrite", replace_where="__rowlock_pos = 0"),
    "a filter of OPTIMIZE": lambda t, m: t.optimize().where("__rowlock_n = 0").executeCompaction(),
    "a constraint": lambda t, m: t.addConstraint("c", "__rowlock_pos >= 0"),
}


def table(spark: Any, path: str) -> DeltaTable:
    return make(spark, path, [(1, "a"), (2, "b")], "id int, v string")


def source(spark: Any) -> Any:
    return spark.createDataFrame([(2, "B"), (3, "C")], "id int, v string")


@pytest.mark.parametrize("what", SEEN)
def test_no_expression_sees_them(spark: Any, table_path: str, what: str) -> None:
    t = table(spark, table_path)
    with unchanged(table_path), pytest.raises((AnalysisException, StatementRefused), match=r"(?i)UNRESOLVED_COLUMN|cannot be resolved|non-partition"):
        SEEN[what](t, lambda on: t.alias("t").merge(source(spark).alias("s"), on))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.short("driver", "large", ci=("mixed",), why="the way between")
def test_a_star_stands_for_the_columns_of_the_user(spark: Any, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    t = table(spark, table_path)
    take_route(monkeypatch, route)
    t.update("length(to_json(struct(*))) = 16", {"v": "to_json(struct(*))"})
    assert read(spark, table_path) == [(1, '{"id":1,"v":"a"}'), (2, '{"id":2,"v":"b"}')]
    merge = t.alias("t").merge(source(spark).alias("s"), "t.id = s.id").whenMatchedUpdate(set={"v": "to_json(struct(s.*))"})
    merge.whenNotMatchedInsert(values={"id": "s.id", "v": "to_json(struct(*))"}).whenNotMatchedBySourceUpdate(set={"v": "to_json(struct(id))"}).execute()
    assert read(spark, table_path) == [(1, '{"id":1}'), (2, '{"id":2,"v":"B"}'), (3, '{"id":3,"v":"C"}')]


NAMED: dict[str, Callable[[Any, str], Any]] = {
    "write": lambda spark, path: rowlock.write(spark.sql("select 1 as id, 2 as __rowlock_pos"), path),
    "append": lambda spark, path: rowlock.append(path, pa.table({"id": [1], "__Rowlock_Path": ["x"]})),
    "create": lambda spark, path: DeltaTable.create(spark).location(path).addColumn("id", "int").addColumn("__rowlock_source", "int").execute(),
    "create with Spark's": lambda spark, path: rowlock.write(spark.sql("select 1 as id, 2 as _TMP_metadata_row_index"), path),
    "replace": lambda spark, path: DeltaTable.createOrReplace(spark).location(path).addColumn("__rowlock_path", "int").execute(),
    "added by write": lambda spark, path: rowlock.write(spark.sql("select 1 as id, 2 as __rowlock_pos"), path, merge_schema=True),
    "added by append": lambda spark, path: rowlock.append(path, pa.table({"id": pa.array([1], pa.int32()), "__rowlock_pos": [2]}), merge_schema=True),
    "addColumn": lambda spark, path: DeltaTable.forPath(spark, path).addColumn("__rowlock_pos", "bigint"),
    "the source of a MERGE": lambda spark, path: (
        DeltaTable.forPath(spark, path).merge(spark.sql("select 1 as id, 2 as __ROWLOCK_SOURCE"), "true").whenMatchedDelete().execute()
    ),
    "added by MERGE": lambda spark, path: (
        DeltaTable.forPath(spark, path)
        .merge(spark.sql("select 1 as id, 2 as __rowlock_extra"), "false")
        .withSchemaEvolution()
        .whenNotMatchedInsertAll()
        .execute()
    ),
}


@pytest.mark.parametrize("what", NAMED)
def test_a_column_of_such_a_name_is_refused_by_it(spark: Any, table_path: str, what: str) -> None:
    """The files of large statements hold columns of these names, whose values a table's own column would show."""
    if what not in ("write", "append", "create", "create with Spark's"):
        table(spark, table_path)
    with unchanged(table_path), pytest.raises(SchemaMismatch, match=r"(?i)'_(_rowlock|tmp)_.*Rowlock's own; rename it") as e:
        NAMED[what](spark, table_path)
    assert e.value.table == table_path


@pytest.mark.parametrize("name", ["__rowlock_pos", "_TMP_metadata_row_index"])
@pytest.mark.no_peers("a table that Rowlock refuses to read")
def test_a_table_of_another_writer_with_such_a_column_is_refused_by_it(spark: Any, tmp_path: Path, name: str) -> None:
    """One like Spark's own in other letters was an ambiguous reference in the scan of a table with deletion vectors."""
    path = str(tmp_path / "theirs")
    rowlock.append(path, pa.table({"id": [1], "ours": [7]}))
    commit = tmp_path / "theirs" / "_delta_log" / f"{0:020}.json"
    commit.write_text(commit.read_text().replace("ours", name))
    rowlock.to_arrow(path, columns=["id"])
    t = DeltaTable.forPath(spark, path)
    for statement in (lambda: t.toDF(), lambda: rowlock.read(spark, path), lambda: t.delete("id = 1"), lambda: t.update(set={"id": "2"})):
        with unchanged(path), pytest.raises(UnsupportedFeature, match=f"A column named {name} would hide") as e:
            statement()
        assert isinstance(e.value, RowlockError) and re.escape(path) in re.escape(str(e.value))


def test_a_large_source_may_have_columns_of_all_other_names(spark: Any, table_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    t = table(spark, table_path)
    take_route(monkeypatch, "large")
    rows = spark.createDataFrame([(n, str(n), n, n, n, n) for n in range(2, 9)], "id int, v string, __n int, __p int, __o int, __m int")
    merge = t.alias("t").merge(rows.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"v": "s.v"})
    merge.whenNotMatchedInsert("s.__n > 6", {"id": "s.id", "v": "s.v"}).execute()
    assert read(spark, table_path) == [(1, "a"), (2, "2"), (7, "7"), (8, "8")]
