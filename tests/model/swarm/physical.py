"""A second reader of tables: the log's JSON and the files' Parquet, by pyarrow alone.  It knows nothing of Rowlock and is in no hurry."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import re
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import UUID
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap, BitMap64

from model.swarm.bags import rows_of
from model.swarm.values import KINDS, array

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TIME = re.compile(r"(-?\+?\d{4,6})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d(?::\d\d)?)?$")


@dataclass
class Version:
    """A version of the log: its live files by path, its schema, and what its commit did."""

    number: int
    files: dict[str, dict[str, Any]]
    fields: list[dict[str, Any]]
    properties: dict[str, str]
    info: dict[str, Any] = field(default_factory=dict)
    adds: list[dict[str, Any]] = field(default_factory=list)
    removes: list[dict[str, Any]] = field(default_factory=list)
    cdc: list[dict[str, Any]] = field(default_factory=list)


def versions(root: Path, known: Version | None = None) -> Iterable[Version]:
    """The versions after `known`, each from the one before and its commit."""
    number = known.number + 1 if known else 0
    files, fields, properties = (dict(known.files), known.fields, known.properties) if known else ({}, [], {})
    while (commit := root / "_delta_log" / f"{number:020}.json").exists():
        out = Version(number, files, fields, properties)
        for line in commit.read_text(encoding="utf-8").splitlines():
            for kind, action in json.loads(line, parse_float=decimal.Decimal).items() if line.strip() else ():
                if kind == "metaData":
                    fields, properties = json.loads(action["schemaString"])["fields"], action["configuration"]
                elif kind == "remove":
                    out.removes.append(files.pop(action["path"]) | {"dataChange": action["dataChange"]})
                elif kind == "commitInfo":
                    out.info = action
                elif kind in ("add", "cdc"):
                    (out.adds if kind == "add" else out.cdc).append(action)
        files = files | {a["path"]: a for a in out.adds}
        out.files, out.fields, out.properties = dict(files), fields, properties
        yield out
        number += 1


class Reader:
    """Reads the files of one table; keeps what it read, for a file never changes."""

    def __init__(self, root: Path, roles: Mapping[str, str], zone: str) -> None:
        self.root, self.roles, self._zone = root, roles, zone
        self._kept: dict[str, pa.Table] = {}
        self.rounded: set[str] = set()
        """Files of a writer that computes bounds of decimals as floats; whoever changes them later keeps these bounds."""

    def physical(self, add: dict[str, Any]) -> pa.Table:
        path = unquote(add["path"])
        if path not in self._kept:
            self._kept[path] = pq.ParquetFile(self.root / path, coerce_int96_timestamp_unit="us").read()
        return self._kept[path]

    def dead(self, add: dict[str, Any]) -> BitMap64:
        vector = add.get("deletionVector")
        if vector is None:
            return BitMap64()
        text = vector["pathOrInlineDv"]
        if vector["storageType"] == "i":
            return _bitmap(_z85(text)[: vector["sizeInBytes"]])
        folder, name = text[:-20], text[-20:]
        body = (self.root / folder / f"deletion_vector_{UUID(bytes=_z85(name))}.bin").read_bytes()
        (size,) = struct.unpack_from(">i", body, vector["offset"])
        return _bitmap(body[vector["offset"] + 4 : vector["offset"] + 4 + size])

    def logical(self, add: dict[str, Any], version: Version, names: Mapping[str, str]) -> pa.Table:
        """All rows of a file, dead ones too, by role; the columns of the table's folders from the log."""
        file, columns = self.physical(add), {}
        by_name = {f["name"]: f for f in version.fields}
        for role, kind in self.roles.items():
            if names[role] not in by_name:
                continue
            stored = (
                by_name[names[role]]["metadata"].get("delta.columnMapping.physicalName", names[role])
                if version.properties.get("delta.columnMapping.mode", "none") != "none"
                else names[role]
            )
            if stored in add["partitionValues"]:
                columns[role] = array(KINDS[kind], [parse(add["partitionValues"][stored], kind, self._zone)] * file.num_rows)
            else:
                columns[role] = _column(file, stored, KINDS[kind].arrow, by_name[names[role]])
        return pa.table(columns)

    def live(self, add: dict[str, Any], version: Version, names: Mapping[str, str]) -> pa.Table:
        rows = self.logical(add, version, names)
        dead = self.dead(add)
        return rows.filter(pa.array([n not in dead for n in range(rows.num_rows)], pa.bool_())) if dead else rows

    def bag(self, version: Version, names: Mapping[str, str]) -> Counter[tuple[Any, ...]]:
        out: Counter[tuple[Any, ...]] = Counter()
        for add in version.files.values():
            rows = self.live(add, version, names)
            out.update(rows_of(rows, [r for r in self.roles if r in rows.column_names]))
        return out

    def row_ids(self, version: Version, names: Mapping[str, str]) -> list[tuple[Any, int]]:
        """(rid, row id) of every live row of a table that tracks its rows."""
        kept, out = version.properties["delta.rowTracking.materializedRowIdColumnName"], []
        for add in version.files.values():
            file, dead, rids = self.physical(add), self.dead(add), self.logical(add, version, names).column("rid").to_pylist()
            own = file.column(kept).to_pylist() if kept in file.column_names else [None] * file.num_rows
            out += [(rid, add["baseRowId"] + n if of_row is None else of_row) for n, (rid, of_row) in enumerate(zip(rids, own, strict=True)) if n not in dead]
        return out


