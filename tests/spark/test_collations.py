"""Columns with a collation, which other writers make: text is compared by Spark alone, so no file and no row is passed over because its bytes differ (I3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StringType

import rowlock
from rowlock import DeltaTable
from rowlock.exceptions import UnsupportedFeature
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from spark.support import make, read, take_route, unchanged

pytestmark = [pytest.mark.spark, pytest.mark.no_peers("deltalake and DuckDB do not know collations")]

ROWS = [(1, "a", ("x",)), (2, "A", ("X",)), (3, "b", ("y",)), (4, "B", ("Y",))]
SCHEMA = "id int, s string, n struct<f: string>"
CONDITIONS = {
    "equal": ("s = 'A'", [3, 4]),
    "from the left": ("'A' = s", [3, 4]),
    "null-safe": ("s <=> 'A'", [3, 4]),
    "among": ("s in ('A', 'C')", [3, 4]),
    "less": ("s < 'B'", [3, 4]),
    "more": ("s >= 'b'", [1, 2]),
    "prefix": ("startswith(s, 'A')", [3, 4]),
    "no": ("not (s = 'A')", [1, 2]),
    "a field": ("n.f = 'X'", [3, 4]),
    "with a collation of the query": ("s = 'A' collate utf8_binary", [1, 3, 4]),
}


def collated(spark: Any, path: Path, *, partitioned: bool) -> DeltaTable:
    """A table of one file for each row, whose text is compared without regard to case."""
    make(spark, str(path), ROWS, SCHEMA, files=4, partition_by=["s"] if partitioned else [])
    commit = path / "_delta_log" / f"{0:020}.json"
    text = commit.read_text()
    for name in ("s", "f"):
        before = f'\\"name\\":\\"{name}\\",\\"type\\":\\"string\\",\\"nullable\\":true,\\"metadata\\":{{}}'
        assert before in text
        text = text.replace(before, before[:-1] + f'\\"__COLLATIONS\\":{{\\"{name}\\":\\"spark.UTF8_LCASE\\"}}}}')
    commit.write_text(text)
    state_of(open_store(str(path)))._start_over()
    return DeltaTable.forPath(spark, str(path))


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.short("driver-False", ci=("large-True",), why="3 to 6 s each: the others in soak-ci")
def test_conditions(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitioned: bool, route: str) -> None:
    take_route(monkeypatch, route)
    t = collated(spark, tmp_path / "t", partitioned=partitioned)
    assert t.toDF().schema["s"].dataType == StringType("UTF8_LCASE")
    for what, (condition, left) in CONDITIONS.items():
        assert sorted(r.id for r in t.toDF().where(f"not coalesce({condition}, false)").collect()) == left, f"{what}: what Spark says of it"
        t.delete(condition)
        assert [r[0] for r in read(spark, str(tmp_path / "t"))] == left, what
        t.restoreToVersion(4)


@pytest.mark.parametrize("route", ["driver", "large"])
@pytest.mark.short("large", ci=("driver",), why="the same statement the other way; the ways themselves are compared in test_routes")
def test_merge(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    t = collated(spark, tmp_path / "t", partitioned=False)
    take_route(monkeypatch, route)
    source = spark.sql("select 'A' collate utf8_lcase as s, 10 as id union all select 'c' collate utf8_lcase, 20")
    merge = t.alias("t").merge(source.alias("s"), "t.s = s.s").whenMatchedUpdate(set={"id": "t.id + s.id"})
    merge.whenNotMatchedInsert(values={"id": "s.id", "s": "s.s"}).execute()
    assert [r[:2] for r in read(spark, str(tmp_path / "t"))] == [(11, "a"), (12, "A"), (20, "c"), (3, "b"), (4, "B")]


def test_new_columns_with_a_collation_are_refused_by_name(spark: Any, tmp_path: Path) -> None:
    """I9: a table with one needs a feature that is not written."""
    path, kind = str(tmp_path / "t"), StringType("UTF8_LCASE")
    make(spark, path, [(1,)], "id int")
    rows = spark.sql("select 1 as id, 'a' collate utf8_lcase as s")
    new = str(tmp_path / "new")
    for call in (
        lambda: rowlock.write(rows, new),
        lambda: rowlock.write(rows, path, merge_schema=True),
        lambda: DeltaTable.create(spark).location(new).addColumn("s", kind).execute(),
        lambda: DeltaTable.replace(spark).location(path).addColumn("s", kind).execute(),
        lambda: DeltaTable.forPath(spark, path).addColumn("s", kind),
        lambda: DeltaTable.forPath(spark, path).merge(rows, "false").withSchemaEvolution().whenNotMatchedInsertAll().execute(),
    ):
        with unchanged(path), unchanged(new), pytest.raises(UnsupportedFeature, match=r"(?i)collat.*UTF8_LCASE"):
            call()
