"""Reads and writes the data files of the in-memory engine: small JSON objects in the table's store, with exact statistics.

A file holds its rows under physical column names, without the partition columns, and never changes once written; its rows
are read once and cached.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from rowlock import clock
from rowlock.boundary.row_identity import NONE, Identities, Materialized, Numbers, columns_of
from rowlock.conflict.change_feed import CHANGE_TYPE, FOLDER, ChangeType, cdc_action
from rowlock.exceptions import SchemaMismatch
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import partition_values, paths, statistics
from rowlock.protocol.actions import AddCdcFile, AddFile
from rowlock.protocol.row_tracking import MaterializedColumns
from rowlock.protocol.schema import PrimitiveType, StructType
from rowlock.storage.open import locate, missing_file
from rowlock.storage.store import NotFound, ObjectStore
from rowlock_simulation.memory.sql.expressions import Row, Value

_KINDS: dict[str, tuple[type, int]] = {"long": (int, 63), "integer": (int, 31), "short": (int, 15), "byte": (int, 7), "string": (str, 0), "boolean": (bool, 0)}
_CACHED_FILES = 10_000


def check_row(row: Row, schema: StructType) -> None:
    """Raises SchemaMismatch for a value that is not of its column's type; nulls are not checked here (see `engine.check_image`)."""
    for field in schema.fields:
        value = row[field.name]
        if value is None:
            continue
        kind, bits = _KINDS.get(field.type.name if isinstance(field.type, PrimitiveType) else "", (object, 0))
        if type(value) is not kind or (kind is int and not -(1 << bits) <= value < 1 << bits):  # type: ignore[operator]
            raise SchemaMismatch(f"{value!r} does not fit column {field.name!r}")


class DataFiles:
    """Reads and writes the data files of one table.  Thread-safe.  `opened` lists the paths of files in the order in which they were read."""

    def __init__(self, store: ObjectStore, *, rows_per_file: int = 1_000_000, within: str = "") -> None:
        self._store, self._rows_per_file, self._within = store, rows_per_file, within
        self._kept: dict[str, list[dict[str, Value]]] = {}
        self._lock = threading.Lock()
        self.opened: list[str] = []

    def rows(self, file: AddFile, schema: StructType) -> list[Row]:
        """All physical rows of a file under logical column names, with the partition columns."""
        stored = self._stored(file.path)
        constants = typed_partition(file.partition_values, schema)
        names = [(f.name, f.physical_name) for f in schema.fields]
        return [{name: constants[name] if name in constants else row.get(physical) for name, physical in names} for row in stored]

    def at(self, columns: MaterializedColumns) -> Materialized:
        """A function that reads the row ids and commit versions of rows from these columns of their file."""

        def found(file: AddFile, positions: Numbers) -> tuple[Numbers, Numbers]:
            stored = self._stored(file.path)
            ids, versions = (np.array([_number(stored[p].get(name)) for p in positions], dtype=np.int64) for name in columns.names)
            return ids, versions

        return found

    def count(self, file: AddFile) -> int:
        """The physical number of rows of a file."""
        return len(self._stored(file.path))

    def _stored(self, path: str) -> list[dict[str, Value]]:
        with self._lock:
            if (kept := self._kept.get(path)) is not None:
                return kept
            self.opened.append(path)
        try:
            store, key = locate(self._store, path)  # that of a shallow clone lies in another table's folder
            rows: list[dict[str, Value]] = orjson.loads(store.get(key))
        except NotFound as e:
            raise missing_file(self._store.root, path) from e
        with self._lock:
            if len(self._kept) >= _CACHED_FILES:
                self._kept.clear()
            self._kept[path] = rows
        return rows

    def write(self, rows: Sequence[Row], snapshot: Snapshot, kept: Identities | None = None) -> list[tuple[AddFile, list[int]]]:
        """Writes rows into new files, split by partition: (file, the numbers of its rows in the order of the file) for each.

        `kept`: the ids and commit versions that the rows keep, for tables that track rows.
        """
        more = _materialized(kept, columns_of(snapshot), len(rows))
        schema, columns = snapshot.schema, snapshot.metadata.partition_columns
        groups: dict[tuple[str | None, ...], list[int]] = {}
        for number, row in enumerate(rows):
            groups.setdefault(_partition_of(row, columns, schema), []).append(number)
        out = []
        for values, numbers in groups.items():
            for start in range(0, len(numbers), self._rows_per_file):
                part = numbers[start : start + self._rows_per_file]
                named = {f.physical_name: value for c, value in zip(columns, values, strict=True) if (f := schema.find(c)) is not None}
                out.append((self._write([rows[n] for n in part], named, snapshot, [more[n] for n in part]), part))
        return out

    def changes(self, path: str, partition: Mapping[str, str | None], schema: StructType) -> list[tuple[ChangeType, Row]]:
        """The changed rows in a file of the change data feed, each with its type of change."""
        values = typed_partition(partition, schema)
        return [(stored[CHANGE_TYPE], {**values, **{k: v for k, v in stored.items() if k != CHANGE_TYPE}}) for stored in self._stored(path)]  # type: ignore[misc]

    def write_changes(self, rows: Sequence[Row], change: ChangeType, snapshot: Snapshot) -> list[AddCdcFile]:
        """Writes changed rows of one type into files of the change data feed, one for each partition."""
        columns, groups = snapshot.metadata.partition_columns, dict[tuple[str | None, ...], list[Row]]()
        for row in rows:
            groups.setdefault(_partition_of(row, columns, snapshot.schema), []).append(row)
        more = {CHANGE_TYPE: change}
        return [cdc_action(self._write(part, dict(zip(columns, values, strict=True)), snapshot, [more] * len(part), FOLDER)) for values, part in groups.items()]

    def _write(
        self, rows: Sequence[Row], partition: Mapping[str, str | None], snapshot: Snapshot, more: Sequence[Mapping[str, Any]], within: str = ""
    ) -> AddFile:
        folder = "/".join(p for p in (within, paths.partition_directory(partition), self._within) if p)
        path = f"{folder}/part-{clock.new_id()}.json" if folder else f"part-{clock.new_id()}.json"
        names = [(f.name, f.physical_name) for f in snapshot.schema.fields if f.physical_name not in partition]
        stored = [{physical: row[name] for name, physical in names} for row in rows]
        body = orjson.dumps([{**row, **ids} for row, ids in zip(stored, more, strict=True)])
        self._store.put(path, body)
        return AddFile(path, partition, len(body), clock.now_ms(), True, statistics_of(stored, snapshot))


