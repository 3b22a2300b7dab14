"""What the tests of the data plane share: tables, their rows, and a twin table that delta-spark keeps."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import deltalake
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.engines.spark.catalyst.bridge import arrow_schema
from rowlock.exceptions import TableNotFound, UnsupportedFeature
from rowlock.storage.open import open_store
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock.transaction.state.shared import state_of
from support.peers import delta_spark_reads_here
from support.turning_down import turn_down

Row = tuple[Any, ...]


def rows(frame: DataFrame) -> list[Row]:
    """A frame's rows in an order of their own; NaN as text, so that it equals itself."""
    return in_order(frame.collect())


def in_order(found: Iterable[Sequence[Any]]) -> list[Row]:
    return sorted((tuple("NaN" if isinstance(v, float) and v != v else v for v in r) for r in found), key=repr)


def read(spark: SparkSession, path: str) -> list[Row]:
    """The table's rows as Rowlock reads them: with Arrow, and in some tests (support/peers.py), and where Arrow gives other Python values, by a job of Spark."""
    if not delta_spark_reads_here():
        with contextlib.suppress(UnsupportedFeature):
            table = rowlock.to_arrow(path)
            if all(arrow_type in _SAME for arrow_type in table.schema.types):
                return in_order(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return rows(rowlock.read(spark, path))


def delta_rows(spark: SparkSession, path: str) -> list[Row]:
    """The table's rows as another engine reads them: deltalake, or delta-spark in some tests (support/peers.py) and where deltalake cannot."""
    found = None if delta_spark_reads_here() else _by_deltalake(path)
    return delta_spark_rows(spark, path) if found is None else found


def delta_spark_rows(spark: SparkSession, path: str) -> list[Row]:
    """The table's rows as delta-spark reads them."""
    return rows(spark.read.format("delta").load(path))


def _by_deltalake(path: str) -> list[Row] | None:
    """The table's rows by deltalake; None where it has not the table's features, takes the path for a URI, or gives values of another type than Spark."""
    if "%" in path:
        return None
    table = deltalake.DeltaTable(path)
    if not all(getattr(f.type, "type", "") in _PLAIN for f in table.schema().fields):
        return None
    try:
        found = pa.table(deltalake.QueryBuilder().register("t", table).execute("select * from t").read_all())
    except deltalake.exceptions.DeltaError as e:
        if "Unsupported table features" in str(e):
            return None
        raise
    return in_order(zip(*(column.to_pylist() for column in found.columns), strict=True))


_SAME = {pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string(), pa.bool_(), pa.float64(), pa.date32()}
_PLAIN = {"byte", "short", "integer", "long", "string", "boolean", "double", "date"}


def version(path: str) -> int:
    """The newest version, -1 where there is no table."""
    try:
        return state_of(open_store(path)).refresh().version
    except TableNotFound:
        return -1


def arrow(spark: SparkSession, frame: DataFrame | Sequence[Row], schema: str | None = None) -> pa.Table:
    """Rows as an Arrow table whose columns may all be null; rows of Python values by Spark's schema of that text, without a job."""
    if isinstance(frame, DataFrame):
        found = frame.toArrow()
        return found.cast(pa.schema([f.with_nullable(True) for f in found.schema]))
    struct = spark.createDataFrame([], schema).schema if schema else spark.createDataFrame(list(frame)).schema
    schema_of_rows = arrow_schema(struct)
    return pa.Table.from_arrays([pa.array([row[n] for row in frame], f.type) for n, f in enumerate(schema_of_rows)], schema=schema_of_rows)


def make(
    spark: SparkSession,
    path: str,
    frame: DataFrame | Sequence[Row],
    schema: str | None = None,
    *,
    files: int = 1,
    partition_by: Sequence[str] = (),
    **properties: str,
) -> DeltaTable:
    """A table with these rows, in so many files, written without Spark: a Spark job for each takes ten times as long."""
    rows = arrow(spark, frame, schema)
    rowlock.append(path, rows.slice(0, 0), partition_by=list(partition_by), properties=properties)
    for n in range(files):
        rowlock.append(path, rows.take(pa.array(range(n, rows.num_rows, files), pa.int64())) if files > 1 else rows)
    return DeltaTable.forPath(spark, path)


def add(spark: SparkSession, path: str, rows: Sequence[Row], schema: str) -> None:
    """These rows in one file more, written without Spark: for tests that are not about how rows are written."""
    rowlock.append(path, arrow(spark, rows, schema))


@contextlib.contextmanager
def unchanged(path: str) -> Iterator[None]:
    """What happens inside makes no version and leaves no data file that was not there."""
    before, there = version(path), data_files(path)
    yield
    assert version(path) == before
    assert data_files(path) == there


def data_files(path: str) -> set[str]:
    return {os.path.join(d, n) for d, _, names in os.walk(path) for n in names if n.endswith(".parquet") and "_delta_log" not in d}


class Interloper(Observer):
    """Runs other writers' statements inside a transaction: the first when it has staged its effects, each later one when it has rebased."""

    def __init__(self, *work: Callable[[], object]) -> None:
        self.work, self.busy = list(work), False

    def phase(self, name: str, txn: Any) -> None:
        if name in ("staged", "rebased") and self.work and not self.busy:
            self.busy = True
            try:
                self.work.pop(0)()
            finally:
                self.busy = False


@contextlib.contextmanager
def winner(*work: Callable[[], object]) -> Iterator[Interloper]:
    """Other writers that commit before the transaction inside does."""
    with use_observer(Interloper(*work)) as observer:
        assert isinstance(observer, Interloper)
        yield observer
    assert not observer.work, "the winner was never run"


def set_limits(monkeypatch: Any, *, small: int, local: int) -> None:
    """How many rows may come to the driver, and how many are evaluated there: low limits send small tables down the ways of large ones."""
    turn_down(
        monkeypatch,
        driver_rows=small,
        local_rows=local,
        **({"outer_join_ratio": 0} if local else {"broadcast_source_bytes": 0, "unbounded_scan_rows": 0}),
        **({} if local > 0 else {"moved_bytes": 0}),
    )


@contextlib.contextmanager
def calls_into_the_jvm(spark: SparkSession) -> Iterator[list[str]]:
    """The commands that are sent inside, but for what the collector of garbage sends."""
    client: Any = spark.sparkContext._gateway._gateway_client
    sent: list[str] = []
    send = client.send_command

    def counted(command: str, *more: Any, **named: Any) -> Any:
        sent.extend([command] * (command[:2] != "m\n"))
        return send(command, *more, **named)

    client.send_command = counted
    try:
        yield sent
    finally:
        del client.send_command


ROUTES = {"driver": None, "mixed": (8, 12), "large": (3, 0)}
"""By name: (rows that may come to the driver, rows that are evaluated there)."""


def take_route(monkeypatch: Any, route: str) -> None:
    if (limits := ROUTES[route]) is not None:
        set_limits(monkeypatch, small=limits[0], local=limits[1])
