"""Which defaults are plain literals, decided without Spark: too few rather than one too many (I9).  That Spark reads them alike: tests/spark/test_column_defaults.py."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from rowlock.protocol.column_values import NotConstant, constant
from rowlock.protocol.schema import DataType, DecimalType, PrimitiveType, StructField

PLAIN: list[tuple[DataType, str, Any]] = [
    (PrimitiveType("integer"), "null", None),
    (PrimitiveType("byte"), "-128", -128),
    (PrimitiveType("long"), " 9223372036854775807 ", (1 << 63) - 1),
    (DecimalType(4, 2), "-1.5", Decimal("-1.50")),
    (PrimitiveType("double"), "4", 4.0),
    (PrimitiveType("boolean"), "False", False),
    (PrimitiveType("string"), "'it -- is'", "it -- is"),
    (PrimitiveType("date"), "DATE '2020-02-29'", datetime.date(2020, 2, 29)),
]
LEFT_TO_SPARK: list[tuple[DataType, str]] = [
    (PrimitiveType("integer"), "1 + 1"),
    (PrimitiveType("byte"), "128"),
    (PrimitiveType("integer"), "1.0"),
    (PrimitiveType("string"), "1"),
    (PrimitiveType("string"), "'a' 'b'"),
    (PrimitiveType("string"), r"'a\nb'"),
    (PrimitiveType("string"), '"a"'),
    (DecimalType(3, 2), "10"),
    (DecimalType(3, 2), "1.234"),
    (PrimitiveType("double"), str((1 << 53) + 1)),
    (PrimitiveType("double"), "0.1"),
    (PrimitiveType("date"), "DATE '2021-02-29'"),
    (PrimitiveType("date"), "'2020-01-01'"),
    (PrimitiveType("timestamp"), "current_timestamp()"),
    (PrimitiveType("boolean"), "1"),
]


@pytest.mark.parametrize(("type_", "text", "value"), PLAIN)
def test_a_plain_literal_is_a_value_of_the_columns_type(type_: DataType, text: str, value: Any) -> None:
    found = constant(StructField("c", type_, True, {"CURRENT_DEFAULT": text}))
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(("type_", "text"), LEFT_TO_SPARK)
def test_anything_else_is_left_to_spark(type_: DataType, text: str) -> None:
    with pytest.raises(NotConstant):
        constant(StructField("c", type_, True, {"CURRENT_DEFAULT": text}))


def test_a_column_without_a_default_is_null() -> None:
    assert constant(StructField("c", PrimitiveType("date"), True, {})) is None
