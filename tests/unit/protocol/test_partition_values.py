"""Partition values as text. I9: text that is no value of the type is named."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rowlock import arguments
from rowlock.exceptions import CorruptLog, InvalidInput
from rowlock.protocol.partition_values import parse, parse_stored, serialize, states_zone
from rowlock.protocol.schema import DecimalType, PrimitiveType

P = PrimitiveType
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(min_size=1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "integer": st.integers(-(1 << 31), (1 << 31) - 1),
    "short": st.integers(-(1 << 15), (1 << 15) - 1),
    "byte": st.integers(-128, 127),
    "double": st.floats(allow_nan=False),
    "float": st.floats(allow_nan=False, width=32),
    "boolean": st.booleans(),
    "date": st.dates(min_value=dt.date(1000, 1, 1)),
    "timestamp": st.datetimes(min_value=dt.datetime(1000, 1, 2), max_value=dt.datetime(9999, 12, 30), timezones=st.just(dt.UTC)),
    "timestamp_ntz": st.datetimes(min_value=dt.datetime(1000, 1, 1)),
    "binary": st.text(min_size=1).map(str.encode),
}


@given(st.data(), st.sampled_from(sorted(VALUES)))
def test_round_trip(data: st.DataObject, name: str) -> None:
    value = data.draw(VALUES[name])
    text = serialize(value, P(name))
    parsed = parse(text, P(name))
    if name == "float":
        assert parsed == pytest.approx(value, rel=1e-6)
    else:
        assert parsed == value and type(parsed) is type(value)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**10), max_value=10**10, places=4))
def test_decimals(value: Decimal) -> None:
    assert parse(serialize(value, DecimalType(20, 4)), DecimalType(20, 4)) == value


@pytest.mark.parametrize(
    ("text", "name", "zone", "value"),
    [
        (None, "long", "UTC", None),
        ("", "string", "UTC", None),
        ("NaN", "double", "UTC", math.nan),
        ("-Infinity", "double", "UTC", -math.inf),
        ("1.0E10", "double", "UTC", 1e10),
        ("2020-01-01 08:00:00", "timestamp", "America/Los_Angeles", dt.datetime(2020, 1, 1, 16, tzinfo=dt.UTC)),
        ("2020-01-01 08:00:00.5", "timestamp", "UTC", dt.datetime(2020, 1, 1, 8, 0, 0, 500_000, tzinfo=dt.UTC)),
        ("2020-01-01T08:00:00.123456Z", "timestamp", "Asia/Tokyo", dt.datetime(2020, 1, 1, 8, 0, 0, 123_456, tzinfo=dt.UTC)),
        ("2020-01-01 08:00:00.123456", "timestamp_ntz", "Asia/Tokyo", dt.datetime(2020, 1, 1, 8, 0, 0, 123_456)),
        ("1969-12-31", "date", "UTC", dt.date(1969, 12, 31)),
        ("TRUE", "boolean", "UTC", True),
    ],
)
def test_as_others_write_them(text: str | None, name: str, zone: str, value: Any) -> None:
    stored = parse_stored(text, P(name), zone)
    if isinstance(value, dt.datetime):
        assert dt.datetime(1970, 1, 1, tzinfo=value.tzinfo) + dt.timedelta(microseconds=stored) == value
    elif isinstance(value, dt.date):
        assert stored == (value - dt.date(1970, 1, 1)).days
    else:
        assert stored == value or (math.isnan(stored) and math.isnan(value))
    if name != "timestamp" or zone == "UTC" or "Z" in str(text):
        parsed = parse(text, P(name))
        assert parsed == value or (math.isnan(parsed) and math.isnan(value)), "without a zone, in UTC"


@pytest.mark.parametrize(
    ("text", "name"), [("x", "long"), ("300", "byte"), ("yes", "boolean"), ("2020-13-01", "date"), ("noon", "timestamp"), ("1.5", "integer")]
)
def test_damage_is_named(text: str, name: str) -> None:
    with pytest.raises(CorruptLog, match=text):
        parse(text, P(name))


@given(st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-62_200_000_000_000_000, -62_100_000_000_000_000)))
def test_times_of_every_year(micros: int) -> None:
    """I5: the number that Arrow and Spark hold becomes text and the same number again, in years that Python has not, too."""
    for name in ("timestamp", "timestamp_ntz"):
        assert parse_stored(serialize(micros, P(name)), P(name)) == micros
    for days in (micros // 86_400_000_000, micros >> 32):
        assert parse_stored(serialize(days, P("date")), P("date")) == days
    with pytest.raises(CorruptLog, match="9999999"):
        parse_stored("9999999-01-01", P("date"))


@given(st.floats(allow_nan=False), st.booleans())
def test_numbers_are_spelled_as_spark_spells_them(value: float, single: bool) -> None:
    """I5: one spelling for one double: digits as few as can be, in Java's notation."""
    name = "float" if single else "double"
    with np.errstate(over="ignore"):
        value = float(np.float32(value)) if single else value
    text = serialize(value, P(name))
    assert text is not None and (np.float32(text) if single else float(text)) == value
    assert re.fullmatch(r"-?(\d\.\d+E-?\d+|\d{1,7}\.\d+|Infinity)", text)
    assert serialize(parse(text, P(name)), P(name)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-5, "1.0E-5"),
        (0.001, "0.001"),
        (1e7, "1.0E7"),
        (9999999.5, "9999999.5"),
        (-0.0, "-0.0"),
        (0.0, "0.0"),
        (123.0, "123.0"),
        (1.5e300, "1.5E300"),
        (100.0, "100.0"),
    ],
)
def test_doubles_in_javas_notation(value: float, text: str) -> None:
    assert serialize(value, P("double")) == text


