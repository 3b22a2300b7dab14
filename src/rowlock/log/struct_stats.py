"""Statistics of files as structs: `stats_parsed` of checkpoints, made of the statistics' JSON and turned back into it.

A bound that a struct does not hold exactly is left out, which only keeps more files (I5).
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from contextlib import suppress

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from rowlock.exceptions import CorruptLog
from rowlock.protocol import arrays, partition_values
from rowlock.protocol.arrow_types import to_arrow_type
from rowlock.protocol.intervals import FALSE
from rowlock.protocol.schema import ColumnPath, DataType, StructField
from rowlock.protocol.statistics import has_bounds

_EXACT_DIGITS = 15
"""Doubles distinguish decimals of at most this many digits."""


def struct_type(leaves: Sequence[tuple[ColumnPath, DataType]]) -> pa.StructType:
    """The type of the statistics of a table with these leaf columns."""
    bounds = [(path, to_arrow_type(type_)) for path, type_ in leaves if has_bounds(type_)]
    nested = {"minValues": bounds, "maxValues": bounds, "nullCount": [(path, pa.int64()) for path, _ in leaves]}
    inner = [(name, _nested(columns)) for name, columns in nested.items() if columns]
    return pa.struct([("numRecords", pa.int64()), *inner, ("tightBounds", pa.bool_())])


def _nested(columns: Sequence[tuple[ColumnPath, pa.DataType]]) -> pa.StructType:
    """The struct in which each column lies at its path."""
    below: dict[str, list[tuple[ColumnPath, pa.DataType]]] = {}
    for path, type_ in columns:
        below.setdefault(path[0], []).append((path[1:], type_))
    return pa.struct([(name, inner[0][1] if not inner[0][0] else _nested(inner)) for name, inner in below.items()])


def structs(texts: pa.Array, type_: pa.StructType) -> pa.Array | None:
    """The statistics, one JSON text a file, as structs; null where there is none.  None if some text has another form."""
    # Some writers compute bounds of decimals as doubles, which have digits that the type does not: those are read again.
    for held in dict.fromkeys((_read_as(type_, exact=True), _read_as(type_))):
        with suppress(pa.ArrowException):
            read = json_columns(texts, pa.schema(list(held)))
            break
    else:
        return None
    if read is None:
        return None
    columns = [_typed(read.column(f.name).combine_chunks(), f.type) for f in type_]
    return pa.StructArray.from_arrays(columns, fields=list(type_), mask=texts.is_null())


def json_columns(texts: pa.Array, schema: pa.Schema) -> pa.Table | None:
    """These columns of JSON objects, one a row, null where a text is no object; None if one holds more than that.  Raises ArrowException if one has another form."""
    wide = pa.large_string()  # line breaks may take the texts beyond 2 GiB
    if not pc.all(pc.starts_with(texts, "{"), skip_nulls=False).as_py():  # a first row `null` ends the process in pyarrow 26
        texts = pc.if_else(pc.fill_null(pc.match_substring_regex(texts, r"^\s*\{"), FALSE), texts, arrays.scalar("{}"))
    lines = pc.binary_join_element_wise(texts.cast(wide), *(arrays.scalar(text).cast(wide) for text in ("", "\n")))
    body = lines.buffers()[2].slice(0, pc.sum(pc.binary_length(lines)).as_py() or 0)
    options = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    block = max(1 << 20, 2 * (pc.max(pc.binary_length(texts)).as_py() or 0))  # a single one is not worth the hand-over to a thread
    table = arrow_json.read_json(pa.BufferReader(body), arrow_json.ReadOptions(use_threads=body.size > block, block_size=block), options)
    return table if table.num_rows == len(texts) else None


def _read_as(type_: pa.DataType, *, exact: bool = False) -> pa.DataType:
    """The type as which JSON holds values of a type; decimals are doubles there, unless `exact`."""
    if pa.types.is_struct(type_):
        return pa.struct([(f.name, _read_as(f.type, exact=exact)) for f in type_])
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return pa.string()
    return pa.float64() if (pa.types.is_decimal(type_) and not exact) or pa.types.is_floating(type_) else pa.int64() if pa.types.is_integer(type_) else type_


def _typed(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """JSON's values as a type; null for those that it does not hold exactly."""
    if pa.types.is_struct(type_):
        return pa.StructArray.from_arrays([_typed(values.field(n), f.type) for n, f in enumerate(type_)], fields=list(type_), mask=values.is_null())
    try:
        if pa.types.is_date(type_):
            return days(values).cast(pa.int32()).cast(type_)
        if pa.types.is_timestamp(type_) and type_.tz:  # offsets of earlier years may have had seconds, which the text leaves out
            sure = pc.match_substring_regex(values, r"^\d{4}-.*Z$|^(19[89]|[2-9]\d)")
            return pc.if_else(sure, values, pa.scalar(None, pa.string())).cast(type_)
        if pa.types.is_floating(values.type) and pa.types.is_decimal(type_) and type_.precision > _EXACT_DIGITS:
            return pa.nulls(len(values), type_)
        return values.cast(type_)
    except pa.ArrowException:
        return pa.nulls(len(values), type_)


def days(texts: pa.Array) -> pa.Array:
    """Days in ISO's form as numbers; null for others."""
    plain = pc.match_substring_regex(texts, r"^\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])$")
    return pc.if_else(plain, texts, arrays.scalar(None)).cast(pa.date32()).cast(pa.int32()).cast(pa.int64())


