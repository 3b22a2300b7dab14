"""A case's table on Spark: how it is made, and how each step is carried out through Rowlock or by another engine."""

from __future__ import annotations

import json
import random
import shutil
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType, _parse_datatype_string

import rowlock
from model.swarm.history import Table
from model.swarm.names import quoted
from model.swarm.oracles import constraint
from model.swarm.statements import Step, role_columns
from model.swarm.values import KINDS
from rowlock import DeltaTable
from rowlock.engines.spark.catalyst.bridge import to_arrow
from rowlock.engines.spark.read.scan import local_frame
from rowlock.exceptions import ConstraintViolated, DeltaConcurrentModificationException
from rowlock.storage.open import open_store
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import state_of

RAISES = (ConstraintViolated, PySparkException)
CONFLICT = DeltaConcurrentModificationException


class World:
    """One table in a folder, written by several engines."""

    def __init__(self, spark: SparkSession, path: Path, table: Table, rng: random.Random) -> None:
        self.spark, self.path, self.table, self._rng = spark, path, table, rng
        self.names = dict(table.names)
        self.roles = dict(table.roles)
        self.restorable = 0
        self.reached: list[str] = []

    @property
    def columns(self) -> dict[str, str]:
        """The templates' columns as this table calls them."""
        return role_columns(self.roles | {"extra": "int"}, quoted(self.names))

    @property
    def version(self) -> int:
        return state_of(open_store(str(self.path))).refresh().version

    def open(self) -> DeltaTable:
        return DeltaTable.forPath(self.spark, str(self.path))

    # ---- making ----------------------------------------------------------------------------

    def create(self, origin: str, files: list[pa.Table]) -> None:
        """The table with its first rows, each table of them a file (or one for each partition)."""
        if origin == "converted":
            self._convert(files)
        else:
            builder = DeltaTable.create(self.spark).location(str(self.path))
            columns = quoted(self.names) if self.table.generated else {}
            for role, kind in self.roles.items():
                formula = self.table.generated.get(role)
                builder = builder.addColumn(
                    self.names[role],
                    KINDS[kind].spark,
                    nullable=role not in self.table.not_null,
                    generatedAlwaysAs=None if formula is None else formula.sql(role_columns(self.roles, columns)),
                )
            for name, value in self.table.properties.items():
                builder = builder.property(name, value)
            if self.table.partition:
                builder = builder.partitionedBy(*(self.names[r] for r in self.table.partition))
            builder.execute()
        for n, check in enumerate(self.table.checks):
            self.open().addConstraint(f"check_{n}", check.sql(self.columns))
        if origin != "converted":
            how = {"arrow append": "arrow", "spark write": "spark", "by hand": "hand", "by deltalake": "deltalake"}[origin]
            for rows in files:
                self._append(rows, how)

    def _convert(self, files: list[pa.Table]) -> None:
        self.path.mkdir(parents=True)
        for n, rows in enumerate(files):
            pq.write_table(self._named(rows, twin=n % 2 == 1 and self._has_twins), self.path / f"part-{n}.parquet")
        DeltaTable.convertToDelta(self.spark, f"parquet.`{self.path}`").setProperties(
            {k: v for k, v in self.table.properties.items() if v != "false" or k.startswith("rowlock.")}
        )

    @property
    def _has_twins(self) -> bool:
        return self.table.twins

    def _named(self, rows: pa.Table, *, twin: bool = False) -> pa.Table:
        """Rows under the table's names; as `twin` in capitals, which mean the same columns."""
        return rows.rename_columns([self.names[c].upper() if twin else self.names[c] for c in rows.column_names])

    def source(self, rows: pa.Table) -> DataFrame:
        """The rows for a MERGE: an odd number of them in one task, others as Spark cuts a list of values (by several tasks, computed before there are any)."""
        frame = self.frame(rows)
        return frame if rows.num_rows % 2 else local_frame(self.spark, to_arrow(frame), frame.schema)

    def frame(self, rows: pa.Table) -> DataFrame:
        roles = rows.column_names
        schema = StructType([StructField(self.names[r], _parse_datatype_string(KINDS[self.roles[r]].spark), True) for r in roles])
        return self.spark.createDataFrame(self._named(rows), schema=schema).coalesce(1)

    def drop(self) -> None:
        shutil.rmtree(self.path)

    # ---- steps -----------------------------------------------------------------------------

    def run(self, steps: list[Step]) -> Receipt | None:
        """One transaction.  What it raises goes on."""
        if len(steps) == 1:
            return self._single(steps[0])
        with self.open().transaction() as txn:
            for step in steps:
                self._change(txn, step)
        return txn.receipt

    def _single(self, step: Step) -> Receipt | None:
        table = self.open()
        self.reached.append(step.label)
        if step.how == "delta-spark":
            from delta.tables import DeltaTable as TheirTable

            TheirTable.forPath(self.spark, str(self.path)).delete(step.where.sql(self.columns) if step.where else None)
            return None
        match step.kind:
            case "append":
                assert step.rows is not None
                return self._append(step.rows, step.how)
            case "overwrite":
                assert step.rows is not None
                where = step.where.sql(self.columns) if step.where else None
                return rowlock.write(self.frame(step.rows), str(self.path), mode="overwrite", replace_where=where)
            case "optimize":
                table.optimize().executeCompaction()
            case "zorder":
                table.optimize().executeZOrderBy(self._identifier("k"))
            case "restore":
                head = self.version
                target = self.restorable + int(step.more[0] * (head - self.restorable))
                if target == head:
                    return None
                table.restoreToVersion(target)
                self.restored = target
            case "add column":
                table.addColumn(self.names["extra"], "INT")
                self.restorable = self.version
            case "rename column":
                table.renameColumn(self.names["s"], "renamed s")
                self.names["s"] = "renamed s"
                self.restorable = self.version
            case "add constraint":
                table.addConstraint("added", constraint(step).sql(self.columns))
                self.restorable = self.version
            case "set property":
                table.setProperties({"delta.logRetentionDuration": "interval 40 days"})
            case _:
                self._change(table, step)
        return table.lastReceipt

    restored: int | None = None
    """The version that a RESTORE has brought back."""

    def _identifier(self, role: str) -> str:
        """A column's name where no expression is expected: in back quotes only where it needs them."""
        name = self.names[role]
        return quoted(self.names)[role] if any(c in name for c in ".`") else name

    def _change(self, target: Any, step: Step) -> None:
        columns = self.columns
        where = step.where.sql(columns) if step.where else None
        match step.kind:
            case "update":
                target.update(where, {quoted(self.names)[r]: e.sql(columns) for r, e in step.sets})
            case "delete":
                target.delete(where)
            case "append":
                assert step.rows is not None
                target.append(self.frame(step.rows))
            case "merge":
                self._merge(target, step, columns)
            case _:
                raise AssertionError(step.kind)

    def _merge(self, target: Any, step: Step, columns: Mapping[str, str]) -> None:
        assert step.rows is not None and step.on is not None
        builder = target.alias("t").merge(self.source(step.rows).alias("s"), step.on.sql(columns))
        names = quoted(self.names)
        for clause in step.clauses:
            condition = clause.condition.sql(columns) if clause.condition else None
            sets = None if clause.sets is None else {names[r]: e.sql(columns) for r, e in clause.sets}
            match clause.when, clause.action:
                case "matched", "delete":
                    builder = builder.whenMatchedDelete(condition)
                case "matched", "update":
                    builder = builder.whenMatchedUpdate(condition, set=sets)
                case "not matched", _:
                    builder = builder.whenNotMatchedInsertAll(condition) if sets is None else builder.whenNotMatchedInsert(condition, values=sets)
                case "not matched by source", "delete":
                    builder = builder.whenNotMatchedBySourceDelete(condition)
                case _:
                    builder = builder.whenNotMatchedBySourceUpdate(condition, set=sets)
        builder.execute()

    # ---- appends of every engine -----------------------------------------------------------

    def _append(self, rows: pa.Table, how: str) -> Receipt | None:
        features = self._features()
        if how == "arrow" and (self.table.generated or any(k.startswith("delta.constraints.") for k in features)):
            how = "spark"
        if how == "deltalake" and not self._deltalake_can(features):
            how = "hand"
        if how == "hand" and not self._hand_can(features):
            how = "spark"
        self.reached.append(f"append {how}")
        if how == "arrow":
            return rowlock.append(str(self.path), self._named(rows))
        if how == "spark":
            return rowlock.write(self.frame(rows), str(self.path))
        if how == "deltalake":
            import deltalake

            deltalake.write_deltalake(str(self.path), self._named(rows), mode="append")
        else:
            self._append_by_hand(rows)
        return None

    def _features(self) -> dict[str, str]:
        return dict(state_of(open_store(str(self.path))).refresh().metadata.configuration)

    def _plain(self, features: Mapping[str, str]) -> bool:
        """Whether an engine that knows neither constraints nor row ids nor mapped columns may append."""
        return not (
            self.table.generated
            or self.table.not_null
            or any(k.startswith("delta.constraints.") for k in features)
            or features.get("delta.enableRowTracking") == "true"
            or "delta.columnMapping.mode" in features
        )

    def _deltalake_can(self, features: Mapping[str, str]) -> bool:
        times = [self.roles[r] for r in self.roles if self.roles[r] in ("timestamp", "timestamp_ntz", "date")]
        return self._plain(features) and not times and "map" not in self.roles.values()

    def _hand_can(self, features: Mapping[str, str]) -> bool:
        return self._plain(features) and not self.table.partition

    def _append_by_hand(self, rows: pa.Table) -> None:
        """A commit as another engine might make it: columns in capitals where a case has twins, statistics or none."""
        name = f"{self._rng.choice(('part', 'a b', 'ключ'))}-{uuid.UUID(int=self._rng.getrandbits(128))}.parquet"
        pq.write_table(self._named(rows, twin=self._has_twins), self.path / name, use_deprecated_int96_timestamps=False)
        from urllib.parse import quote

        add = {
            "path": quote(name),
            "partitionValues": {},
            "size": (self.path / name).stat().st_size,
            "modificationTime": int(time.time() * 1000),
            "dataChange": True,
        }
        if self._rng.random() < 0.5:
            add["stats"] = json.dumps({"numRecords": rows.num_rows})
        info = {
            "timestamp": int(time.time() * 1000),
            "operation": "WRITE",
            "operationParameters": {"mode": "Append"},
            "isBlindAppend": True,
            "engineInfo": "by hand",
        }
        commit = self.path / "_delta_log" / f"{self.version + 1:020}.json"
        with commit.open("x") as out:
            out.write(json.dumps({"commitInfo": info}) + "\n" + json.dumps({"add": add}) + "\n")
