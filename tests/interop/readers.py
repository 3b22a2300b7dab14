"""One table through four readers: Rowlock, delta-spark, deltalake and DuckDB.  I5: all of them find the same rows."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

import rowlock
from rowlock.protocol.properties import column_mapping_mode
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import state_of
from support.peers import delta_spark_reads_here

READERS = ("rowlock", "delta-spark", "deltalake", "duckdb")
_MANY_ROWS = 20_000

Row = tuple[Any, ...]


def by_rowlock(spark: SparkSession, path: str) -> pa.Table:
    return rowlock.read(spark, path).toArrow()


def by_delta_spark(spark: SparkSession, path: str) -> pa.Table:
    return spark.read.format("delta").load(path).toArrow()


def by_deltalake(_: SparkSession, path: str) -> pa.Table:
    """Through its query engine: `to_pyarrow_table` refuses tables with deletion vectors."""
    return pa.table(QueryBuilder().register("t", DeltaTable(path)).execute("select * from t").read_all())


def by_duckdb(_: SparkSession, path: str) -> pa.Table:
    with _duck().cursor() as cursor:
        found = cursor.execute("select * from delta_scan(?)", [path]).arrow()
        return found.read_all() if isinstance(found, pa.RecordBatchReader) else found


@cache
def _duck() -> duckdb.DuckDBPyConnection:
    from duckdb_extensions import import_extension

    import_extension("delta")
    connection = duckdb.connect()
    connection.execute("LOAD delta")
    connection.execute("SET TimeZone='UTC'")
    return connection


_READ = {"rowlock": by_rowlock, "delta-spark": by_delta_spark, "deltalake": by_deltalake, "duckdb": by_duckdb}


def rows_by_all(spark: SparkSession, path: str, *, without: Iterable[str] = ()) -> list[Row]:
    """The rows of a table, sorted, which all readers agree on; `without` names readers that cannot read this one, beside those known to be `unable`.

    delta-spark is asked where `delta_spark_reads_here` says so.
    Values are normalised (see `normal`).  Raises AssertionError that names the readers and the rows which differ.
    """
    skipped = {*without, *unable(path), *(() if delta_spark_reads_here() else ("delta-spark",))}
    tables = {name: read(spark, path) for name, read in _READ.items() if name not in skipped}
    ours = tables.pop("rowlock")
    if ours.num_rows > _MANY_ROWS:
        for name, theirs in tables.items():
            _assert_equal_tables(path, ours, name, theirs)
        return []
    rows = rows_of(ours)
    for name, theirs in tables.items():
        assert_same_rows(rows, rows_of(theirs, ours.column_names), f"{path}: rowlock", name)
    return rows


def unable(path: str) -> frozenset[str]:
    """Readers that find other values in a table of this kind, delta-spark's own included.

    DuckDB 1.5.5 has null in the partition columns of a table that maps columns.
    """
    snapshot = state_of(open_store(path)).refresh()
    return frozenset({"duckdb"} if snapshot.partition_columns and column_mapping_mode(snapshot.metadata.configuration) != "none" else ())


def rows_of(table: pa.Table, names: Sequence[str] | None = None) -> list[Row]:
    """Normal rows in a repeatable order, columns in the order of `names`."""
    assert names is None or sorted(table.column_names) == sorted(names), f"columns {table.column_names} where {list(names)} are expected"
    columns = [[normal(v) for v in table.column(n).to_pylist()] for n in (names if names is not None else table.column_names)]
    return sorted(zip(*columns, strict=True), key=repr)


def assert_same_rows(ours: list[Row], theirs: list[Row], us: str, them: str) -> None:
    if ours == theirs:
        return
    mine, other = Counter(map(repr, ours)), Counter(map(repr, theirs))
    missing, extra = list((other - mine).elements()), list((mine - other).elements())
    raise AssertionError(
        f"{us} has {len(ours)} rows and {them} {len(theirs)}; only in {us}: {len(extra)} such as {extra[:3]}; only in {them}: {len(missing)} such as {missing[:3]}"
    )


def normal(value: Any) -> Any:
    """A value as a plain one that does not depend on the reader.

    Moments are naive and in UTC, maps are sorted pairs, structs are tuples of pairs, NaN and -0.0 are words (they equal nothing, or too much).
    """
    if isinstance(value, dt.datetime):
        return (value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat(timespec="microseconds")
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else "-0.0" if value == 0 and math.copysign(1, value) < 0 else value
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, Mapping):
        return tuple((k, normal(v)) for k, v in value.items())
    if isinstance(value, list):
        pairs = all(isinstance(v, tuple) and len(v) == 2 for v in value) and bool(value)
        return tuple(sorted(((normal(k), normal(v)) for k, v in value), key=repr)) if pairs else [normal(v) for v in value]
    return value


def _assert_equal_tables(path: str, ours: pa.Table, name: str, theirs: pa.Table) -> None:
    """For many rows: both differences are empty."""
    theirs = theirs.select(ours.column_names).cast(ours.schema)
    with duckdb.connect() as connection:
        connection.register("ours", ours)
        connection.register("theirs", theirs)
        for a, b in (("ours", "theirs"), ("theirs", "ours")):
            odd = connection.execute(f"select * from {a} except all select * from {b} limit 3").fetchall()
            assert not odd, f"{path}: rows of {name}: only in {a}, such as {odd}"


def tables_of_rowlock(folder: Path) -> list[str]:
    """Every Delta table at or below a folder that Rowlock has committed to."""
    logs = [p for p in folder.rglob("_delta_log") if p.is_dir()]
    return [str(log.parent) for log in sorted(logs) if any(engine_of(c).startswith("rowlock") for c in commit_files(log.parent))]


def commit_files(table: Path | str) -> list[Path]:
    """The commit files of a table, oldest first."""
    return sorted(p for p in (Path(table) / "_delta_log").glob("*.json") if p.stem.isdigit() and len(p.stem) == 20)


def commit_info(commit: Path) -> dict[str, Any]:
    """The commitInfo of a commit file; empty where there is none."""
    for line in commit.read_bytes().splitlines():
        if line.strip() and "commitInfo" in (action := orjson.loads(line)):
            return dict(action["commitInfo"])
    return {}


def engine_of(commit: Path) -> str:
    return str(commit_info(commit).get("engineInfo", "")).lower()
