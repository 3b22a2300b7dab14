"""What a changed definition means for staged work. I9: rows for a column that is gone are not committed under it."""

from __future__ import annotations

import pytest

from rowlock.conflict.rules import TableChange, table_change
from rowlock.protocol.actions import Metadata, Protocol
from rowlock.protocol.schema import PrimitiveType, StructField, StructType, schema_json


@pytest.mark.parametrize(
    ("name", "columns", "takes"),
    [
        ("a.b", ("a.b", "id"), True),
        ("a.b", ("a", "id"), True),
        ("a", ("a.b",), False),
        ("ab", ("a",), False),
        ("a.b.c", ("a.b",), True),
        ("id", ("a", "id"), True),
    ],
)
def test_rows_for_a_column_that_is_gone(name: str, columns: tuple[str, ...], takes: bool) -> None:
    """I9: a column whose own name has a dot is not taken for a field of another."""
    assert TableChange(lost=(name,)).affects(columns) is takes


@pytest.mark.parametrize("bound", [False, True])
def test_staged_rows_are_checked_for_the_column_alone_that_takes_no_nulls_any_more(bound: bool) -> None:
    """I3: and for no other, such as one that takes them as before."""
    long = PrimitiveType("long")

    def metadata(*, nullable: bool) -> Metadata:
        return Metadata("id", schema_json(StructType((StructField("k", long), StructField("v", long, nullable)))))

    change = table_change(metadata(nullable=True), metadata(nullable=not bound), Protocol(1, 2))
    assert {name for name in change.checked if name in ("k", "v")} == ({"v"} if bound else set())
