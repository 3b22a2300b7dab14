"""Columns that the log says are generated, or numbered, of a table whose protocol lists no such feature: as delta-spark has it, they are as any others."""

from __future__ import annotations

from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rowlock
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.maintenance.check.run import check
from rowlock.protocol.actions import Protocol
from rowlock.protocol.column_values import generated_columns, is_identity
from rowlock.storage.local import LocalStore
from rowlock.transaction.definition import creation, table_features
from rowlock.transaction.state.shared import state_of

GENERATED = {"delta.generationExpression": "a + 1"}
IDENTITY = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": 4, "delta.identity.allowExplicitInsert": False}


def table(place: Path, of_b: dict[str, object]) -> TableLog:
    """A table of protocol (1, 2), as a writer makes it that passes on what columns of another table have in their metadata."""
    rowlock.append(place, pa.table({"a": [1], "b": [1]}), properties={"delta.enableDeletionVectors": "false", "delta.checkpointInterval": "4"})
    commit = place / "_delta_log" / f"{0:020}.json"
    actions = [orjson.loads(line) for line in commit.read_bytes().splitlines()]
    for action in actions:
        if "metaData" in action:
            schema = orjson.loads(action["metaData"]["schemaString"])
            schema["fields"][1]["metadata"] = of_b
            action["metaData"]["schemaString"] = orjson.dumps(schema).decode()
    commit.write_bytes(b"".join(orjson.dumps(action) + b"\n" for action in actions))
    return TableLog(LocalStore(place))


def computed(snapshot: Snapshot) -> list[str]:
    return [*(g.name for g in generated_columns(snapshot.schema)), *(f.name for f in snapshot.schema.fields if is_identity(f))]


@pytest.mark.parametrize("of_b", [GENERATED, IDENTITY], ids=["generated", "identity"])
def test_they_are_as_any_others_and_the_next_change_leaves_that_out(of_b: dict[str, object], tmp_path: Path) -> None:
    """Such a table could not be written."""
    log = table(tmp_path, of_b)
    for n in range(2, 6):
        rowlock.append(tmp_path, pa.table({"a": [n], "b": [9]}))
    assert computed(log.latest()) == [] and not check(log.store, deep=True).findings
    held = pq.read_table(tmp_path / "_delta_log" / f"{4:020}.checkpoint.parquet")["metaData"].to_pylist()
    assert [next(iter(of_b)) in m["schemaString"] for m in held if m] == [True], "other engines see what was there"
    creation.set_properties(state_of(log.store), {"delta.minWriterVersion": "6"})
    for seen in (log.latest(), TableLog(log.store).latest()):
        assert seen.protocol == Protocol(1, 6) and computed(seen) == [] and "delta.g" not in seen.logged.schema_string
    assert rowlock.to_arrow(tmp_path)["b"].to_pylist() == [1, 9, 9, 9, 9]


@pytest.mark.parametrize(("of_b", "feature"), [(GENERATED, "generatedColumns"), (IDENTITY, "identityColumns")], ids=["generated", "identity"])
def test_a_protocol_that_lists_the_feature_from_now_on_puts_them_in_force(of_b: dict[str, object], feature: str, tmp_path: Path) -> None:
    """Also for who has the table open: what its metadata says counts from then on, as for other engines."""
    log = table(tmp_path, of_b)
    before = log.latest()
    table_features.add_feature(state_of(log.store), feature)
    assert computed(before) == []
    assert computed(log.latest()) == computed(TableLog(log.store).latest()) == ["b"]