def test_values_in_the_spelling_of_older_versions() -> None:
    """I9: a table may hold both spellings of a double; both are read, and both as one value."""
    assert parse("1e-05", P("double")) == parse("1.0E-5", P("double")) == 1e-5


@pytest.mark.parametrize(
    ("text", "seconds"), [("1883-01-01T00:00:00-04:56:02", 17762), ("1883-01-01T00:00:00+00:19:32", -1172), ("1883-01-01T00:00:00-0456", 17760)]
)
def test_offsets_with_seconds(text: str, seconds: int) -> None:
    assert parse(text, P("timestamp")) == dt.datetime(1883, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)


def test_binary_that_is_no_text() -> None:
    """I9: the log's text cannot hold it."""
    with pytest.raises(InvalidInput, match="UTF-8"):
        serialize(b"\xff", P("binary"))


SAID = json.loads((Path(__file__).resolve().parents[2] / "data" / "texts_as_times.json").read_text())
"""What Spark's try_cast makes of texts in three session zones (microseconds; null: nothing), and of two times in each zone, or null for no zone."""


@pytest.mark.parametrize("text", SAID["texts"])
def test_texts_are_the_times_that_spark_reads(text: str) -> None:
    """Recorded from Spark, which tests/spark/test_partition_values.py asks again."""
    for zone, micros in SAID["texts"][text].items():
        if micros is None:
            with pytest.raises(CorruptLog, match="not a value of type timestamp"):
                parse_stored(text, P("timestamp"), zone)
        else:
            assert parse_stored(text, P("timestamp"), zone) == micros
            assert states_zone(text) is (len(set(SAID["texts"][text].values())) == 1)


@pytest.mark.parametrize("zone", SAID["zones"])
def test_zones_are_those_of_sparks_sessions(zone: str) -> None:
    said = SAID["zones"][zone]
    if said is None:
        with pytest.raises(InvalidInput, match=r"no time zone that is known here.*\+02:00"):
            arguments.time_zone(zone, "time_zone")
    else:
        assert arguments.time_zone(zone, "time_zone") == zone
        assert [parse_stored(text, P("timestamp"), zone) for text in ("2024-10-27 02:30:00", "1800-01-01 00:00:00")] == said


@pytest.mark.parametrize("text", ["12:03", "T12:03:17", "2024-05-06 12:03:17 PST"])
def test_what_spark_alone_knows(text: str) -> None:
    """Times of today, and short names of regions: no instant is guessed, and `to_arrow` points to Spark."""
    assert states_zone(text) is None
    with pytest.raises(CorruptLog):
        parse_stored(text, P("timestamp"), "UTC")