def partition_structs(values: pa.MapArray, columns: Sequence[StructField]) -> pa.Array | None:
    """The partition values of files as structs of typed values; None where a text is no value of its type, or the session's time zone would decide which."""
    typed = []
    for f in columns:
        texts = pc.map_lookup(values, arrays.scalar(f.physical_name), "first").dictionary_encode()
        try:
            held = [partition_values.parse_stored(text, f.type) for text in texts.dictionary.to_pylist()]
            typed.append(pa.array(held, to_arrow_type(f.type)).take(texts.indices))
        except (CorruptLog, pa.ArrowException, OverflowError):
            return None
    return pa.StructArray.from_arrays(typed, [f.physical_name for f in columns])


def texts(parsed: pa.Array, first: dt.datetime = dt.datetime(1, 1, 2)) -> pa.Array:
    """Structs of statistics as JSON texts, without dates and times before `first`; null where there are none."""
    objects = _json(_null_out_of_range_times(parsed, first))
    return _without(objects, pc.equal(objects, "{}"))


def _null_out_of_range_times(values: pa.Array, earliest: dt.datetime) -> pa.Array:
    """The values with null for dates and timestamps before `earliest` or after Python's years: such a bound is then unknown."""
    type_ = values.type
    if pa.types.is_struct(type_) and type_.num_fields:
        children = [_null_out_of_range_times(values.field(n), earliest) for n in range(type_.num_fields)]
        return pa.StructArray.from_arrays(children, fields=[pa.field(f.name, c.type) for f, c in zip(type_, children, strict=True)], mask=pc.is_null(values))
    if not (pa.types.is_date32(type_) or (pa.types.is_timestamp(type_) and type_.unit != "ns")):
        return values
    first, last = (
        pa.scalar(day, pa.date32()) if pa.types.is_date32(type_) else pa.scalar(day, pa.timestamp("s", type_.tz)).cast(type_) for day in (earliest, _LAST)
    )
    inside = pc.and_(pc.greater_equal(values, first), pc.less_equal(values, last))
    known = pc.if_else(pc.fill_null(inside, False), values, pa.scalar(None, type_))
    return known.cast(pa.timestamp("us", "UTC")) if type_ == INT96 else known


INT96 = pa.timestamp("ms")
"""The type as which a reader returns INT96, in which Spark writes instants by default, to distinguish it from local times."""
_LAST = dt.datetime(9999, 12, 30)


def _json(values: pa.Array) -> pa.Array:
    """Values as in the statistics' JSON, one text each: decimals in full, times as ISO text in microseconds; null for nulls and for types without bounds."""
    type_ = values.type
    if pa.types.is_struct(type_):
        return _json_objects(values)
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_):
        return values.cast(pa.string())
    if pa.types.is_floating(type_):
        doubles = values.cast(pa.float64())  # what a float is exactly
        return _without(doubles.cast(pa.string()), pc.invert(pc.is_finite(doubles)))
    if pa.types.is_decimal(type_):
        return _json_decimals(values.cast(pa.string()))
    if pa.types.is_date(type_):
        return _quoted(values.cast(pa.string()))
    if pa.types.is_timestamp(type_):
        floor = pc.floor_temporal(values, unit="microsecond") if type_.unit == "ns" else values
        local = floor.cast(pa.timestamp("us", type_.tz)).view(pa.timestamp("us")).cast(pa.string())  # of UTC; to format in a zone takes ten times as long
        return _quoted(pc.binary_join_element_wise(pc.replace_substring(local, " ", "T"), "Z" if type_.tz else "", ""))
    if not pa.types.is_string(type_):
        return pa.nulls(len(values), pa.string())
    special = pc.match_substring_regex(values, r'["\\\x00-\x1f]')  # quotes, backslashes and control characters, which are escaped one by one
    return _replaced(_quoted(values), special, lambda text: orjson.dumps(text[1:-1]).decode())


def _json_objects(structs: pa.StructArray) -> pa.Array:
    """Structs as JSON's objects, without members that are null."""
    members = [pa.repeat("", len(structs))]  # of a single column pyarrow 26 leaves nulls out in place of skipping them
    for n, f in enumerate(structs.type):
        members.append(pc.binary_join_element_wise(f",{orjson.dumps(f.name).decode()}:", _json(structs.field(n)), ""))  # null where the value is
    inner = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*members, "", null_handling="skip"), 1)
    return _without(pc.binary_join_element_wise("{", inner, "}", ""), structs.is_null())


def _json_decimals(texts: pa.Array) -> pa.Array:
    """The texts of decimals as JSON numbers without exponents; null for bounds that delta-rs cut off."""
    known = _without(texts, pc.match_substring_regex(texts, _CUT_OFF))
    return _replaced(known, pc.match_substring(known, "E"), lambda text: format(decimal.Decimal(text), "f"))


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _without(texts: pa.Array, these: pa.Array) -> pa.Array:
    """The texts with null at `these`."""
    return pc.if_else(these, pa.scalar(None, pa.string()), texts)


def _replaced(texts: pa.Array, these: pa.Array, by: Callable[[str], str]) -> pa.Array:
    """The texts with what `by` makes of them at `these`."""
    at = pc.fill_null(these, False)
    return pc.replace_with_mask(texts, at, pa.array([by(text) for text in texts.filter(at).to_pylist()], pa.string()))


_CUT_OFF = r"^-?922337203685477580[78](\.0*)?$"
"""delta-rs cuts bounds of decimals off at 64 bits: 2^63 - 1, or 2^63 as a double."""
