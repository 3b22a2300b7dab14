"""Conditions that rowlock.append decides itself are what Spark makes of them, row by row; every other text is left to Spark (I9)."""

from __future__ import annotations

import itertools
import math

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession, functions as F

from rowlock.parquet.checks import holds
from rowlock.protocol.char_varchar import KEY
from rowlock.protocol.constraints import Undecided, parsed
from rowlock.protocol.predicates import Not
from rowlock.protocol.schema import PrimitiveType, StructField, StructType

SCHEMA = StructType(tuple(StructField(name, PrimitiveType(t), True, {}) for name, t in {"i": "integer", "l": "long", "d": "double", "s": "string"}.items()))
INTS, LONGS = [None, -1, 0, 3], [None, -(1 << 63), 1 << 53, (1 << 53) + 1]
DOUBLES, TEXTS = [None, math.nan, -0.0, 0.1, math.inf, -math.inf], [None, "", "a", "A ", "ü"]

DECIDED = [
    *(f"d {op} {value}" for op in ("=", "<>", "<", "<=", ">", ">=") for value in ("0", "0.1", "-3")),
    "l > 9007199254740992", "l = 9007199254740993", "i == -1", "i != 3", "L <= -9223372036854775807",
    "s = 'a'", "`s` <> 'A '", "s IN ('', 'ü')", "i IN (3, 0) or s is null", "NOT i IN (3)", "not d > 0 AND i IS NOT NULL",
    "i > 0 OR l > 0 AND d > 0", "NOT (i > 0 OR d < 0.1)", "(i >= 0 AND s = 'a') OR d IS NULL",
]  # fmt: skip
LEFT_TO_SPARK = [
    "i + 1 < 3", "i < l", "s < 'b'", "s LIKE 'a%'", "i NOT IN (3)", "i BETWEEN 0 AND 3", "i <=> 3", "i < 3.0", "d < 1e3", "i = '3'", "s = 3", "i", "true",
    "length(s) < 3", "x = 1", "i < 3 -- less", "s = 'a' 'b'", r"s = 'a\n'", 's = "a"', "i -1 < 3", "a.b = 1", "i = NULL", "i = 99999999999999999999", "i < 3 3", "",
]  # fmt: skip


def test_they_are_what_spark_makes_of_them(spark: SparkSession) -> None:
    rows = list(itertools.product(INTS, LONGS, DOUBLES, TEXTS))
    table = pa.table({n: pa.array(v, t) for n, v, t in zip("ilds", zip(*rows, strict=True), (pa.int32(), pa.int64(), pa.float64(), pa.string()), strict=True)})
    frame = spark.createDataFrame(rows, "i int, l bigint, d double, s string").coalesce(1)
    theirs = frame.select(*(F.expr(text).alias(f"c{n}") for n, text in enumerate(DECIDED))).collect()
    for n, text in enumerate(DECIDED):
        for condition, outcome in ((parsed(text, SCHEMA), True), (Not(parsed(text, SCHEMA)), False)):
            assert list(holds(condition, table, SCHEMA)) == [r[n] is outcome for r in theirs], text


def test_texts_that_spark_pads_are_left_to_it() -> None:
    """Under Spark `c = 'ab'` holds for the char(4) value 'ab  '; a varchar is compared as it is."""
    padded, plain = (StructType((StructField("c", PrimitiveType("string"), True, {KEY: kind}),)) for kind in ("char(4)", "varchar(4)"))
    for text in ("c = 'ab'", "c <> 'ab'", "c IN ('ab', 'cd')"):
        with pytest.raises(Undecided):
            parsed(text, padded)
        assert list(holds(parsed(text, plain), pa.table({"c": ["x"]}), plain)) == ["<>" in text]


@pytest.mark.parametrize("text", LEFT_TO_SPARK)
def test_any_other_text_is_left_to_spark(text: str) -> None:
    with pytest.raises(Undecided):
        parsed(text, SCHEMA)
