"""Checkpoints with statistics and partition values as typed structs: they say what the JSON says, for whoever reads them (I3, I9)."""

from __future__ import annotations

import datetime as dt
import io
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rowlock
from rowlock.limits import limited
from rowlock.log import checkpoint_structs, frames
from rowlock.log.table_log import TableLog
from rowlock.storage.open import open_store

STRUCT, NO_JSON = "delta.checkpoint.writeStatsAsStruct", "delta.checkpoint.writeStatsAsJson"


def rows(n: int) -> pa.Table:
    """Five rows of all types that have bounds, and of some that have none."""
    day, time = dt.date(2020, 1, 1 + n), dt.datetime(2020, 1, 1, 0, 0, n, 123456)
    return pa.table(
        {
            "p": pa.array([day, None, day, day, day]),
            "q": pa.array(["a b", "ü", None, "a b", "x=y"]),
            "i": pa.array([n, n + 1, None, 3, 4], pa.int16()),
            "l": pa.array([n << 40] * 5),
            "d": pa.array([Decimal("1.50"), None, Decimal(n), Decimal(0), Decimal(-n)], pa.decimal128(12, 2)),
            "f": pa.array([0.1, n, None, -1.5, 1e10], pa.float32()),
            "s": pa.array(["x" * 50, "\U0010ffff", None, "", "ß"]),
            "t": pa.array([time] * 5, pa.timestamp("us", "UTC")),
            "day": pa.array([day, None, None, None, day]),
            "flag": [True, False, None, True, True],
            "raw": pa.array([b"1", None, b"", b"2", b"3"]),
            "inner": pa.array([{"a": n, "b": {"c": day}}, None, {"a": None, "b": None}, {"a": 1, "b": {"c": None}}, None]),
            "list": pa.array([[1], None, [], [2], [3]]),
        }
    )


def held(path: Path) -> list[dict[str, Any]]:
    """The add actions in the files of checkpoints."""
    log = path / "_delta_log"
    files = sorted([*log.glob("*.checkpoint*.parquet"), *log.glob("_sidecars/*.parquet")])
    rows = [row["add"] for file in files for row in pq.read_table(io.BytesIO(file.read_bytes())).to_pylist()]
    return [add for add in rows if add is not None and add["path"] is not None]


def meaning(value: Any, name: str = "") -> Any:
    """Statistics without what says nothing, with times as moments, and with single floats as they are compared."""
    if isinstance(value, dict):
        return {k: found for k, v in value.items() if (found := meaning(v, k)) not in (None, {})}
    return dt.datetime.fromisoformat(value) if name == "t" and isinstance(value, str) else pytest.approx(value) if isinstance(value, float) else value


def statistics(text: str | None) -> Any:
    return meaning(orjson.loads(text or "{}"))


@pytest.mark.parametrize("large", [False, True], ids=["few files", "as of many files"])
@pytest.mark.parametrize(("json", "policy"), [(True, "classic"), (False, "classic"), (False, "v2")])
def test_they_say_what_the_json_says(tmp_path: Path, json: bool, policy: str, large: bool) -> None:
    """A reader who has the checkpoint alone knows the same of each file, ours as deltalake."""
    path, store = tmp_path / "table", open_store(tmp_path / "table")
    with limited(snapshot_chunk_files=3, changed_files=0) if large else limited():
        asked = {STRUCT: "true", NO_JSON: str(json).lower(), "delta.checkpointPolicy": policy, "delta.enableDeletionVectors": "false"}
        rowlock.append(path, rows(0), partition_by=["p", "q"], properties=asked)
        for n in range(1, 4):
            rowlock.append(path, rows(n))
        before = TableLog(store).latest()
        TableLog(store).write_checkpoint(before)
        for version in range(before.version):
            (path / "_delta_log" / f"{version:020}.json").unlink()
        after = TableLog(store).latest()
        found = {f.path: f for f in after.files.adds()}
    assert len(found) == 4 * 4 and all(bool(add.get("stats")) is json for add in held(path))
    for add in before.files.adds():
        assert statistics(found[add.path].stats) == statistics(add.stats) and found[add.path].partition_values == add.partition_values
    parsed = [add["partitionValues_parsed"] for add in held(path)]
    assert {(v["p"], v["q"]) for v in parsed} == set(zip(*(pa.concat_tables([rows(n) for n in range(4)])[c].to_pylist() for c in "pq"), strict=True))
    assert dt.date(2020, 1, 2) in {add["stats_parsed"]["maxValues"]["day"] for add in held(path)}
    if policy == "classic":
        assert deltalake.DeltaTable(str(path)).to_pyarrow_table(filters=[("q", "=", "x=y"), ("l", ">", 0)], columns=["l"]).num_rows == 3
    assert rowlock.to_arrow(path).num_rows == 20


@pytest.mark.parametrize("odd", ['{"numRecords":1,"minValues":{"k":"NaN"}}', '{"numRecords":1,"minValues":{"k":1e400}}', '{"numRecords":'])
def test_statistics_that_are_no_values_of_their_columns_stay_json(tmp_path: Path, odd: str) -> None:
    path, store = tmp_path / "table", open_store(tmp_path / "table")
    rowlock.append(path, pa.table({"k": [0.5]}), properties={STRUCT: "true", NO_JSON: "false"})
    snapshot = TableLog(store).latest()
    (add,) = snapshot.files.adds()
    parts = [frames.from_adds([add]), frames.from_adds([replace(add, path="other.parquet", stats=odd)])]
    assert checkpoint_structs.typed_columns(parts, snapshot) == [{}, {}] != checkpoint_structs.typed_columns(parts[:1], snapshot)


def test_a_table_that_wants_neither_keeps_its_statistics(tmp_path: Path) -> None:
    rowlock.append(tmp_path / "table", pa.table({"k": [1]}), properties={NO_JSON: "false", "delta.checkpointInterval": "1"})
    rowlock.append(tmp_path / "table", pa.table({"k": [2]}))
    assert [add["stats"] is not None and "stats_parsed" not in add for add in held(tmp_path / "table")] == [True, True]
