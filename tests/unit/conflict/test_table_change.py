"""What a changed definition means for staged work. I9: rows for a column that is gone are not committed under it."""

from __future__ import annotations

import pytest

from rowlock.conflict.rules import TableChange


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
    assert TableChange(retyped=(name,)).affects(columns) is takes
