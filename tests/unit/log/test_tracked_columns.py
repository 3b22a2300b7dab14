"""The log of a stream's columns, read without Spark: what delta-spark has kept there means what the table's own log means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from model.schedules.in_memory import InMemory
from model.schedules.play import schema_string
from rowlock.api.stream_source.tracking import Tracked, TrackingLog
from rowlock.exceptions import InvalidInput
from rowlock.log.snapshot import Snapshot
from rowlock.log.table_log import TableLog
from rowlock.storage import MemoryStore


class Files:
    """The numbered files of a folder, in memory."""

    folder = "checkpoint/_schema_log"

    def __init__(self, *held: bytes) -> None:
        self.held = held

    def last(self) -> int:
        return len(self.held) - 1

    def read(self, number: int) -> bytes:
        return self.held[number]


def table() -> Snapshot:
    world = InMemory()
    world.create(schema_string([("k", "long", True)]), (), {})
    return world.state.refresh()


def kept(entry: Tracked, **changes: Any) -> Files:
    form, _, text = entry.text().partition(b"\n")
    return Files(form + b"\n" + orjson.dumps({**orjson.loads(text), **changes}))


def test_names_that_column_mapping_left_mean_nothing_without_it() -> None:
    """I3: a stream read every column under the name that it has in no file, and gave nulls."""
    snapshot = table()
    left = orjson.loads(snapshot.metadata.schema_string)
    left["fields"][0]["metadata"] = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    entry = Tracked(0, replace(snapshot.metadata, schema_string=orjson.dumps(left).decode()), snapshot.protocol, "there", None)
    (field,) = TrackingLog(kept(entry), snapshot).current.of(snapshot).schema.fields  # type: ignore[arg-type, union-attr]
    assert (field.name, field.physical_name, field.column_id) == ("k", "k", None)
    mapped = {"delta.columnMapping.mode": "name"}
    (field,) = TrackingLog(kept(entry, tableConfigurations=mapped), snapshot).current.of(snapshot).schema.fields  # type: ignore[arg-type, union-attr]
    assert (field.physical_name, field.column_id) == ("col-1", 1)


@pytest.mark.parametrize("changes", [{"tableConfigurations": [1]}, {"partitionSchemaJson": "{}"}, {"deltaCommitVersion": None}])
def test_what_is_no_entry_is_named(changes: dict[str, Any]) -> None:
    snapshot = table()
    entry = Tracked(0, snapshot.metadata, snapshot.protocol, "there", None)
    with pytest.raises(InvalidInput, match=r"_schema_log/0 is no entry of a stream's schema log"):
        TrackingLog(kept(entry, **changes), snapshot)  # type: ignore[arg-type]


def test_an_entry_outlives_the_commit_that_it_is_of() -> None:
    """A query whose table's log was cleaned up since its columns last changed could not be started again."""
    snapshot = table()
    log = TrackingLog(kept(Tracked(0, snapshot.metadata, snapshot.protocol, "there", None)), snapshot)  # type: ignore[arg-type]
    log.merge(TableLog(MemoryStore()), 3)
    assert log.current is not None and log.current.version == 0
