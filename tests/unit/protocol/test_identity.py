"""Numbers of identity columns without an engine: next numbers, marks that never move back, what cannot be an identity column (I5)."""

from __future__ import annotations

import pytest

from rowlock.exceptions import StatementRefused
from rowlock.protocol.actions import Metadata
from rowlock.protocol.column_values import (
    HIGH_WATER_MARK,
    START,
    Identity,
    differ_in_marks_only,
    identity_columns,
    identity_metadata,
    last_of,
    problem_of,
    rounded_to_step,
    with_marks,
    with_marks_of,
)
from rowlock.protocol.schema import PrimitiveType, StructField, StructType, parse_schema, schema_json


def table(step: int = 1, mark: int | None = None, *, type_: str = "long", name: str = "id", **more: object) -> Metadata:
    said = {**identity_metadata(5, step, by_default=False), **({} if mark is None else {HIGH_WATER_MARK: mark}), **more}
    fields = (StructField(name, PrimitiveType(type_), True, said), StructField("v", PrimitiveType("integer"), True, {}))
    return Metadata("t", schema_json(StructType(fields)), (), {})


def mark_of(metadata: Metadata) -> int | None:
    return identity_columns(parse_schema(metadata.schema_string))[0].mark


@pytest.mark.parametrize(
    ("step", "mark", "number", "after"), [(1, None, 9, 9), (1, 9, 8, 9), (1, 9, 10, 10), (-2, -3, -1, -3), (-2, -3, -5, -5), (-2, None, 5, 5)]
)
def test_a_mark_moves_in_the_direction_of_the_step_alone(step: int, mark: int | None, number: int, after: int) -> None:
    before = table(step, mark)
    assert mark_of(with_marks(before, {"id": number})) == after
    assert mark_of(with_marks_of(before, table(step, number), "t")) == after
    assert differ_in_marks_only(before, table(step, number)) == (number == after), "a mark that went back is another table's"


@pytest.mark.parametrize(("start", "step", "after"), [(50, 1, None), (5, 1, 9), (5, 10, 15), (0, -1, None)])
def test_a_replaced_column_begins_at_its_start_or_past_what_was_given(start: int, step: int, after: int | None) -> None:
    """Of a table that gave numbers up to 9; none is given twice."""
    fresh = table(step, **{START: start})
    assert mark_of(with_marks_of(fresh, table(1, 9), "t")) == after


def test_definitions_that_differ_otherwise_differ() -> None:
    assert not differ_in_marks_only(table(1, 3), table(2, 3))
    assert not differ_in_marks_only(table(1, 3), table(1, 4, comment="said"))
    assert with_marks_of(table(1, 3), table(1, 9, name="other"), "t") == table(1, 3)


def test_numbers_begin_at_the_start_and_end_with_the_type() -> None:
    assert Identity("id", 5, 3, False).first_of_next() == 5
    assert last_of(Identity("id", 5, 3, False, 8), 2, "t") == 14
    assert last_of(Identity("id", 5, -1, False, -(1 << 63) + 1), 1, "t") == -(1 << 63)
    with pytest.raises(StatementRefused, match="no numbers left"):
        last_of(Identity("id", 5, 1, False, (1 << 63) - 2), 2, "t")


@pytest.mark.parametrize(("start", "step", "number", "rounded"), [(1, 10, 35, 41), (1, 10, 41, 41), (0, -3, -4, -6), (0, -3, -6, -6), (5, 7, 5, 5)])
def test_sync_rounds_away_from_the_start(start: int, step: int, number: int, rounded: int) -> None:
    assert rounded_to_step(Identity("id", start, step, True), number, "t") == rounded


def test_sync_has_no_number_beyond_the_type() -> None:
    with pytest.raises(StatementRefused, match="no number"):
        rounded_to_step(Identity("id", 0, 10, True), (1 << 63) - 1, "t")


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        (table(), None),
        (table(type_="integer"), "no bigint"),
        (table(0), "step"),
        (table(**{HIGH_WATER_MARK: "9"}), "high-water mark"),
        (table(**{"delta.identity.start": None}), "start"),
    ],
)
def test_what_cannot_be_an_identity_column_is_named(metadata: Metadata, problem: str | None) -> None:
    found = problem_of(parse_schema(metadata.schema_string), ())
    assert found is None if problem is None else problem in str(found)
    assert "partitioned" in str(problem_of(parse_schema(table().schema_string), ("id",)))
