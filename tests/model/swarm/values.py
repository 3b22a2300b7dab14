"""Types of columns: how Spark and Arrow call them, values that are awkward, and literals of them in both dialects.

Times are integers here (microseconds or days since 1970), because Python's own end with the year 9999.
"""

from __future__ import annotations

import decimal
import math
import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

_S, _H = 1_000_000, 3_600_000_000
_DAY = 24 * _H


def _at(days: int, hours: int, minutes: int = 0, micros: int = 0) -> int:
    return days * _DAY + hours * _H + minutes * 60 * _S + micros


# 2024: New York's gap is on 10 March 07:00 UTC, its overlap on 3 November 06:00; Berlin's on 31 March and 27 October, 01:00;
# Lord Howe's half hours on 5 October 15:30 and 6 April 15:00.  The wall times of a gap, read as UTC, are what a careless writer moves.
_NY_GAP, _NY_OVERLAP, _BERLIN_GAP, _BERLIN_OVERLAP, _HOWE_GAP, _HOWE_OVERLAP = 19792, 20030, 19813, 20023, 20001, 19819
TIMES = [
    _at(_NY_GAP, 2, 30), _at(_NY_GAP, 3, 30), _at(_NY_GAP, 7, 30, 1), _at(_NY_OVERLAP, 5, 30), _at(_NY_OVERLAP, 6, 30), _at(_NY_OVERLAP, 1, 30),
    _at(_BERLIN_GAP, 2, 30), _at(_BERLIN_GAP, 1, 30), _at(_BERLIN_OVERLAP, 0, 30), _at(_BERLIN_OVERLAP, 1, 30), _at(_BERLIN_OVERLAP, 2, 30),
    _at(_HOWE_GAP, 2, 15), _at(_HOWE_GAP, 15, 45), _at(_HOWE_OVERLAP, 14, 45), _at(_HOWE_OVERLAP, 15, 15), _at(_HOWE_OVERLAP, 1, 45),
    0, -1, 999, _at(20000, 12, 0, 123456), _at(20000, 12, 0, 123999),
]  # fmt: skip
FAR_TIMES = [
    _at(-150_000, 1, 2, 345678),
    _at(-719_162, 0),
    _at(-141_428, 0),
    _at(-141_427, 23, 59, 1),
    _at(2_932_896, 23, 59, 59_999_999),
    _at(2_932_897, 0, 0, 1),
    _at(4_000_000, 5, 6, 7),
]
DATES = [_NY_GAP, _BERLIN_GAP, 0, -1, 19999, -141_427, -141_428, -150_000, -719_162, 2_932_896]
FAR_DATES = [2_932_897, 4_000_000]
TEXTS = [
    "",
    "a",
    "b",
    "A",
    "ab",
    "é",
    "ключ",
    "日本",
    "\U0001f600",
    "\uffff",
    "\ue000z",
    "x" * 40,
    "x" * 39 + "y",
    "a'b",
    'a"b',
    "a\\b",
    "{a}",
    "a.b",
    "%",
    "%41",
    "nul\x00l",
    " ",
    "a ",
    "\n",
]
FOLDERS = [
    "",
    "a",
    "b",
    "a b",
    "a/b",
    "a=b",
    "a%2Fb",
    "%",
    "a:b",
    "é",
    "ключ",
    ".",
    "..",
    "x+y",
    "a#b",
    "a?b",
    "a'b",
    'a"b',
    "a\\b",
    "{a}",
    "[b]",
    "A",
    "Z ",
    " z",
    "1",
    "01",
    "null",
    "a\tb",
    "\U0001f600",
]
_D = decimal.Decimal


@dataclass(frozen=True)
class Kind:
    """A type: by Spark's name and by Arrow's, and values of it."""

    spark: str
    arrow: pa.DataType
    pool: tuple[Any, ...]

    @property
    def is_orderable(self) -> bool:
        return not pa.types.is_nested(self.arrow)


