"""A host on Spark: the same steps through the DeltaTable API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import rowlock
from model.lockless.host import Rows, Told, _Pause, alter, appends, mixed, told
from model.schedules.on_spark import OnSpark, change
from model.schedules.play import schema_string
from rowlock.transaction.state.phases import use_observer
from rowlock_simulation.memory.sql.script import parse


class SparkHost:
    """See host.Host."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark, self._path, self._world = spark, str(path), OnSpark(spark, path)
        self._open: list[Any] = []
        self._pinned: list[DataFrame] = []

    def create(self, columns: str, properties: dict[str, str]) -> None:
        self._world.create(schema_string([(*c.split(), True) for c in columns.split(", ")]), (), properties)  # type: ignore[misc]

    def _table(self) -> rowlock.DeltaTable:
        return rowlock.DeltaTable.forPath(self._spark, self._path)

    def begin(self) -> int:
        self._open.append(self._table().transaction().__enter__())
        return len(self._open) - 1

    def run(self, session: int, text: str) -> None:
        change(self._open[session], parse(text), self._world._frame)

    def commit(self, session: int, pause_s: float = 0) -> Told:
        txn = self._open[session]
        with use_observer(_Pause(pause_s)):
            txn.__exit__(None, None, None)
        return told(txn.receipt)

    def do(self, text: str, policy: str | None = None) -> Told:
        script = parse(text)
        return told(self._world.run(script) if policy is None else self._world.run_together([script], on_conflict=policy))

    def rows(self, version: int | None = None) -> Rows:
        frame = rowlock.read(self._spark, self._path) if version is None else rowlock.read(self._spark, self._path, version=version)
        return [list(row) for row in frame.collect()]

    def pin(self) -> int:
        self._pinned.append(self._table().toDF())
        return len(self._pinned) - 1

    def pinned(self, view: int) -> Rows:
        return [list(row) for row in self._pinned[view].collect()]

    def refresh(self, view: int) -> None:
        self._pinned[view] = self._table().toDF()

    def alter(self, change: str) -> int:
        return alter(self._world.state, self._world.engine, change)

    def version(self) -> int:
        return self._world.state.refresh().version

    def appends(self, writer: int, commits: int, size: int) -> list[int]:
        return appends(self, writer, commits, size)

    def mixed(self, writer: int, commits: int, compacting: bool, seed: int) -> list[list[Any]]:
        return mixed(self, writer, commits, compacting, seed)
