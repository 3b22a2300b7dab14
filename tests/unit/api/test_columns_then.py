"""Rows of an earlier version are read under the columns of now only where their types can be (I9)."""

from __future__ import annotations

import orjson
import pytest

from rowlock.api.schema_compatibility import unreadable
from rowlock.log.table_log import TableLog
from rowlock.protocol.actions import CommitInfo, Metadata
from rowlock.protocol.commits import serialize_commit
from rowlock.protocol.features import protocol_for_new_table
from rowlock.storage import MemoryStore


def metadata(type_: object, *changes: dict[str, str]) -> Metadata:
    field = {"name": "v", "type": type_, "nullable": True, "metadata": {"delta.typeChanges": list(changes)} if changes else {}}
    return Metadata("table", orjson.dumps({"type": "struct", "fields": [field]}).decode(), (), {}, created_time_ms=1)


def array(element: str) -> dict[str, object]:
    return {"type": "array", "elementType": element, "containsNull": True}


INT_TO_LONG, SHORT_TO_INT = {"fromType": "integer", "toType": "long"}, {"fromType": "short", "toType": "integer"}


@pytest.mark.parametrize(
    ("then", "now", "changes", "readable"),
    [
        ("integer", "long", [INT_TO_LONG], True),
        ("long", "long", [INT_TO_LONG], True),
        ("short", "long", [SHORT_TO_INT, INT_TO_LONG], True),
        ("short", "long", [INT_TO_LONG], True),
        ("date", "long", [INT_TO_LONG], False),
        ("string", "long", [INT_TO_LONG], False),
        ("integer", "long", [], True),
        ("integer", "double", [], True),
        ("date", "timestamp_ntz", [], True),
        ("decimal(10,2)", "decimal(12,3)", [], True),
        ("decimal(10,2)", "decimal(10,3)", [], False),
        ("long", "integer", [], False),
        ("long", "double", [], False),
        (array("integer"), array("long"), [INT_TO_LONG | {"fieldPath": "element"}], True),
        (array("integer"), array("long"), [], True),
        (array("long"), array("integer"), [], False),
        (array("integer"), "long", [], False),
        (array("date"), array("long"), [INT_TO_LONG | {"fieldPath": "element"}], False),
    ],
)
def test_an_earlier_type(then: object, now: object, changes: list[dict[str, str]], readable: bool) -> None:
    log = TableLog(MemoryStore())
    info = CommitInfo({"timestamp": 1, "operation": "CREATE TABLE", "operationParameters": {}, "txnId": "t"})
    log.put(0, serialize_commit(info, adds=[], removes=[], cdc=[], metadata=metadata(now, *changes), protocol=protocol_for_new_table({})))
    assert (unreadable(metadata(then), log.latest()) is None) == readable
