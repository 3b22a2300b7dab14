"""Whether two sets of slices hold the same rows: what tells a move from a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rowlock.conflict.delta import Slice
from rowlock.limits import limits
from rowlock.log.snapshot import Snapshot
from rowlock.spark.plane import Plane

Side = tuple[Sequence[Slice], Snapshot]
_ROW, _SIGN = "__rowlock_row", "__rowlock_sign"


def differing_rows(plane: Plane, old: Side, new: Side, limit: int) -> list[dict[str, Any]]:
    """Up to `limit` rows that one side has more often than the other."""
    if (held := _held(plane, old)) is not None and (other := _held(plane, new)) is not None:
        a, b = _bag(held), _bag(other)
        rows = {**a, **b}
        odd = (Counter({k: n for k, (n, _) in a.items()}), Counter({k: n for k, (n, _) in b.items()}))
        return [rows[k][1] for k in ((odd[0] - odd[1]) + (odd[1] - odd[0])).elements()][:limit]
    parts = [_signed(plane, side, sign) for side, sign in ((old, 1), (new, -1)) if side[0]]
    both = parts[0].unionAll(parts[1]) if len(parts) == 2 else parts[0]
    found = both.groupBy(_ROW).agg(F.sum(_SIGN).alias("n")).where("n != 0").limit(limit).collect()
    return [dict(orjson.loads(row[_ROW])) for row in found]


def _held(plane: Plane, side: Side) -> pa.Table | None:
    """The rows on the driver, where they are few."""
    slices, snapshot = side
    if sum(len(s.only) if s.only is not None else plane.num_rows(s.file) for s in slices) > limits().local_rows:
        return None
    parts = [plane.rows.read_slice(s, snapshot) for s in slices]
    tables = [p[0] for p in parts if p is not None]
    if len(tables) < len(parts):
        return None
    return pa.concat_tables(tables) if tables else pa.table({})


def _bag(table: pa.Table) -> dict[str, tuple[int, dict[str, Any]]]:
    out: dict[str, tuple[int, dict[str, Any]]] = {}
    for row in table.to_pylist():
        key = repr(row)
        out[key] = (out[key][0] + 1 if key in out else 1, row)
    return out


def _signed(plane: Plane, side: Side, sign: int) -> DataFrame:
    """Each row as JSON, which compares whatever the columns' types are, with +1 or -1."""
    slices, snapshot = side
    dead = {s.path: plane.dead(s) for s in slices}
    frame = plane.scanner.frame(snapshot, [s.file for s in slices], lambda f: dead[f.path])
    return frame.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias(_ROW), F.lit(sign).alias(_SIGN))