def _column(file: pa.Table, name: str, kind: pa.DataType, own: dict[str, Any]) -> pa.ChunkedArray:
    """A column by its exact name, else without regard to case; null where the file has none."""
    found = [n for n in file.column_names if n == name] or [n for n in file.column_names if n.lower() == name.lower()]
    if not found:
        return pa.chunked_array([pa.nulls(file.num_rows, kind)])
    assert len(found) == 1, f"{name} is ambiguous in {file.column_names}"
    return pa.chunked_array([_as(chunk, kind, own["type"]) for chunk in file.column(found[0]).chunks] or [pa.array([], kind)])


def _as(column: pa.Array, kind: pa.DataType, own: Any) -> pa.Array:
    if pa.types.is_struct(kind):
        names = {f["name"]: f["metadata"].get("delta.columnMapping.physicalName", f["name"]) for f in own["fields"]}
        parts = []
        for n in range(kind.num_fields):
            wanted = kind.field(n)
            stored = [m for m in range(column.type.num_fields) if column.type.field(m).name.lower() in (names[wanted.name].lower(), wanted.name.lower())]
            parts.append(column.flatten()[stored[0]].cast(wanted.type) if stored else pa.nulls(len(column), wanted.type))
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return pa.array(column.to_pylist(), kind)
    return column.cast(kind)


def parse(text: str | None, kind: str, zone: str) -> Any:
    """A partition value of the log, times as integers."""
    if text is None or text == "":
        return None
    if kind in ("string", "binary"):
        return text if kind == "string" else text.encode()
    if kind == "boolean":
        return {"true": True, "false": False}[text]
    if kind.startswith("decimal"):
        return decimal.Decimal(text)
    if kind in ("float", "double"):
        return float(text)
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return time_of(text, kind, zone)
    return int(text)


def time_of(text: str, kind: str, zone: str = "UTC") -> int:
    """Microseconds (of a date: days) since 1970 of the log's text; without an offset it is a wall time of `zone`."""
    match = _TIME.fullmatch(text)
    assert match, f"{text!r} is no {kind}"
    year, month, day, hour, minute, second = (int(match[n] or 0) for n in range(1, 7))
    shift, micros = 0, int((match[7] or "0").ljust(6, "0")[:6])
    if year > 9999:  # four hundred years are the same days again
        shift, year = divmod(year - 2000, 400)
        shift, year = shift * 146_097, year + 2000
    days = dt.date(year, month, day).toordinal() - dt.date(1970, 1, 1).toordinal() + shift
    if kind == "date":
        return days
    wall = ((days * 24 + hour) * 60 + minute) * 60 + second
    if kind == "timestamp" and not match[8]:
        wall -= int(dt.datetime(year, month, day, hour, minute, second, tzinfo=ZoneInfo(zone)).utcoffset().total_seconds())  # type: ignore[union-attr]
    elif match[8] not in (None, "Z"):
        wall -= (1 if match[8][0] == "+" else -1) * (int(match[8][1:3]) * 3600 + int(match[8][4:6]) * 60 + int(match[8][7:] or 0))
    return wall * 1_000_000 + micros


def _z85(text: str) -> bytes:
    return base64.b85decode(text.translate(str.maketrans(_Z85, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~")))


def _bitmap(data: bytes) -> BitMap64:
    (magic,) = struct.unpack_from("<i", data)
    if magic == 1681511377:
        return BitMap64.deserialize(data[4:])
    assert magic == 1681511376, magic
    at, out = 8, BitMap64()
    for high in range(struct.unpack_from("<i", data, 4)[0]):
        (size,) = struct.unpack_from("<i", data, at)
        out |= BitMap64((high << 32) + v for v in BitMap.deserialize(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return out