def _number(value: Any) -> int:
    return NONE if value is None else int(value)


def _materialized(kept: Identities | None, columns: MaterializedColumns | None, num_rows: int) -> list[dict[str, int]]:
    """The columns that a file holds for each row beside its values: its id and commit version, where it keeps any."""
    if kept is None or columns is None:
        return [{}] * num_rows
    both = zip(kept.ids.tolist(), kept.commit_versions.tolist(), strict=True)
    return [{name: n for name, n in zip(columns.names, pair, strict=True) if n != NONE} for pair in both]


def _partition_of(row: Row, columns: Iterable[str], schema: StructType) -> tuple[str | None, ...]:
    out = []
    for name in columns:
        field = schema.find(name)
        assert field is not None
        out.append(partition_values.serialize(row[field.name], field.type))
    return tuple(out)


def typed_partition(values: Mapping[str, str | None], schema: StructType) -> dict[str, Any]:
    """The partition values by logical column name, parsed to their types."""
    out = {}
    for name, text in values.items():
        field = next((f for f in schema.fields if f.physical_name == name), None)
        if field is not None:
            out[field.name] = partition_values.parse(text, field.type)
    return out


def statistics_of(rows: Sequence[Mapping[str, Value]], snapshot: Snapshot) -> str:
    """The statistics (JSON) of a file with these rows."""
    leaves = statistics.indexed_leaves(snapshot.schema, partition_columns=snapshot.metadata.partition_columns)
    values = {path: [value for row in rows if (value := row[path[0]]) is not None] for path, _ in leaves}
    bounds = {path: (min(values[path]), max(values[path])) for path, type_ in leaves if values[path] and statistics.has_bounds(type_)}
    nulls = {path: len(rows) - len(values[path]) for path, _ in leaves}
    return statistics.with_bounds(len(rows), leaves, bounds, nulls, snapshot.properties.stats_text_characters)
