"""Bounds of char and varchar inside of other types, as text in a column's metadata."""

from __future__ import annotations

import pytest

from rowlock.protocol.char_varchar import KEY, inner_bounds, is_known, respelled
from rowlock.protocol.schema import ArrayType, MapType, PrimitiveType, StructField, StructType

STRING, INT = PrimitiveType("string"), PrimitiveType("integer")


def column(name: str, text: str) -> StructField:
    inner = StructType((StructField(name, STRING), StructField("m", MapType(STRING, ArrayType(STRING, True), True)), StructField("n", INT)))
    return StructField("s", ArrayType(inner, True), metadata={KEY: text, "comment": "c"})


@pytest.mark.parametrize(("name", "spelled"), [("z", "z"), ("a b", "`a b`"), ("über", "`über`"), ("1a", "`1a`")])
def test_bounds_follow_the_names_of_fields(name: str, spelled: str) -> None:
    """A field that was renamed beside a char was refused: the bounds named it as before, of which delta-spark lost its values."""
    text = "array<struct<{}:char(3),m:map<varchar(2),array<char(1)>>,n:int>>"
    (after,) = respelled(StructType((column(name, text.format("a")),))).fields
    assert after.metadata == {KEY: text.format(spelled), "comment": "c"} and is_known(after)
    assert str(inner_bounds(after, exact=True)) == str(inner_bounds(column(name, text.format("a"))))


def test_other_columns_stay() -> None:
    schema = StructType((StructField("a", STRING, metadata={KEY: "char(3)"}), StructField("b", ArrayType(STRING, True))))
    assert respelled(schema) == schema
