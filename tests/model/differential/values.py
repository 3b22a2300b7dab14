"""Types of columns, and values of each as SQL has them: usual ones, null, empty and odd ones."""

from __future__ import annotations

from model.differential.draw import Draw

VALUES: dict[str, tuple[str, ...]] = {
    "INT": ("1", "2", "3", "0", "-1", "2147483647", "NULL"),
    "BIGINT": ("1", "2", "3", "0", "-5L", "9223372036854775807L", "NULL"),
    "SMALLINT": ("1S", "2S", "0S", "-32768S", "NULL"),
    "STRING": ("'a'", "'b'", "'A'", "''", "' '", "'a b'", "'ü'", "'a/b=%1'", "'null'", "'it\\'s'", "NULL", "'12'", "'__HIVE_DEFAULT_PARTITION__'"),
    "DOUBLE": ("1.5D", "0.0D", "-0.0D", "2.0D", "1e308D", "double('NaN')", "double('Infinity')", "NULL"),
    "FLOAT": ("1.5F", "0.0F", "float('NaN')", "NULL"),
    "DECIMAL(10,2)": ("1.50BD", "0.00BD", "-99999999.99BD", "2BD", "NULL"),
    "BOOLEAN": ("true", "false", "NULL"),
    "DATE": (
        "DATE'2024-01-01'",
        "DATE'2024-02-29'",
        "DATE'1582-10-04'",
        "DATE'9999-12-31'",
        "NULL",
        "DATE'2018-11-04'",
        "DATE'0001-01-01'",
        "DATE'2011-12-30'",
    ),
    "TIMESTAMP": (
        "TIMESTAMP'2024-01-01 00:00:00'",
        "TIMESTAMP'2024-03-10 02:30:00'",
        "TIMESTAMP'1969-12-31 23:59:59.999999'",
        "NULL",
        "TIMESTAMP'2018-11-04 00:30:00'",
        "TIMESTAMP'2024-11-03 01:30:00'",
        "TIMESTAMP'1582-10-04 00:00:00'",
        "TIMESTAMP'9999-12-31 23:59:59.999999'",
        "TIMESTAMP'1883-11-18 11:59:00'",
        "TIMESTAMP'0001-01-01 00:00:00Z'",
    ),
    "TIMESTAMP_NTZ": (
        "TIMESTAMP_NTZ'2024-01-01 00:00:00'",
        "TIMESTAMP_NTZ'2024-03-10 02:30:00'",
        "NULL",
        "TIMESTAMP_NTZ'2018-11-04 00:00:00'",
        "TIMESTAMP_NTZ'1582-10-10 01:02:03.000001'",
        "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
    ),
    "BINARY": ("X'01'", "X''", "X'FF00'", "NULL"),
    "STRUCT<a: INT, b: STRING>": ("named_struct('a', 1, 'b', 'x')", "named_struct('a', NULL, 'b', '')", "NULL"),
    "ARRAY<INT>": ("array(1, 2)", "array()", "array(NULL)", "NULL"),
    "MAP<STRING, INT>": ("map('k', 1)", "map()", "map('k', NULL)", "NULL"),
    "ARRAY<STRUCT<a: INT, b: STRING>>": ("array(named_struct('a', 1, 'b', 'x'))", "array()", "NULL"),
    "TINYINT": ("1Y", "2Y", "-128Y", "NULL"),
    "DECIMAL(38,18)": ("1.5BD", "0BD", "99999999999999999999.999999999999999999BD", "NULL"),
    "STRUCT<`a.b`: INT, s: STRUCT<x: BIGINT, y: ARRAY<STRING>>>": (
        "named_struct('a.b', 1, 's', named_struct('x', 2L, 'y', array('p')))",
        "named_struct('a.b', NULL, 's', NULL)",
        "NULL",
    ),
    "MAP<STRING, STRUCT<a: INT, b: STRING>>": ("map('k', named_struct('a', 1, 'b', 'x'))", "map()", "map('k', NULL)", "NULL"),
    "STRUCT<a: INT, t: TIMESTAMP, d: DATE>": (
        "named_struct('a', 1, 't', TIMESTAMP'2018-11-04 00:30:00', 'd', DATE'2018-11-04')",
        "named_struct('a', 2, 't', NULL, 'd', NULL)",
        "NULL",
    ),
    "VARIANT": ("parse_json('{\"a\":1}')", "parse_json('null')", "parse_json('[1,\"x\"]')", "NULL"),
    "DECIMAL(20,4)": ("1.5BD", "0BD", "-9999999999999999.9999BD", "NULL"),
    "CHAR(3)": ("'a'", "'abc'", "''", "NULL"),
    "VARCHAR(3)": ("'a'", "'abc'", "''", "NULL"),
}
"""Values by type; the first is the plainest."""

SCALARS = (
    "INT",
    "STRING",
    "BIGINT",
    "DATE",
    "DOUBLE",
    "BOOLEAN",
    "TIMESTAMP",
    "DECIMAL(10,2)",
    "SMALLINT",
    "TIMESTAMP_NTZ",
    "FLOAT",
    "BINARY",
    "TINYINT",
    "DECIMAL(38,18)",
)
NESTED = (
    "STRUCT<a: INT, b: STRING>",
    "ARRAY<INT>",
    "MAP<STRING, INT>",
    "ARRAY<STRUCT<a: INT, b: STRING>>",
    "STRUCT<`a.b`: INT, s: STRUCT<x: BIGINT, y: ARRAY<STRING>>>",
    "MAP<STRING, STRUCT<a: INT, b: STRING>>",
    "STRUCT<a: INT, t: TIMESTAMP, d: DATE>",
    "VARIANT",
)

STRAYS = ("'9'", "'abc'", "300", "3000000000L", "1.7D", "'2024-01-05'", "'2024-13-05'", "true", "'abcd'", "9.999BD", "NULL", "current_date() - current_date()")
"""Values of other types than the column's: what the policies of storing judge."""


def value(draw: Draw, kind: str, *, stray: float = 0.0) -> str:
    """A value for a column of the type, at times one of another type."""
    if stray and draw.maybe("stray", stray):
        return draw.pick("other", STRAYS)
    options = VALUES[kind]
    return draw.pick("value", options, [4.0, 3.0, 2.0, *[1.0] * len(options)][: len(options)])
