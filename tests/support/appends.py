"""What the tests of Spark-free appends share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

import rowlock
from rowlock.api.append import opened
from rowlock.protocol.actions import Commit
from rowlock.protocol.schema import StructField, StructType, schema_json
from rowlock.transaction.definition import creation
from rowlock.transaction.state.shared import SharedState


def create(path: str, *fields: StructField, partition_by: tuple[str, ...] = (), properties: dict[str, str] | None = None) -> SharedState:
    """An empty table with these columns."""
    state = opened(path)
    creation.create(state, schema_json(StructType(fields)), partition_by, properties or {})
    return state


def rows(path: str, **options: Any) -> list[tuple[Any, ...]]:
    """The table's rows by `to_arrow`, sorted."""
    table = rowlock.to_arrow(path, **options)
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=repr)


def data_files(path: str) -> set[str]:
    """What lies in the table's folder beside its log."""
    return {p.relative_to(path).as_posix() for p in Path(path).rglob("*.parquet") if "_delta_log" not in p.parts}


def commit(path: str, version: int) -> Commit:
    """The commit of a version as it is in the log."""
    found = opened(path).log.read_commit(version)
    assert found is not None
    return found


def info(path: str, version: int) -> dict[str, Any]:
    """commitInfo of a version."""
    first = (Path(path) / "_delta_log" / f"{version:020}.json").read_bytes().split(b"\n")[0]
    return dict(orjson.loads(first)["commitInfo"])


def numbers(*values: int | None) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})