KINDS: dict[str, Kind] = {
    "long": Kind("BIGINT", pa.int64(), (0, 1, 2, 3, -1, 2**63 - 1, -(2**63), 2**53 + 1)),
    "int": Kind("INT", pa.int32(), (0, 1, 2, 3, -1, 2**31 - 1, -(2**31))),
    "short": Kind("SMALLINT", pa.int16(), (0, 1, 2, -1, 2**15 - 1, -(2**15))),
    "byte": Kind("TINYINT", pa.int8(), (0, 1, 2, -1, 127, -128)),
    "float": Kind("FLOAT", pa.float32(), (0.0, -0.0, 1.5, -2.25, math.nan, math.inf, -math.inf, 1.401298464324817e-45, 16777216.0)),
    "double": Kind("DOUBLE", pa.float64(), (0.0, -0.0, 1.5, -2.5, math.nan, math.inf, -math.inf, 5e-324, 1e-05, 1e300, 0.1)),
    "decimal(38,18)": Kind("DECIMAL(38,18)", pa.decimal128(38, 18), (_D("0"), _D("1.5"), _D("-0.000000000000000001"), _D("99999999999999999999.999999999999999999"), _D("-99999999999999999999.999999999999999999"), _D("0.1"))),
    "decimal(38,0)": Kind("DECIMAL(38,0)", pa.decimal128(38, 0), (_D("0"), _D("1"), _D("99999999999999999999999999999999999999"), _D("-99999999999999999999999999999999999999"), _D("99999999999999999999999999999999999998"), _D("9007199254740993"))),
    "decimal(10,2)": Kind("DECIMAL(10,2)", pa.decimal128(10, 2), (_D("0.00"), _D("1.50"), _D("-0.01"), _D("99999999.99"), _D("-99999999.99"))),
    "decimal": Kind("DECIMAL(20,2)", pa.decimal128(20, 2), (_D("0.00"), _D("1.50"), _D("-0.01"), _D("999999999999999999.99"))),
    "string": Kind("STRING", pa.string(), tuple(TEXTS)),
    "binary": Kind("BINARY", pa.binary(), (b"", b"\x00", b"a", b"ab", b"\xff\xfe", b"\xc3\x28", b"z" * 40)),
    "boolean": Kind("BOOLEAN", pa.bool_(), (True, False)),
    "date": Kind("DATE", pa.date32(), (*DATES, *FAR_DATES)),
    "timestamp": Kind("TIMESTAMP", pa.timestamp("us", "UTC"), (*TIMES, *FAR_TIMES)),
    "timestamp_ntz": Kind("TIMESTAMP_NTZ", pa.timestamp("us"), (*TIMES, *FAR_TIMES)),
    "struct": Kind("STRUCT<a: INT, b: STRING>", pa.struct([("a", pa.int32()), ("b", pa.string())]), ({"a": 1, "b": "x"}, {"a": None, "b": ""}, {"a": 2**31 - 1, "b": None}, {"a": None, "b": None})),
    "array": Kind("ARRAY<DOUBLE>", pa.list_(pa.float64()), ([], [1.5], [None], [-0.0, None, 1e-05], [math.inf])),
    "map": Kind("MAP<STRING, INT>", pa.map_(pa.string(), pa.int32()), ([], [("a", 1)], [("", None)], [("é", 1), ("a.b", -1)])),
}  # fmt: skip
PARTITION_POOLS: dict[str, tuple[Any, ...]] = {
    "string": tuple(FOLDERS),
    "binary": (b"", b"a", b"a b", b"a/b", b"a=b", b"%", "é".encode()),
    "timestamp": (*TIMES, *FAR_TIMES),
    "timestamp_ntz": (*TIMES, *FAR_TIMES),
    "date": (*DATES, *FAR_DATES),
    "double": (0.0, -0.0, 1e-05, 5e-324, 1.5, -2.5, math.inf, -math.inf, math.nan, 1e300, 0.1),
    "float": (0.0, -0.0, 1.401298464324817e-45, 1.5, -2.25, math.inf, math.nan, 16777216.0),
}


def array(kind: Kind, values: list[Any]) -> pa.Array:
    """Values of a pool (and nulls) as Arrow."""
    if pa.types.is_timestamp(kind.arrow):
        return pa.array(values, pa.int64()).cast(kind.arrow)
    if pa.types.is_date32(kind.arrow):
        return pa.array(values, pa.int32()).cast(kind.arrow)
    return pa.array(values, kind.arrow)


def some(rng: random.Random, kind: str, count: int, *, partition: bool = False) -> list[Any]:
    """A few values that a case uses in a column, so that rows share them; null among them."""
    pool = list(PARTITION_POOLS.get(kind, KINDS[kind].pool) if partition else KINDS[kind].pool)
    return [None, *rng.sample(pool, min(count, len(pool)))]


def literal(kind: str, value: Any, dialect: str) -> str:
    """A value of a type as SQL of 'spark' or 'duckdb'."""
    spark = dialect == "spark"
    if value is None:
        return "NULL"
    if kind in ("long", "int", "short", "byte"):
        return str(value) if abs(value) < 2**31 else f"CAST('{value}' AS BIGINT)"
    if kind in ("float", "double"):
        text = "NaN" if math.isnan(value) else ("-" if value < 0 else "") + "Infinity" if math.isinf(value) else repr(value)
        return f"CAST('{text}' AS {kind.upper()})"
    if kind.startswith("decimal"):
        return f"CAST('{value:f}' AS {KINDS[kind].spark})"
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "string":
        data = value.encode().hex()
        return f"CAST(X'{data}' AS STRING)" if spark else f"decode(from_hex('{data}'))"
    if kind == "binary":
        return f"X'{value.hex()}'" if spark else f"from_hex('{value.hex()}')"
    if kind == "date":
        return f"date_from_unix_date({value})" if spark else f"(DATE '1970-01-01' + ({value}))"
    if kind == "timestamp":
        return f"timestamp_micros({value})" if spark else f"make_timestamptz({value})"
    assert kind == "timestamp_ntz", kind
    days, micros = divmod(value, _DAY)
    return f"(TIMESTAMP_NTZ'1970-01-01 00:00:00' + make_dt_interval({days}, 0, 0, {micros // _S}.{micros % _S:06d}))" if spark else f"make_timestamp({value})"
