"""The world of schedules on Spark: the same scripts through the DeltaTable API, on a local disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, DataType, IntegerType, LongType, StringType, StructField, StructType

import rowlock
from rowlock.api.handle import Handle
from rowlock.boundary.engine import Engine
from rowlock.log.table_log import TableLog
from rowlock.protocol.schema import PrimitiveType
from rowlock.storage.open import open_store
from rowlock.transaction.state.receipt import Receipt
from rowlock.transaction.state.shared import state_of
from rowlock.transaction.transaction import Table
from rowlock_simulation.memory.sql.script import Append, Clause, Delete, Literals, Merge, Optimize, Overwrite, Script, Update

_TYPES: dict[str, DataType] = {"long": LongType(), "integer": IntegerType(), "string": StringType(), "boolean": BooleanType()}


class OnSpark:
    """One table in a folder."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark, self._path = spark, str(path)
        self.state = state_of(open_store(self._path))

    def create(self, schema_string: str, partition: tuple[str, ...], properties: dict[str, str]) -> None:
        Table(TableLog(self.state.store), None, state=self.state).create(schema_string, partition, properties)  # type: ignore[arg-type]

    @property
    def engine(self) -> Engine:
        return Handle(self._spark, self._path).table.engine

    def rows(self) -> list[dict[str, Any]]:
        return [row.asDict() for row in rowlock.read(self._spark, self._path).collect()]

    def run(self, script: Script) -> Receipt:
        match script:
            case Append(rows):
                return rowlock.write(self._frame(None, rows), self._path, mode="append")
            case Overwrite(rows, where):
                return rowlock.write(self._frame(None, rows), self._path, mode="overwrite", replace_where=where)
        table = rowlock.DeltaTable.forPath(self._spark, self._path)
        if isinstance(script, Optimize):
            table.optimize().executeCompaction()
        else:
            change(table, script, self._frame)
        assert table.lastReceipt is not None
        return table.lastReceipt

    def restore(self, version: int) -> Receipt:
        table = rowlock.DeltaTable.forPath(self._spark, self._path)
        table.restoreToVersion(version)
        assert table.lastReceipt is not None
        return table.lastReceipt

    def run_together(self, scripts: Sequence[Script], **knobs: str) -> Receipt:
        """Several statements in one transaction."""
        with rowlock.DeltaTable.forPath(self._spark, self._path).transaction(**knobs) as txn:
            for script in scripts:
                change(txn, script, self._frame)
        assert txn.receipt is not None
        return txn.receipt

    def _columns(self) -> tuple[str, ...]:
        return self.state.refresh().schema.names

    def _frame(self, columns: tuple[str, ...] | None, rows: tuple[Literals, ...]) -> DataFrame:
        """Literal rows under the types of the table's columns, in one partition, so that an append is one file."""
        fields = []
        for name in columns or self._columns():
            field = self.state.refresh().schema.find(name)
            assert field is not None and isinstance(field.type, PrimitiveType)
            fields.append(StructField(name, _TYPES[field.type.name]))
        return self._spark.createDataFrame([tuple(r) for r in rows], StructType(fields)).coalesce(1)


def change(target: Any, script: Script, frame: Callable[[tuple[str, ...] | None, tuple[Literals, ...]], DataFrame]) -> None:
    """A statement through a table or through an open transaction; `frame` makes rows under columns (None: the table's)."""
    match script:
        case Update(assignments, where):
            target.update(where, dict(assignments))
        case Delete(where):
            target.delete(where)
        case Merge():
            builder = target.alias("t").merge(frame(script.columns, script.rows).alias("s"), script.on)
            for clause in script.clauses:
                builder = _add(builder, clause)
            builder.execute()
        case Append(rows):
            target.append(frame(None, rows))
        case Overwrite(rows, where):
            target.overwrite(frame(None, rows), replace_where=where)


def _add(builder: Any, clause: Clause) -> Any:
    """The builder with one more clause."""
    values, condition = dict(clause.assignments), clause.condition
    match clause.when, clause.action:
        case "matched", "delete":
            return builder.whenMatchedDelete(condition)
        case "matched", "update":
            return builder.whenMatchedUpdate(condition, set=values)
        case "matched", "update all":
            return builder.whenMatchedUpdateAll(condition)
        case "not matched", "insert":
            return builder.whenNotMatchedInsert(condition, values=values)
        case "not matched", "insert all":
            return builder.whenNotMatchedInsertAll(condition)
        case "not matched by source", "delete":
            return builder.whenNotMatchedBySourceDelete(condition)
        case _:
            return builder.whenNotMatchedBySourceUpdate(condition, set=values)
