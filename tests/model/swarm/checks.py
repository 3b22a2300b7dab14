"""What must be true of every version that a case makes (I4, I5, I6, I9), found with the second reader."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from model.swarm.bags import bag, difference, plain
from model.swarm.physical import Reader, Version, time_of


def rows_are(reader: Reader, version: Version, names: Mapping[str, str], wanted: pa.Table) -> None:
    """The rows of a version, its partition columns among them."""
    found, right = reader.bag(version, names), bag(wanted, [r for r in reader.roles if r in wanted.column_names])
    assert found == right, f"the files of version {version.number} hold other rows: {difference(found, right, wanted.column_names)}"


def statistics_are_true(reader: Reader, version: Version) -> None:
    """Every bound and count of the files that a commit added, against the files themselves, dead rows included."""
    if str(version.info.get("engineInfo", "")).startswith("delta-rs"):
        reader.rounded |= {add["path"] for add in version.adds}
    for add in version.adds:
        if add.get("stats"):
            _check_file(
                reader.physical(add),
                json.loads(add["stats"], parse_float=decimal.Decimal),
                f"version {version.number}, {add['path']}",
                add["path"] in reader.rounded,
            )


def _check_file(file: pa.Table, stats: dict[str, Any], where: str, rounds: bool) -> None:
    """`rounds`: the file's writer computes bounds of decimals as floats, cuts them to 64 bits, and leaves NaN out; readers must know."""
    if "numRecords" in stats:
        assert stats["numRecords"] == file.num_rows, f"{where}: numRecords is {stats['numRecords']}, the file has {file.num_rows} rows"
    for bound in ("minValues", "maxValues", "nullCount"):
        for path, value in _leaves(stats.get(bound, {})):
            column = None if value is None else _leaf(file, path)  # null says nothing
            if column is not None and not (rounds and bound != "nullCount" and pa.types.is_decimal(column.type)):
                _check_bound(column, bound, value, f"{where}: {bound} of {path} is {value!r}", rounds)


def _leaves(found: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    out: list[tuple[tuple[str, ...], Any]] = []
    for name, value in found.items():
        out += _leaves(value, (*path, name)) if isinstance(value, dict) else [((*path, name), value)]
    return out


def _leaf(file: pa.Table, path: tuple[str, ...]) -> pa.ChunkedArray | None:
    """The column of a path, by exact names, else without case; None where the file lacks it."""
    names = [n for n in file.column_names if n == path[0]] or [n for n in file.column_names if n.lower() == path[0].lower()]
    if not names:
        return None
    column = file.column(names[0])
    for name in path[1:]:
        fields = [f.name for f in column.type] if pa.types.is_struct(column.type) else []
        if not (found := [f for f in fields if f == name] or [f for f in fields if f.lower() == name.lower()]):
            return None
        column = pc.struct_field(column, [found[0]])
    return column


def _check_bound(column: pa.ChunkedArray, bound: str, value: Any, said: str, rounds: bool) -> None:
    if bound == "nullCount":
        assert value == column.null_count, f"{said}, the file has {column.null_count}"
        return
    held = [v for v in plain(column) if v is not None]
    kind = column.type
    for v in held:
        if pa.types.is_timestamp(kind):
            limit, v = time_of(value, "timestamp"), v // 1000 * 1000 if bound == "maxValues" else v  # others cut a maximum to the millisecond
        elif pa.types.is_date(kind):
            limit = time_of(value, "date")
        elif pa.types.is_floating(kind):
            if v == "NaN":
                assert bound == "minValues" or rounds, f"{said}, the file has NaN"
                continue
            limit, v = float(np.float32(value) if pa.types.is_float32(kind) else value), float(v)  # a float's short text is not it
        elif pa.types.is_string(kind):
            limit = value
        else:
            limit = value
        good = v >= limit if bound == "minValues" else v <= limit
        assert good, f"{said}, the file has {v!r}"


def ids_are_kept(reader: Reader, version: Version, names: Mapping[str, str], known: dict[Any, int]) -> None:
    """Each row has one id for its life, and no two rows ever have the same (I6).  `known` remembers."""
    found = reader.row_ids(version, names)
    ids = Counter(row_id for _, row_id in found)
    assert max(ids.values(), default=1) == 1, f"version {version.number}: a row id twice: {[i for i, n in ids.items() if n > 1][:3]}"
    for rid, row_id in found:
        assert known.setdefault(rid, row_id) == row_id, f"version {version.number}: row {rid} had the id {known[rid]} and has {row_id} now"
    owners = Counter(known.values())
    assert max(owners.values(), default=1) == 1, f"version {version.number}: an id was given again: {[i for i, n in owners.items() if n > 1][:3]}"


def feed_is_difference(reader: Reader, version: Version, names: Mapping[str, str], before: pa.Table, after: pa.Table) -> None:
    """The change data of a commit, from its files of changes or else from its adds and removes, is the net difference of the rows."""
    roles = [r for r in reader.roles if r in after.column_names and r in before.column_names]
    if len(roles) < len(after.column_names):
        return
    found: Counter[Any] = Counter()
    if version.cdc:
        for action in version.cdc:
            rows = reader.logical(action, version, names)
            kinds = _change_types(reader, action)
            lines = list(zip(*(plain(rows.column(r)) for r in roles), strict=True))
            for change, row in zip(kinds, lines, strict=True):
                found[row] += {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}[change]
    else:
        for sign, actions in ((1, version.adds), (-1, version.removes)):
            for action in actions:
                if action["dataChange"]:
                    live = reader.live(action, version, names)
                    for row, count in bag(live, roles).items():
                        found[row] += sign * count
    wanted: Counter[Any] = Counter(bag(after, roles))
    wanted.subtract(bag(before, roles))
    left = {r: n for r, n in found.items() if n}
    right = {r: n for r, n in wanted.items() if n}
    assert left == right, (
        f"version {version.number}: the change data is not the difference: {dict(list(left.items() - right.items())[:3])} where {dict(list(right.items() - left.items())[:3])} is right"
    )


def _change_types(reader: Reader, action: dict[str, Any]) -> list[str]:
    from urllib.parse import unquote

    if "_change_type" in action["partitionValues"]:
        return [action["partitionValues"]["_change_type"]] * reader.physical(action).num_rows
    return list(pq.ParquetFile(reader.root / unquote(action["path"])).read(columns=["_change_type"]).column(0).to_pylist())


def is_sound(path: str) -> None:
    """`rowlock check` finds nothing that is certainly wrong."""
    from rowlock.maintenance.check.run import check
    from rowlock.storage.open import open_store

    report = check(open_store(path), commits=1000, files=1000, footers=200)
    assert report.is_sound, "; ".join(f"{f.code}: {f.text}" for f in report.findings if f.level in ("damage", "danger"))


__all__ = ["dt", "feed_is_difference", "ids_are_kept", "is_sound", "rows_are", "statistics_are_true"]
