"""Transactions over several tables beside delta-spark and delta-rs, which write, read, stream, checkpoint and optimize the tables in each step (I1, I3)."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError
from pyspark.sql import DataFrame, SparkSession

import rowlock
from interop.test_race_with_delta_spark import LOST
from rowlock import DeltaTable
from rowlock.transaction.state.phases import Observer, use_observer
from rowlock.transaction.two_phase import close

ACCOUNTS, TRANSFERS = 4, 3
TRACKED = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
ON_TRACKED = ("update", "insert", "delete", "optimize", "checkpoint")
ON_PLAIN = ("append", "optimize", "append_by_rust", "optimize_by_rust", "checkpoint_by_rust")
Rows = Counter[tuple[Any, ...]]


def again(change: Callable[[], None]) -> None:
    """Makes a change by another engine, again where it lost to the reader that closes a table meanwhile."""
    for _ in range(5):
        try:
            return change()
        except (*LOST, CommitFailedError):
            continue
    return change()


class OtherEngines(Observer):
    """Does something by another engine while a table is prepared, and again when it is decided and not yet closed.

    All kinds of changes come in turn, in an order that a seed draws.

    One at a time, for on a disk they rename.
    """

    def __init__(self, spark: SparkSession, tracked: str, plain: str) -> None:
        self._spark, self._tracked, self._plain = spark, tracked, plain
        self._rng, self._one = random.Random(33), threading.Lock()
        self._kinds = {path: itertools.cycle(self._rng.sample(every, len(every))) for path, every in ((tracked, ON_TRACKED), (plain, ON_PLAIN))}
        self.did: Counter[str] = Counter()
        self.appended: list[int] = []

    def phase(self, name: str, txn: Any) -> None:
        path = txn.table.path
        if name in ("prepared", "decided") and path in (self._tracked, self._plain):
            with self._one, use_observer(Observer()):
                kind = next(self._kinds[path])
                again(partial(getattr(self, f"_{kind}"), path))
                self.did[f"{name}: {kind}"] += 1
                self.compare(path)

    def compare(self, path: str) -> None:
        """The rows of a table are the same for delta-spark, DuckDB and, where it can read the table, delta-rs: all of one version, for a reader may close the table between them."""
        log = Path(path) / "_delta_log"
        while True:
            before, rows = set(log.glob("*.json")), self.rows(path)
            others = [duckdb.sql(f"select * from delta_scan('{path}')").fetchall()]
            if path == self._plain:
                others.append([tuple(r.values()) for r in deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()])
            if set(log.glob("*.json")) == before:
                break
        for other in others:
            assert rows == Counter(other)

    def rows(self, path: str) -> Rows:
        """As delta-spark reads them."""
        return Counter(map(tuple, self._spark.read.format("delta").load(path).collect()))

    def _update(self, path: str) -> None:
        self._spark.sql(f"UPDATE delta.`{path}` SET note = concat(note, 'x') WHERE k = {self._rng.randrange(ACCOUNTS)}").collect()

    def _insert(self, path: str) -> None:
        self._spark.sql(f"INSERT INTO delta.`{path}` VALUES ({1000 + self.did.total()}, 0, '')").collect()

    def _delete(self, path: str) -> None:
        self._spark.sql(f"DELETE FROM delta.`{path}` WHERE k >= 1000").collect()

    def _optimize(self, path: str) -> None:
        self._spark.sql(f"OPTIMIZE delta.`{path}`").collect()

    def _checkpoint(self, path: str) -> None:
        jvm: Any = self._spark._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._spark._jsparkSession, path).checkpoint()

    def _append(self, path: str) -> None:
        self._spark.sql(f"INSERT INTO delta.`{path}` VALUES ({self._next()}, 0)").collect()

    def _append_by_rust(self, path: str) -> None:
        deltalake.write_deltalake(path, pa.table({"id": [self._next()], "amount": [0]}), mode="append")

    def _optimize_by_rust(self, path: str) -> None:
        deltalake.DeltaTable(path).optimize.compact()

    def _checkpoint_by_rust(self, path: str) -> None:
        deltalake.DeltaTable(path).create_checkpoint()

    def _next(self) -> int:
        self.appended.append(1000 + len(self.appended))
        return self.appended[-1]


@pytest.mark.soak("a minute; one of each is in spark/test_multi_table.py, and random ones on the engine in memory in model/test_two_phase.py", ci=True)
def test_beside_delta_spark_and_delta_rs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(close, "PATIENCE_S", 600)  # the other engines take seconds in each step, and nobody is to give the transaction up
    home, part, moves = (str(tmp_path / name) for name in ("home", "part", "moves"))
    for path in (home, part):
        accounts = pa.table({"k": range(ACCOUNTS), "v": [100] * ACCOUNTS, "note": [""] * ACCOUNTS})
        rowlock.append(path, accounts, properties={**TRACKED, "rowlock.order": "-1" if path == home else "0", "delta.checkpointInterval": "5"})
    rowlock.append(moves, pa.table({"id": [0], "amount": [0]}), properties={"delta.enableDeletionVectors": "false"})  # delta-rs reads and writes no others
    tables = [DeltaTable.forPath(spark, path) for path in (home, part, moves)]
    streamed: list[int] = []

    def take(frame: DataFrame, _: int) -> None:
        streamed.extend(row["id"] for row in frame.collect())

    stream = spark.readStream.format("delta").load(moves).writeStream.option("checkpointLocation", str(tmp_path / "stream")).foreachBatch(take).start()
    others, seen, done = OtherEngines(spark, part, moves), [0], threading.Event()

    def read() -> None:
        while not done.is_set():
            frames = rowlock.read_together(tables[:2])
            assert sum(frame.agg({"v": "sum"}).first()[0] for frame in frames) == 200 * ACCOUNTS  # type: ignore[index]
            seen[0] += 1

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for n in range(1, TRANSFERS + 1):
            with use_observer(others), rowlock.transaction(tables) as txn:
                txn[tables[0]].update(f"k = {n % ACCOUNTS}", {"v": f"v - {n}"})
                txn[tables[1]].update(f"k = {(n + 1) % ACCOUNTS}", {"v": f"v + {n}"})
                txn[tables[2]].append(spark.createDataFrame([(n, n)], "id bigint, amount bigint"))
            assert txn.receipt is not None and len(txn.receipt.versions) == 3 and not txn.receipt.pending
        stream.processAllAvailable()
    finally:
        done.set()
        reader.join()
        stream.stop()
    for path in (home, part, moves):
        assert others.rows(path) == Counter(map(tuple, rowlock.read(spark, path).collect()))
        others.compare(path)
    assert seen[0] > 0 and sorted(streamed) == sorted([*range(TRANSFERS + 1), *others.appended])
    assert sum(v for _, v, _ in others.rows(home)) == 100 * ACCOUNTS - sum(range(TRANSFERS + 1))
    assert {kind.partition(": ")[0] for kind in others.did} == {"prepared", "decided"}, others.did
    assert {kind.partition(": ")[2] for kind in others.did} == {*ON_TRACKED, *ON_PLAIN}, others.did
