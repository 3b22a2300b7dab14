"""Rowlock and delta-spark change one table in turns, and every reader finds the rows of a plain model after every turn.  I4, I5.

The tables are made by delta-spark and deltalake; the statements are the same for both engines, through the
same methods: `rowlock.DeltaTable` and `delta.tables.DeltaTable`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from delta.tables import DeltaTable as SparkDelta
from deltalake import DeltaTable as RustDelta, write_deltalake
from pyspark.sql import SparkSession

import rowlock
from interop.peer_tables import SPECIAL, make, sql
from interop.readers import commit_files, rows_by_all

pytestmark = pytest.mark.spark

Model = dict[int, tuple[str, int]]
"""The table as it should be: id to (grp, v)."""
FIRST = {n: (SPECIAL[n % len(SPECIAL)], 0) for n in range(60)}
SCHEMA = pa.schema([("id", pa.int64()), ("grp", pa.string()), ("v", pa.int64())])


def rows(model: Model) -> pa.Table:
    return pa.table({"id": list(model), "grp": [g for g, _ in model.values()], "v": [v for _, v in model.values()]}, schema=SCHEMA)


@dataclass(frozen=True)
class Turns:
    """One table and its model; each method is a statement by one of the engines, on both."""

    spark: SparkSession
    path: str
    model: Model
    without: Mapping[str, str] = field(default_factory=dict)
    """Readers that cannot read the table, and why."""

    def face(self, engine: str) -> Any:
        return rowlock.DeltaTable.forPath(self.spark, self.path) if engine == "rowlock" else SparkDelta.forPath(self.spark, self.path)

    def write(self, engine: str, new: Model, mode: Literal["append", "overwrite"]) -> None:
        frame = self.spark.createDataFrame(rows(new))
        if engine == "rowlock":
            assert rowlock.write(frame, self.path, mode=mode).version is not None
        else:
            frame.write.format("delta").mode(mode).save(self.path)
        if mode == "overwrite":
            self.model.clear()
        self.model.update(new)

    def append(self, engine: str, start: int) -> None:
        self.write(engine, {n: (SPECIAL[n % len(SPECIAL)], n) for n in range(start, start + 10)}, "append")

    def overwrite(self, engine: str, start: int) -> None:
        self.write(engine, {n: (SPECIAL[n % 3], n) for n in range(start, start + 30)}, "overwrite")

    def update(self, engine: str, every: int) -> None:
        self.face(engine).update(f"id % {every} = 0", {"v": "v + 1"})
        self.model.update({n: (g, v + 1) for n, (g, v) in self.model.items() if n % every == 0})

    def move(self, engine: str, every: int) -> None:
        """Rows change their partition."""
        self.face(engine).update(f"id % {every} = 0", {"grp": "concat(grp, ' % moved')"})
        self.model.update({n: (f"{g} % moved", v) for n, (g, v) in self.model.items() if n % every == 0})

    def delete(self, engine: str, every: int) -> None:
        self.face(engine).delete(f"id % {every} = 0")
        for n in [n for n in self.model if n % every == 0]:
            del self.model[n]

    def merge(self, engine: str, start: int) -> None:
        """Some keys are there, some are new; of those that are there some are deleted."""
        keys = [*list(self.model)[start % 7 :: 7], *range(start, start + 5)]
        source = {n: ("merged", n * 10) for n in keys}
        table = self.face(engine).alias("t").merge(self.spark.createDataFrame(rows(source)).alias("s"), "t.id = s.id")
        table.whenMatchedDelete("t.id % 2 = 1").whenMatchedUpdate(set={"v": "t.v + s.v"}).whenNotMatchedInsertAll().execute()
        for n, (g, v) in source.items():
            if n not in self.model:
                self.model[n] = (g, v)
            elif n % 2 == 1:
                del self.model[n]
            else:
                self.model[n] = (self.model[n][0], self.model[n][1] + v)

    def optimize(self, engine: str, _: int) -> None:
        self.face(engine).optimize().executeCompaction()

    def check(self, turn: str, engine: str = "") -> None:
        """delta-spark is not asked for what it has just written: that is seen by the others, and by itself a turn later."""
        found = {n: (g, v) for n, g, v in rows_by_all(self.spark, self.path, without={*self.without, engine} - {"rowlock"})}
        assert found == self.model, turn


Turn = tuple[str, str, int]
ALL_TURNS: tuple[Turn, ...] = (
    ("rowlock", "append", 1000), ("delta-spark", "delete", 5), ("rowlock", "update", 3), ("delta-spark", "update", 4), ("rowlock", "merge", 2000), ("delta-spark", "merge", 3000),
    ("rowlock", "delete", 7), ("delta-spark", "optimize", 0), ("rowlock", "move", 11), ("rowlock", "optimize", 0), ("delta-spark", "delete", 13), ("rowlock", "update", 2),
    ("rowlock", "overwrite", 4000), ("delta-spark", "append", 5000), ("rowlock", "delete", 3),
)  # fmt: skip
FEW_TURNS: tuple[Turn, ...] = (("rowlock", "update", 3), ("delta-spark", "delete", 5), ("rowlock", "merge", 2000), ("delta-spark", "update", 2))
SOME_TURNS: tuple[Turn, ...] = (
    ("rowlock", "update", 3), ("delta-spark", "delete", 5), ("rowlock", "merge", 2000), ("delta-spark", "move", 4), ("rowlock", "delete", 7), ("rowlock", "optimize", 0), ("delta-spark", "merge", 3000),
)  # fmt: skip
Made = Callable[[SparkSession, str], None]


def by_delta_spark(**how: Any) -> Made:
    def made(spark: SparkSession, path: str) -> None:
        spark.createDataFrame(rows(FIRST)).repartition(3, "id").createOrReplaceTempView("first_rows")
        make(spark, path, "select * from first_rows", **how)

    return made


def a_clone(spark: SparkSession, path: str) -> None:
    """Absolute paths of files and vectors that lie in another table."""
    by_delta_spark(partition_by="grp", enableDeletionVectors=True)(spark, f"{path} of")
    sql(spark, f"{path} of", "UPDATE T SET v = 0 WHERE id = 3")
    spark.sql(f"CREATE TABLE delta.`{path}` SHALLOW CLONE delta.`{path} of`")


def by_deltalake(*partition_by: str) -> Made:
    def made(_: SparkSession, path: str) -> None:
        write_deltalake(path, rows(FIRST), partition_by=list(partition_by))

    return made


CANNOT_READ = {"clone": {"duckdb": "takes an absolute path for a relative one"}}
TABLES: dict[str, Made] = {
    "vectors": by_delta_spark(enableDeletionVectors=True),
    "copy_on_write": by_delta_spark(),
    "partitions": by_delta_spark(partition_by="grp", enableDeletionVectors=True, checkpointInterval=3),
    "partitions_copy_on_write": by_delta_spark(partition_by="grp"),
    "clustered": by_delta_spark(cluster_by="grp", enableDeletionVectors=True),
    "clone": a_clone,
    "deltalake": by_deltalake(),
    "deltalake_partitions": by_deltalake("grp"),
}
TURNS: dict[str, tuple[Turn, ...]] = {"vectors": ALL_TURNS, "clone": FEW_TURNS, "deltalake_partitions": FEW_TURNS}
"""By table, for the long form; SOME_TURNS for all others."""
LONG = pytest.mark.soak("many turns, after each of which every engine reads the table; the short form takes four")


@pytest.mark.parametrize(
    ("name", "turns"),
    [
        *(pytest.param(n, FEW_TURNS, id=n) for n in ("vectors",)),
        *(
            pytest.param(n, TURNS.get(n, SOME_TURNS), id=f"{n}, long", marks=[LONG, *([pytest.mark.no_peers(str(CANNOT_READ[n]))] if n in CANNOT_READ else ())])
            for n in TABLES
        ),
    ],
)
def test_in_turns(spark: SparkSession, table_path: str, name: str, turns: tuple[Turn, ...]) -> None:
    TABLES[name](spark, table_path)
    table = Turns(spark, table_path, dict(FIRST), CANNOT_READ.get(name, {}))
    table.check("as it was made")
    for number, (engine, statement, argument) in enumerate(turns):
        getattr(table, statement)(engine, argument)
        table.check(f"turn {number}: {engine}.{statement}({argument})", engine)


@pytest.mark.soak("40 s; deltalake reads what every Spark test leaves, and appends in test_appends")
def test_deltalake_goes_on(spark: SparkSession, table_path: str) -> None:
    """deltalake writes to a table after Rowlock changed it, and Rowlock after deltalake; without vectors, which deltalake does not write."""
    by_deltalake("grp")(spark, table_path)
    table = Turns(spark, table_path, dict(FIRST))
    table.update("rowlock", 3)
    RustDelta(table_path).delete("id % 5 = 0")
    for n in [n for n in table.model if n % 5 == 0]:
        del table.model[n]
    table.check("deltalake's delete")
    table.append("rowlock", 1000)
    RustDelta(table_path).update(predicate="id % 2 = 0", updates={"v": "v + 1"})
    table.model.update({n: (g, v + 1) for n, (g, v) in table.model.items() if n % 2 == 0})
    table.check("deltalake's update")
    table.merge("rowlock", 2000)
    RustDelta(table_path).optimize.compact()
    table.check("deltalake's compaction")
    table.delete("rowlock", 7)
    table.check("the last delete")


@pytest.mark.soak("7 s of turns with delta-spark; spellings of paths are asked in tests/spark/test_spelling_of_paths.py", ci=True)
def test_another_writers_spelling(spark: SparkSession, table_path: str) -> None:
    """A file leaves the table only by the spelling that it came in with: delta-spark compares the log's own paths, and doubles the row else."""
    by_delta_spark(partition_by="grp", checkpointInterval=3)(spark, table_path)
    first = commit_files(table_path)[0]
    first.write_text(first.read_text().replace("grp=日本/", "grp=%e6%97%a5%E6%9C%AC/").replace("grp=plain/", "grp=pl%61in/"))
    (first.parent / f".{first.name}.crc").unlink()
    table = Turns(spark, table_path, dict(FIRST))
    table.check("as another writer spells it")
    for every in (11, 13, 7, 9):  # the third commit writes a checkpoint
        table.update("rowlock", every)
    table.check("after a checkpoint")
    table.delete("rowlock", 2)
    table.check("after a delete")


# not "100%25" (deltalake decodes it) and not "é日" (DuckDB does not find its files): peers' own limits
@pytest.mark.parametrize("folder", ["a b", "[x]{y}*?"])
@pytest.mark.short(ci=("[x]{y}*?",), why="turns with delta-spark; folders of any name are asked in tests/spark/test_semantics.py")
def test_any_folder(spark: SparkSession, tmp_path: Path, folder: str) -> None:
    """The table's own folder may be called anything; the files are those that the log names, each of them once."""
    table = Turns(spark, str(tmp_path / folder), {})
    rowlock.write(spark.createDataFrame(rows(FIRST)).repartition(2), table.path, partition_by="grp")
    table.model.update(FIRST)
    table.update("rowlock", 3)
    table.delete("delta-spark", 5)
    table.optimize("rowlock", 0)
    table.check(folder)
