"""Names that hold dots, quotes and spaces, fields that lie deep, and partition values that are null."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import ConstraintViolated
from rowlock.protocol.schema import column_path
from spark.support import take_route

pytestmark = pytest.mark.spark

MAPPED = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a", ["a"]),
        (" a . b ", ["a", "b"]),
        ("`a.b`.c", ["a.b", "c"]),
        (" ` v`", [" v"]),
        ("`a``b`.` x `", ["a`b", " x "]),
        ("ü.`.`", ["ü", "."]),
        ("`a", ["`a"]),
        ("", [""]),
    ],
)
def test_parts_of_a_name(name: str, parts: list[str]) -> None:
    assert list(column_path(name)) == parts


@pytest.mark.parametrize("name", [" v", "v ", "v.w", "v`w", "ключ"])
@pytest.mark.short(" v", "v.w", "v`w", why="the same way for the other names; parts of names are all tested")
def test_an_update_sets_a_column_of_any_name(spark: Any, table_path: str, name: str) -> None:
    """I3: the column that an assignment names in back quotes is the one whose name that is."""
    quoted = "`" + name.replace("`", "``") + "`"
    DeltaTable.create(spark).location(table_path).addColumn("id", "int").addColumn(name, "int").property("delta.columnMapping.mode", "name").execute()
    rowlock.write(spark.sql(f"select 1 as id, 2 as {quoted}"), table_path)
    t = DeltaTable.forPath(spark, table_path)
    t.update("id = 1", {quoted: f"{quoted} + 1"})
    source = spark.sql("select 1 as id, 40 as x union all select 2, 50")
    t.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(set={f"t.{quoted}": f"t.{quoted} + s.x"}).whenNotMatchedInsert(
        values={"id": "s.id", quoted: "s.x"}
    ).execute()
    assert sorted(map(tuple, t.toDF().collect())) == [(1, 43), (2, 50)]


@pytest.mark.parametrize("route", ["driver", "large"])
def test_an_update_sets_a_field_thirty_levels_down(spark: Any, table_path: str, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    """The code that Spark makes of it fits its heap."""
    take_route(monkeypatch, route)
    row: Any = list(range(5))
    for level in range(30):
        row = [{f"f{level}": value, "g": "x"} for value in row]
    rowlock.append(table_path, pa.table({"n": row}))
    path = ".".join(["n", *(f"f{level}" for level in reversed(range(30)))])
    DeltaTable.forPath(spark, table_path).update(f"{path} > 2", {path: f"{path} + 10"})
    assert sorted(r[0] for r in rowlock.read(spark, table_path).select(path).collect()) == [0, 1, 2, 13, 14]


@pytest.mark.parametrize("kind", ["double", "string", "date", "boolean"])
@pytest.mark.short("double", "date", why="one type that is compared as a number, one as text")
def test_files_with_and_without_a_partition_value_are_changed_together(spark: Any, table_path: str, kind: str) -> None:
    """I3: one statement rewrites rows of a partition without a value beside rows of one with a value."""
    value = {"double": "1.5D", "string": "'a'", "date": "date'2024-03-10'", "boolean": "true"}[kind]
    for select in (f"select 1 as id, cast(null as {kind}) as p", f"select 2 as id, {value} as p", f"select 3 as id, {value} as p"):
        rowlock.write(spark.sql(select).coalesce(1), table_path, mode="append", partition_by=["p"])
    t = DeltaTable.forPath(spark, table_path)
    t.update(None, {"id": "id + 10"})
    assert sorted((r.id, r.p is None) for r in t.toDF().collect()) == [(11, True), (12, False), (13, False)]


@pytest.mark.no_peers("they have no dates beyond the year 9999")
def test_dates_beyond_those_of_python_in_keys_and_in_errors(spark: Any, table_path: str) -> None:
    """I3, I9: a MERGE by a date after 9999 finds its row, and a row that breaks a constraint is named whatever it holds."""
    rowlock.write(spark.sql("select date_from_unix_date(4000000) as d, 1 as v union all select date'2024-03-10', 2"), table_path)
    t = DeltaTable.forPath(spark, table_path)
    source = spark.sql("select date_from_unix_date(4000000) as d")
    t.alias("t").merge(source.alias("s"), "t.d = s.d").whenMatchedUpdate(set={"v": "t.v + 10"}).whenNotMatchedInsert(values={"d": "s.d"}).execute()
    t.addConstraint("small", "v < 100")
    with pytest.raises(ConstraintViolated, match="small"):
        t.update("v = 11", {"v": "200"})
    assert sorted(r.v for r in t.toDF().select("v").collect()) == [2, 11]
