"""A delta-spark writer and a Rowlock writer race on one table.  I1, I2, I5: Rowlock never fails, nothing is lost or doubled.

On a local disk delta-spark looks whether a version is there and then renames over it, so that it can
overwrite a commit that has landed.  Rowlock cannot prevent that; it must notice it and say so.  The test
tells this case apart by the log: a receipt whose transaction id is not in its version was overwritten.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from delta import exceptions as theirs_raise
from delta.tables import DeltaTable as SparkDelta
from pyspark.sql import SparkSession

import rowlock
from interop.readers import commit_files, commit_info, rows_by_all
from rowlock.exceptions import CommitOverwrittenWarning
from rowlock.storage import open_store
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import state_of

pytestmark = pytest.mark.spark

LOST = (
    theirs_raise.ConcurrentAppendException,
    theirs_raise.ConcurrentDeleteDeleteException,
    theirs_raise.ConcurrentDeleteReadException,
    theirs_raise.ConcurrentWriteException,
    theirs_raise.DeltaConcurrentModificationException,
)
"""In delta-spark none of them is the base of the others."""
OURS, THEIRS = 1, 2
"""The row that each writer counts on; both lie in one file."""


@pytest.mark.parametrize(
    "commits",
    [
        pytest.param(6, marks=pytest.mark.soak("11 s; one process of each engine races in test_appends", ci=True)),
        pytest.param(20, marks=pytest.mark.soak("more of the same")),
    ],
)
def test_race(spark: SparkSession, table_path: str, commits: int) -> None:
    rowlock.write(spark.range(10).selectExpr("id", "0L as n").coalesce(1), table_path)
    ours = OurWriter(spark, table_path, commits)
    theirs = TheirWriter(spark, table_path, commits)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _together(ours.run, theirs.run)
        rowlock.DeltaTable.forPath(spark, table_path)  # what was overwritten last is noticed when a handle refreshes
    said = [w for w in caught if issubclass(w.category, CommitOverwrittenWarning)]
    noticed = set(state_of(open_store(table_path)).overwritten)

    overwritten = {r.version for r in ours.receipts if _txn_id(table_path, r.version) != r.txn_id}
    assert overwritten <= noticed, "a commit of ours was overwritten and nobody said so"
    assert bool(said) == bool(noticed)
    rows = dict(rows_by_all(spark, table_path))
    assert len(rows) == len(rows_by_all(spark, table_path)), "no key is there twice"
    landed = {key for key, version in ours.appended.items() if version not in overwritten}
    assert {k for k in rows if 1000 <= k < 2000} == landed
    assert {k for k in rows if k >= 2000} == set(theirs.appended)
    assert {k for k in rows if k < 1000} == set(range(10))
    assert rows[THEIRS] == theirs.updates == commits // 2
    lost = len(overwritten - set(ours.appended.values()))
    assert rows[OURS] == commits // 2 - lost if not lost else commits // 2 - lost <= rows[OURS] <= commits // 2
    assert len(ours.receipts) == commits
    versions = [int(c.stem) for c in commit_files(table_path)]
    assert versions == list(range(2 * commits + 1 - len(overwritten)))


class OurWriter:
    """Counts on its row and appends keys, by turns.  Nothing is caught: Rowlock never fails."""

    def __init__(self, spark: SparkSession, path: str, commits: int) -> None:
        self.spark, self.path, self.commits = spark, path, commits
        self.receipts: list[Receipt] = []
        self.appended: dict[int, int | None] = {}

    def run(self) -> None:
        table = rowlock.DeltaTable.forPath(self.spark, self.path)
        for n in range(self.commits):
            if n % 2:
                table.update(f"id = {OURS}", {"n": "n + 1"})
                assert table.lastReceipt is not None
                self.receipts.append(table.lastReceipt)
            else:
                key = 1000 + n
                self.receipts.append(rowlock.write(self.spark.range(key, key + 1).selectExpr("id", "0L as n"), self.path))
                self.appended[key] = self.receipts[-1].version


class TheirWriter:
    """The same by delta-spark, again and again until each statement is in."""

    def __init__(self, spark: SparkSession, path: str, commits: int) -> None:
        self.spark, self.path, self.commits = spark, path, commits
        self.updates = self.failures = 0
        self.appended: list[int] = []

    def run(self) -> None:
        for n in range(self.commits):
            if n % 2:
                self._until_it_is_in(lambda: SparkDelta.forPath(self.spark, self.path).update(f"id = {THEIRS}", {"n": "n + 1"}))
                self.updates += 1
            else:
                key = 2000 + n
                self._until_it_is_in(
                    lambda key=key: self.spark.range(key, key + 1).selectExpr("id", "0L as n").write.format("delta").mode("append").save(self.path)
                )
                self.appended.append(key)

    def _until_it_is_in(self, statement: Callable[[], object]) -> None:
        while True:
            try:
                statement()
                return
            except LOST:
                self.failures += 1


def _together(*writers: Callable[[], None]) -> None:
    """Runs them in threads; raises what one of them raised."""
    raised: list[BaseException] = []
    gate = threading.Barrier(len(writers))

    def run(writer: Callable[[], None]) -> None:
        gate.wait()
        try:
            writer()
        except BaseException as e:
            raised.append(e)

    threads = [threading.Thread(target=run, args=(w,)) for w in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def _txn_id(path: str, version: int | None) -> object:
    assert version is not None
    return commit_info(Path(path) / "_delta_log" / f"{version:020d}.json").get("txnId")
