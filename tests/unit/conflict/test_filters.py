"""Filters in SQL: they keep too much and never too little, and compare in the schema's types."""

from __future__ import annotations

import orjson
import pytest

from rowlock.protocol.actions import AddFile
from rowlock.protocol.schema import DecimalType, PrimitiveType, StructField, StructType
from support.conflict_filters import read_filter

TYPES = {"part": "string", "p": "integer", "day": "date", "s": "string", "i": "integer", "d": "double", "at": "timestamp", "b": "boolean"}
SCHEMA = StructType(
    (
        *(StructField(n, PrimitiveType(t)) for n, t in TYPES.items()),
        StructField("n", StructType((StructField("x", PrimitiveType("long")),))),
        StructField("m", DecimalType(10, 2)),
    )
)
PARTITIONS = ("part", "p", "day")


def file(part: str | None = "1", p: str | None = "1", day: str | None = "2024-01-02", **bounds) -> AddFile:
    """A file in a partition; `i=(1, 5)` are a column's bounds."""
    low, high = ({k.replace("__", "."): v[n] for k, v in bounds.items()} for n in (0, 1))
    if "n.x" in low:
        low, high = ({"n": {"x": b["n.x"]}} for b in (low, high))
    stats = {"numRecords": 10, "minValues": low, "maxValues": high, "nullCount": {}}
    return AddFile("f", {"part": part, "p": p, "day": day}, 1, 0, True, orjson.dumps(stats).decode())


def keeps(sql: str, a: AddFile) -> bool:
    return read_filter(sql, SCHEMA, PARTITIONS).may_match(a)


@pytest.mark.parametrize(
    ("sql", "a", "kept"),
    [
        # a string partition column against numbers, as Spark casts it
        ("part = 3", file(part="3"), True),
        ("part = 3", file(part="1"), False),
        ("part = 3", file(part="03"), True),
        ("part >= 2", file(part="10"), True),
        ("part > 1 and part < 3", file(part="2"), True),
        ("part > 1 and part < 3", file(part="3"), False),
        ("part = 3", file(part="three"), True),
        ("part = '3'", file(part="3"), True),
        ("part = '3'", file(part="03"), False),
        ("part >= '2'", file(part="10"), False),
        ("part in (1, 2)", file(part="2"), True),
        ("part in (1, 2)", file(part="4"), False),
        ("part in ('1', 2)", file(part="4"), True),
        ("part = 3 or part = 'x'", file(part="4"), True),
        ("part is null", file(part=None), True),
        ("part is null", file(part="1"), False),
        ("part is not null", file(part=None), False),
        ("part = 1", file(part=None), False),
        ("part <=> null", file(part=None), True),
        # other types
        ("p = 1", file(p="2"), False),
        ("p = '1'", file(p="2"), False),
        ("p = '1'", file(p="1"), True),
        ("p = '1.5'", file(p="2"), True),
        ("2 < p", file(p="2"), False),
        ("p < 2.5", file(p="2"), True),
        ("day = DATE '2024-01-02'", file(), True),
        ("day = DATE '2024-01-03'", file(), False),
        ("day >= '2024-01-03'", file(), False),
        ("p between 2 and 4", file(p="3"), True),
        ("p between 2 and 4", file(p="5"), False),
        ("p = -1", file(p="-1"), True),
        ("p <> 1", file(p="1"), False),
        # statistics
        ("i > 5", file(i=(1, 5)), False),
        ("i >= 5", file(i=(1, 5)), True),
        ("i > 5", file(), True),
        ("i + 1 > 7", file(i=(1, 5)), True),
        ("i > p", file(i=(1, 5)), True),
        ("s = 3", file(s=("a", "b")), True),
        ("s = 'c'", file(s=("a", "b")), False),
        ("s like 'c%'", file(s=("a", "b")), False),
        ("s like '%c'", file(s=("a", "b")), True),
        ("s like 'a_'", file(s=("b", "c")), True),
        ("s = 'it''s'", file(s=("a", "b")), True),
        ("d > 5.5", file(d=(1.0, 5.0)), True),  # NaN is above every number
        ("d < 0.5", file(d=(1.0, 5.0)), False),
        ("m < 0.5", file(m=(1.0, 5.0)), False),
        ("m = '9'", file(m=(1.0, 5.0)), True),
        ("n.x > 5", file(n__x=(1, 5)), False),
        ("t.i > 5", file(i=(1, 5)), False),
        ("at >= '2024-01-02'", file(at=("2024-01-01T00:00:00.000Z", "2024-01-01T23:00:00.000Z")), False),
        ("at >= '2024-01-02'", file(at=("2024-01-01T00:00:00.000Z", "2024-01-02T00:00:00.000Z")), True),
        ("b = true", file(), True),
        # constants and negation
        ("true", file(), True),
        ("false", file(), False),
        ("not (p = 1)", file(p="1"), False),
        ("not (p = 1 and i > 5)", file(p="1", i=(6, 9)), False),
        ("p not in (1)", file(p="1"), False),
        ("p = null", file(p="1"), False),
        # what cannot be read keeps everything
        ("p = (", file(p="1"), True),
        ("unheard_of = 1", file(p="1"), True),
        ("p = cast('2.7' as int)", file(p="1"), True),
    ],
)
def test_filter(sql: str, a: AddFile, kept: bool) -> None:
    assert keeps(sql, a) is kept


A, B, N = "p = 1", "p = 2", "rand() < 0.5"


@pytest.mark.parametrize(
    ("sql", "kept"),
    [(f"{A} and {N}", {1}), (f"{A} or {N}", {1, 2, 3}), (f"{A} or ({B} and {N})", {1, 2}), (f"{A} or not({B} and {N})", {1, 2, 3})],
)
def test_what_is_not_deterministic_widens(sql: str, kept: set[int]) -> None:
    assert {p for p in (1, 2, 3) if keeps(sql, file(p=str(p)))} == kept
