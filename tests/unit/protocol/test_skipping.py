"""Statistics bound, and skipping believes them no further than that. I3, I5: no file is skipped that holds a matching row."""

from __future__ import annotations

import datetime as dt
import io
import math
import os
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from rowlock.log import frames
from rowlock.log.pruning import QuickBounds, files_that_may_match
from rowlock.protocol import statistics as stats
from rowlock.protocol.actions import AddFile
from rowlock.protocol.arrow_types import to_arrow
from rowlock.protocol.bounds import comparable
from rowlock.protocol.evaluation import Places, as_mask, may_hold
from rowlock.protocol.intervals import LONG, of_rows
from rowlock.protocol.predicates import And, Call, Cast, Column, Compare, In, IsNull, Like, Literal, Not, Or, Predicate, Unknown, compare, nodes
from rowlock.protocol.schema import DataType, DecimalType, PrimitiveType, StructField, StructType

CASES = int(os.environ.get("ROWLOCK_PROPERTY_CASES", "200"))
LETTERS = st.sampled_from(["a", "b", "~", "\x7f", "é", "\ud7ff", "\ufffd", "\uffff", "😀", "\U0010ffff"])
COLUMNS: dict[str, tuple[DataType, st.SearchStrategy[Any]]] = {
    "i": (PrimitiveType("long"), st.one_of(st.integers(-5, 5), st.integers(-(1 << 63), (1 << 63) - 1))),
    "d": (PrimitiveType("double"), st.one_of(st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5]), st.floats(-10, 10))),
    "s": (PrimitiveType("string"), st.one_of(st.text(LETTERS, max_size=3), st.text(LETTERS, min_size=30, max_size=36))),
    "t": (PrimitiveType("timestamp"), st.datetimes(dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 0, 5000), timezones=st.just(dt.UTC))),
    "y": (PrimitiveType("date"), st.dates(dt.date(2020, 1, 1), dt.date(2020, 1, 9))),
    "n": (DecimalType(20, 2), st.decimals(-(10**17), 10**17, places=2)),
    "b": (PrimitiveType("boolean"), st.booleans()),
}
SCHEMA = StructType(tuple(StructField(name, type_) for name, (type_, _) in COLUMNS.items()))
LEAVES = stats.indexed_leaves(SCHEMA, num_indexed=-1)
ROW = st.fixed_dictionaries({name: st.one_of(st.none(), values) for name, (_, values) in COLUMNS.items()})


def leaf(rows: Sequence[dict[str, Any]]) -> st.SearchStrategy[Predicate]:
    """Predicates about values that are there, and about others."""

    def of_column(name: str) -> st.SearchStrategy[Predicate]:
        there = [row[name] for row in rows]
        value = st.one_of(st.sampled_from(there), COLUMNS[name][1], st.none()) if there else COLUMNS[name][1]
        compared = st.builds(compare, st.sampled_from(["=", "<=>", "<", "<=", ">", ">=", "!="]), st.just((name,)), value)
        null = IsNull(Column((name,)))
        kinds: list[st.SearchStrategy[Predicate]] = [compared, compared, st.just(null), st.just(Not(null))]
        kinds.append(st.builds(In, st.just(Column((name,))), st.lists(value, max_size=3).map(tuple)))
        if name == "s":
            kinds.append(
                st.builds(Like, st.just(Column(("s",))), st.one_of(st.text(LETTERS, max_size=2), st.sampled_from([(t or "")[:33] for t in there] or [""])))
            )
        return st.one_of(kinds)

    return st.one_of(st.just(Unknown()), st.sampled_from(sorted(COLUMNS)).flatmap(of_column))


def predicates(rows: Sequence[dict[str, Any]]) -> st.SearchStrategy[Predicate]:
    return st.recursive(
        leaf(rows),
        lambda inner: st.one_of(st.builds(Not, inner), st.lists(inner, max_size=3).map(tuple).map(And), st.lists(inner, max_size=3).map(tuple).map(Or)),
        max_leaves=5,
    )


def spark_order(value: Any) -> Any:
    """NaN is the greatest and equals itself; -0.0 equals 0.0; text by code points."""
    return (1, 0.0) if isinstance(value, float) and math.isnan(value) else (0, value)


def evaluate(p: Predicate, row: dict[str, Any]) -> bool | None:
    """SQL's three values. Unknown counts as true: any row may match it."""
    if isinstance(p, And | Or):
        results = [evaluate(part, row) for part in p.parts]
        decisive = isinstance(p, Or)
        return decisive if decisive in results else None if None in results else not decisive
    if isinstance(p, Not):
        inner = evaluate(p.part, row)
        return True if isinstance(p.part, Unknown) else None if inner is None else not inner
    if isinstance(p, Unknown):
        return True
    column: Any = p.left if isinstance(p, Compare) else p.value
    value = row[column.path[0]]
    if isinstance(p, IsNull):
        return value is None
    if isinstance(p, Like):
        return None if value is None else value.startswith(p.start)
    if isinstance(p, In):
        results = [evaluate(compare("=", column.path, v), row) for v in p.values]
        return True if True in results else None if None in results else False
    other: Any = p.right.value  # type: ignore[union-attr]
    if p.op == "<=>":
        return (value is None) == (other is None) and (value is None or spark_order(value) == spark_order(other))
    if value is None or other is None:
        return None
    a, b = spark_order(value), spark_order(other)
    return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[p.op]


def doubtful(p: Predicate) -> bool:
    """Whether a constant has no certain meaning for its column."""
    return any(v is not None and comparable(v, COLUMNS[c.path[0]][0]) is None for n in nodes(p) for c, v in constants_in(n))


def constants_in(n: Any) -> list[tuple[Any, Any]]:
    return [(n.left, n.right.value)] if isinstance(n, Compare) else [(n.value, v) for v in n.values] if isinstance(n, In) else []


def has_unknown(p: Predicate) -> bool:
    return isinstance(p, Unknown) or (isinstance(p, And | Or) and any(map(has_unknown, p.parts))) or (isinstance(p, Not) and has_unknown(p.part))


def may_match(predicate: Predicate, values: dict[str, Any], stats: dict[str, Any], schema: StructType) -> bool:
    return bool(files_that_may_match(predicate, [values], [stats], schema)[0])


def quickly(bounds: QuickBounds, predicate: Predicate, schema: StructType, size: int) -> list[bool]:
    """The files that the quick pass keeps."""
    return list(as_mask(may_hold(predicate, Places(lambda path: bounds.of(path, schema))), size))


@settings(max_examples=CASES)
@given(st.data(), st.lists(ROW, min_size=1, max_size=5), st.booleans(), st.sets(st.sampled_from(["b", "y", "d", "s"])))
def test_no_file_with_a_matching_row_is_skipped(data: st.DataObject, rows: list[dict[str, Any]], from_footer: bool, partitions: set[str]) -> None:
    predicate = data.draw(predicates(rows))
    for name in partitions:  # a partition column has one value in a file
        rows = [row | {name: rows[0][name]} for row in rows]
    table = pa.Table.from_pylist(rows, schema=to_arrow(SCHEMA))
    leaves = [(path, type_) for path, type_ in LEAVES if path[0] not in partitions]
    if from_footer:
        sink = pa.BufferOutputStream()
        pq.write_table(table.select([p[0] for p, _ in leaves]), sink, row_group_size=2, coerce_timestamps="us")
        text = stats.from_parquet_metadata(pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata, leaves)
    else:
        text = stats.from_arrow(table, leaves)
    constants = {name: rows[0][name] for name in partitions}
    true = [evaluate(predicate, row) is True for row in rows]
    found = as_mask(may_hold(predicate, Places(lambda path: of_rows(table.column(path[0]), COLUMNS[path[0]][0]))), len(rows))
    assert has_unknown(predicate) or doubtful(predicate) or list(found) == true
    assert all(may for may, is_true in zip(found, true, strict=True) if is_true)
    if not has_unknown(predicate) and any(evaluate(predicate, row) is True for row in rows):
        for statistics in (text, stats.widened(text) or "", "{}"):
            assert may_match(predicate, constants, orjson.loads(statistics), SCHEMA)


def file(*rows: dict[str, Any]) -> dict[str, Any]:
    table = pa.Table.from_pylist([dict.fromkeys(COLUMNS) | row for row in rows], schema=to_arrow(SCHEMA))
    return dict(orjson.loads(stats.from_arrow(table, LEAVES)))


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (compare("=", ("i",), 5), True),
        (compare("=", ("i",), 11), False),
        (compare("<", ("i",), 1), False),
        (compare("<=", ("i",), 1), True),
        (Not(compare(">", ("i",), 0)), False),
        (Not(Or((compare("<", ("i",), 3), compare(">", ("i",), 8)))), True),
        (And((compare(">", ("i",), 4), compare("=", ("s",), "zzz"))), False),
        (Or((compare(">", ("i",), 99), Unknown())), True),
        (Not(Unknown()), True),
        (IsNull(Column(("i",))), False),
        (IsNull(Column(("d",))), True),
        (Not(IsNull(Column(("d",)))), False),
        (compare("=", ("i",), None), False),
        (compare("<=>", ("i",), None), False),
        (In(Column(("i",)), (11, 12)), False),
        (In(Column(("i",)), (11, 7)), True),
        (Like(Column(("s",)), "ab"), True),
        (Like(Column(("s",)), "c"), False),
        (compare("=", ("I",), 11), False),
        (compare("=", ("absent",), 11), True),
        (compare("=", ("i",), "5"), True),
        (compare("=", ("i",), 11.0), False),
    ],
)
def test_what_is_skipped(predicate: Predicate, kept: bool) -> None:
    assert may_match(predicate, {}, file({"i": 1, "s": "abc"}, {"i": 10, "s": "abz"}), SCHEMA) is kept


def test_traps_of_others_statistics() -> None:
    """Bounds as other engines cut them."""
    late = dt.datetime(2020, 1, 1, 0, 0, 0, 999, tzinfo=dt.UTC)
    cut = {"numRecords": 1, "minValues": {"t": "2020-01-01T00:00:00.000Z"}, "maxValues": {"t": "2020-01-01T00:00:00.000Z"}}
    assert may_match(compare("=", ("t",), late), {}, cut, SCHEMA)
    assert not may_match(compare("=", ("t",), late + dt.timedelta(seconds=1)), {}, cut, SCHEMA)
    assert may_match(compare("=", ("t",), late), {}, {"maxValues": {"t": "2019-01-01 00:00:00"}}, SCHEMA), "whose clock is not said"
    assert may_match(compare(">", ("s",), "abcd"), {}, {"maxValues": {"s": "abc"}}, SCHEMA), "a maximum may be a mere prefix"
    assert may_match(compare("=", ("s",), "abc😀"), {}, {"maxValues": {"s": "abc\ufffd"}}, SCHEMA), "marked with a character that is not the greatest"
    assert may_match(compare(">", ("d",), 5.0), {}, {"maxValues": {"d": 1.0}}, SCHEMA), "NaN may hide above"
    assert not may_match(compare("=", ("d",), 5.0), {}, {"maxValues": {"d": 1.0}}, SCHEMA)
    assert may_match(compare("=", ("d",), 5.0), {}, {"maxValues": {"d": "NaN"}}, SCHEMA)
    assert may_match(compare("=", ("n",), Decimal("12345678901234567.89")), {}, orjson.loads('{"maxValues":{"n":12345678901234567.88}}'), SCHEMA), (
        "went through a float"
    )
    assert may_match(Not(IsNull(Column(("i",)))), {}, {"numRecords": 5, "nullCount": {"i": 4}, "tightBounds": False}, SCHEMA)
    single = StructType((StructField("f", PrimitiveType("float")),))
    assert may_match(compare(">=", ("f",), 1.100000023841858), {}, {"minValues": {"f": 1.1}, "maxValues": {"f": 1.1}}, single)
    assert may_match(compare("=", ("f",), 1.100000023841858), {}, {"minValues": {"f": 1.1}, "maxValues": {"f": 1.1}}, single)


@pytest.mark.parametrize(
    ("precision", "scale", "held", "bound"),
    [
        (38, 0, "9007199254740993", "9007199254740992"),
        (38, 0, "-9007199254740993", "-9007199254740992"),
        (38, 0, "99999999999999999999999999999999999998", "9223372036854775807"),
        (38, 0, "-99999999999999999999999999999999999998", "-9223372036854775808"),
        (38, 18, "1.000000000000000001", "1"),
        (38, 18, "1.000000000000000001", "1.0"),
        (20, 2, "12345678901234567.89", "12345678901234568"),
    ],
)
def test_bounds_of_decimals_as_delta_rs_writes_them(precision: int, scale: int, held: str, bound: str) -> None:
    """I3, I5: they were computed as floats and cut to 64 bits; a statement that asks for the row must find its file."""
    schema = StructType((StructField("n", DecimalType(precision, scale)),))
    known = orjson.loads(f'{{"numRecords":1,"minValues":{{"n":{bound}}},"maxValues":{{"n":{bound}}},"nullCount":{{"n":0}}}}')
    for op in ("=", "<=", ">="):
        assert may_match(compare(op, ("n",), Decimal(held)), {}, known, schema)


def test_bounds_of_small_decimals_are_exact() -> None:
    """A point query on a key must still skip."""
    schema = StructType((StructField("n", DecimalType(38, 0)),))
    known = {"numRecords": 1, "minValues": {"n": 5}, "maxValues": {"n": 7}, "nullCount": {"n": 0}}
    assert [v for v in range(12) if may_match(compare("=", ("n",), Decimal(v)), {}, known, schema)] == [5, 6, 7]


@pytest.mark.parametrize(
    ("low", "high", "op", "value"), [("\ufffd", "z", "<", "é"), ("a", "a\ufffdb", ">", "a😀"), ("a\ufffd", "b", "<", "a"), ("\ufffd", "\ufffd", "=", "z")]
)
def test_bounds_with_the_mark_of_lost_bytes(low: str, high: str, op: Any, value: str) -> None:
    """I3: others write U+FFFD in place of bytes that are no UTF-8, which may lie below it and above it."""
    known = {"numRecords": 2, "minValues": {"s": low}, "maxValues": {"s": high}, "nullCount": {"s": 0}}
    schema = StructType((StructField("s", PrimitiveType("string")),))
    wanted = compare(op, ("s",), value)
    assert may_match(wanted, {}, known, schema) or (op == "<" and value == "a")
    frame = frames.from_adds([AddFile("x", {}, 1, 1, True, orjson.dumps(known).decode())])
    assert quickly(QuickBounds(frame), wanted, schema, 1) == [True] or (op == "<" and value == "a")


def test_columns_of_bounds_drop_files_of_which_single_statistics_are_odd() -> None:
    """The quick pass is worth its name, and where it cannot tell it keeps the file."""
    stats = [
        *(
            orjson.dumps({"minValues": {"i": n, "s": f"a{n}", "d": f"2024-01-0{n}"}, "maxValues": {"i": n, "s": f"a{n}", "d": f"2024-01-0{n}"}}).decode()
            for n in (1, 3, 5)
        ),
        None,
        '{"minValues":{"other":1},"maxValues":{"i":null}}',
    ]
    schema = StructType(tuple(StructField(n, PrimitiveType(t)) for n, t in (("i", "integer"), ("s", "string"), ("d", "date"))))
    bounds = QuickBounds(frames.from_adds(AddFile(f"{n}", {}, 1, 1, True, s) for n, s in enumerate(stats)))
    for column, value in (("i", 3), ("s", "a3"), ("d", dt.date(2024, 1, 3))):
        for op, kept in (("=", [False, True, False]), ("<=", [True, True, False]), (">=", [False, True, True])):
            assert quickly(bounds, compare(op, (column,), value), schema, 5) == [*kept, True, True]  # type: ignore[arg-type]
    for odd in ('{"minValues":{"i":"x"},"maxValues":{"i":9}}', '{"minValues":{"i":9', '{"minValues":{"i":1},"maxValues":{"i":1}}{}'):
        broken = QuickBounds(frames.from_adds([AddFile("a", {}, 1, 1, True, odd), AddFile("b", {}, 1, 1, True, stats[0])]))
        assert quickly(broken, compare("=", ("i",), 7), schema, 2) == [True, True]
    for nothing in ("null", " null", " ", "", "[1]", "x"):
        bounds = QuickBounds(frames.from_adds([AddFile("a", {}, 1, 1, True, nothing), AddFile("b", {}, 1, 1, True, stats[0])]))
        assert quickly(bounds, compare("=", ("i",), 7), schema, 2) == [True, False], "pyarrow ends the process at a first row of null"
    shifted = QuickBounds(frames.from_adds([AddFile("a", {}, 1, 1, True, ""), AddFile("b", {}, 1, 1, True, f"{stats[0]}\n{stats[1]}")]))
    assert quickly(shifted, compare("=", ("i",), 3), schema, 2) == [True, True], "no file gets the bounds of another"


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("held", [{}, {"minValues": {"i": 5}}, {"maxValues": {"i": 5}}, {"minValues": {"i": -5}, "maxValues": {"i": 5}}])
def test_of_a_function_without_a_known_argument_nothing_is_known(held: dict[str, Any], negated: bool) -> None:
    """A division by zero is null, a sum may wrap around: no value and no null is ruled out, though the arguments are not null."""
    i = Column(("i",))
    small = Cast(i, PrimitiveType("integer"))
    for value in (Call("%", (Literal(7, LONG), i)), Call("%", (Literal(7, LONG), Call("coalesce", (i, Literal(7, LONG))))), small):
        for test in (IsNull(value), Compare("<", value, Literal(-9, LONG)), In(value, (-9,))):
            if value is small and "maxValues" in held and "minValues" in held:
                continue  # it fits
            files = [{"numRecords": 3, "nullCount": {"i": 0}, **held}]
            assert files_that_may_match(Not(test) if negated else test, [{}], files, SCHEMA).all(), (test, held)
    if "minValues" not in held or "maxValues" not in held:
        for name in ("+", "-", "*"):
            moved = Compare(">", Call(name, (i, Literal(1 << 40, LONG))), Literal((1 << 63) - 9, LONG))
            assert files_that_may_match(moved, [{}], [{"numRecords": 3, "nullCount": {"i": 0}, **held}], SCHEMA).all(), (name, held)


def test_a_function_with_more_arguments_than_are_known_of_it_rules_nothing_out() -> None:
    """`trim(BOTH 'x' FROM s)` is the function `trim` of two values."""
    trimmed = Compare("=", Call("trim", (Column(("s",)), Literal("x", PrimitiveType("string")))), Literal("a", PrimitiveType("string")))
    assert files_that_may_match(trimmed, [{}], [{"numRecords": 3, "nullCount": {"s": 0}, "minValues": {"s": "x"}, "maxValues": {"s": "xx"}}], SCHEMA).all()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("like", "true"), [({"start": "a"}, [True, False, None]), ({"end": "b"}, [True, True, None]), ({"inside": ("x",)}, [False, False, None])]
)
def test_a_pattern_known_in_part_rules_rows_out_and_none_in(like: dict[str, Any], true: list[bool | None], exact: bool) -> None:
    """What LIKE demands may be necessary without being sufficient: then no row is certain, nor is it that NOT LIKE fails."""
    rows = Places(lambda path: of_rows(pa.array(["a b", "b", None]), PrimitiveType("string")))
    pattern = Like(Column(("s",)), **like, exact=exact)
    for predicate, wanted in ((pattern, True), (Not(pattern), False)):
        sure = [False if t is None else t is wanted if exact else False if wanted and not t else None for t in true]
        assert may_hold(predicate, rows).to_pylist() == sure, predicate


@pytest.mark.parametrize("size", [3, 60])
@pytest.mark.parametrize("name", ["i", "d", "s", "n"])
def test_few_and_many_constants_mean_the_same(name: str, size: int) -> None:
    """-0.0 is 0.0, NaN is no constant's equal; over files IN asks whether a constant lies between the bounds."""
    type_ = COLUMNS[name][0]
    held: list[Any] = {
        "i": [0, 1, -7, None],
        "d": [-0.0, 1.0, float("nan"), None],
        "s": ["", "a", "zz", None],
        "n": [Decimal(0), Decimal("1.00"), Decimal("7.25"), None],
    }[name]
    more: list[Any] = [{"i": n, "d": float(n), "s": f"k{n}", "n": Decimal(n)}[name] for n in range(100, 98 + size)]
    wanted = (*held[:2], *more) if name != "d" else (0.0, 1.0, *more)
    column = Column((name,))
    rows = Places(lambda path: of_rows(pa.array(held, pa.decimal128(18, 2) if name == "n" else None), type_))
    assert may_hold(In(column, wanted), rows).to_pylist() == [True, True, False, False]
    assert may_hold(Not(In(column, wanted)), rows).to_pylist() == [False, False, True, False]
    assert as_mask(may_hold(Not(In(column, (*wanted, None))), rows), 4).tolist() == [False] * 4
    low, high = ({"i": (a, b), "d": (float(a), float(b)), "s": (f"k{a}", f"k{b}"), "n": (a, b)}[name] for a, b in ((100, 104), (500, 504)))
    files = [{"numRecords": 2, "nullCount": {name: 0}, "minValues": {name: a}, "maxValues": {name: b}} for a, b in (low, high)]
    assert list(files_that_may_match(In(column, wanted), [{}, {}, {}], [*files, {}], SCHEMA)) == [True, False, True]


def test_a_text_of_the_greatest_characters_is_found() -> None:
    """All of it looks like the mark of a maximum that was cut off."""
    text = "\U0010ffff" * 6
    assert may_match(compare("=", ("s",), text), {}, {"numRecords": 1, "minValues": {"s": text}, "maxValues": {"s": text}, "nullCount": {"s": 0}}, SCHEMA)


def test_text_that_is_no_utf8_has_no_bounds() -> None:
    """Spark casts binary to such text; a bound in its place would be a false one."""
    text = pa.array([b"ok", b"\xc3(", None], pa.binary()).view(pa.string())
    found = orjson.loads(stats.from_arrow(pa.table({"s": text, "i": [1, 2, 3]}), [(("s",), PrimitiveType("string")), (("i",), PrimitiveType("long"))]))
    assert found["minValues"] == {"i": 1} and found["maxValues"] == {"i": 3} and found["nullCount"] == {"s": 1, "i": 0}


def test_statistics_as_text() -> None:
    schema = StructType(
        (
            StructField("s", StructType((StructField("x", PrimitiveType("long")), StructField("y", PrimitiveType("string"))))),
            StructField("p", PrimitiveType("string")),
            StructField("n", DecimalType(38, 2)),
            StructField("t", PrimitiveType("timestamp")),
            StructField("late", PrimitiveType("long")),
        )
    )
    rows = [
        {"s": {"x": 1, "y": "a" * 40}, "n": Decimal("12345678901234567890.12"), "t": dt.datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC), "late": 1},
        {"s": None, "n": None, "t": dt.datetime(1960, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC), "late": 2},
    ]
    leaves = stats.indexed_leaves(schema, num_indexed=4, partition_columns=["P"])
    text = stats.from_arrow(pa.Table.from_pylist(rows, schema=to_arrow(schema)).drop_columns(["p"]), leaves)
    assert '"n":12345678901234567890.12' in text, "a decimal is an exact number"
    parsed = orjson.loads(text)
    assert parsed["numRecords"] == 2 and parsed["tightBounds"] is True
    assert parsed["nullCount"] == {"s": {"x": 1, "y": 1}, "n": 1, "t": 0}
    assert parsed["minValues"]["s"] == {"x": 1, "y": "a" * 32} and parsed["maxValues"]["s"]["y"] == "a" * 31 + "\x7f"
    assert (parsed["minValues"]["t"], parsed["maxValues"]["t"]) == ("1960-01-01T00:00:00.000Z", "2020-01-01T00:00:00.001Z")
    assert orjson.loads(stats.widened(text) or "")["tightBounds"] is False
    assert stats.widened(None, 5) == '{"numRecords":5,"tightBounds":false}' and stats.widened(None) is None
    assert stats.widened('{"numRecords":5}') == '{"numRecords":5,"tightBounds":false}'
    assert [p for p, _ in stats.indexed_leaves(schema, stats_columns=["s", "LATE"])] == [("s", "x"), ("s", "y"), ("late",)]


FAR = StructType(tuple(StructField(n, PrimitiveType(t)) for n, t in (("d", "date"), ("t", "timestamp"), ("z", "timestamp_ntz"))))


@pytest.mark.parametrize("days", [2_932_897, 3_000_000, -719_163, -800_000])
def test_years_that_python_has_not(days: int) -> None:
    """I9: a date or time before year 1 or after 9999 has no bound, by rows and by footer; the other bound stays."""
    micros = days * 86_400_000_000
    arrays = [pa.array([0, days], pa.date32()), pa.array([0, micros], pa.timestamp("us", tz="UTC")), pa.array([0, micros], pa.timestamp("us"))]
    table = pa.table(arrays, names=["d", "t", "z"])
    leaves = stats.indexed_leaves(FAR)
    out = io.BytesIO()
    pq.write_table(table, out)
    near, far = ("minValues", "maxValues") if days > 0 else ("maxValues", "minValues")
    by_rows = orjson.loads(stats.from_arrow(table, leaves))
    assert by_rows[far] == {} and by_rows[near]["d"] == "1970-01-01" and set(by_rows[near]) == {"d", "t", "z"}
    by_footer = orjson.loads(stats.from_parquet_metadata(pq.read_metadata(out), leaves))
    assert by_footer[far] == {} and set(by_footer[near]) <= {"d", "t", "z"} and by_footer["nullCount"] == {"d": 0, "t": 0, "z": 0}
    for text in (f"{'+' if days > 0 else '-'}10183-09-21", f"{'+' if days > 0 else '-'}10183-09-21T00:00:00.000Z"):
        others = {"numRecords": 1, "minValues": {"d": text, "t": text}, "maxValues": {"d": text, "t": text}, "nullCount": {"d": 0, "t": 0}}
        assert may_match(compare("=", ("d",), dt.date(2020, 1, 1)), {}, others, FAR) and may_match(
            compare("=", ("t",), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)), {}, others, FAR
        )


@pytest.mark.parametrize(
    ("text", "true", "beside"),
    [
        ("1869-12-30T19:03:58.000-04:56:02", dt.datetime(1869, 12, 31), dt.timedelta(seconds=1)),  # delta-spark
        ("1869-12-31T00:17:30.000+00:17:30", dt.datetime(1869, 12, 31), dt.timedelta(seconds=1)),
        ("1869-12-30T19:03:58.000-04:56", dt.datetime(1869, 12, 31), dt.timedelta(minutes=2)),  # a writer that cuts the seconds off
        ("1869-12-31T00:17:30.000+00:17", dt.datetime(1869, 12, 31), dt.timedelta(minutes=2)),
        ("1965-01-01T23:15:30.000-00:44", dt.datetime(1965, 1, 2), dt.timedelta(minutes=2)),
    ],
)
def test_local_mean_times_in_others_statistics(text: str, true: dt.datetime, beside: dt.timedelta) -> None:
    """I3: an offset of seconds is read, and one that was cut to minutes is not believed to the second."""
    others = {"numRecords": 1, "minValues": {"t": text}, "maxValues": {"t": text}, "nullCount": {"t": 0}}
    at = true.replace(tzinfo=dt.UTC)
    assert may_match(compare("=", ("t",), at), {}, others, FAR)
    assert not may_match(compare("=", ("t",), at + beside), {}, others, FAR) and not may_match(compare("=", ("t",), at - beside), {}, others, FAR)


STATISTICS = ("numRecords", "nullCount", "minValues", "maxValues", "tightBounds")


def test_columns_that_are_called_as_statistics_are() -> None:
    """I3: a column named numRecords, nullCount, minValues or tightBounds is a column; the count and the looseness of the file are its own."""
    schema = StructType(tuple(StructField(n, PrimitiveType("boolean" if n == "tightBounds" else "long")) for n in STATISTICS))
    table = pa.table({n: [True, True] if n == "tightBounds" else [5, 9] for n in STATISTICS})
    text = stats.from_arrow(table, stats.indexed_leaves(schema))
    for told in (
        text,
        orjson.dumps({k: v for k, v in orjson.loads(text).items() if k not in ("numRecords", "tightBounds")}).decode(),
        '{"minValues":{"tightBounds":true,"numRecords":1.50}}',
    ):
        wide = orjson.loads(loose := stats.widened(told, 2) or "")
        assert wide["tightBounds"] is False and wide["numRecords"] == 2 and wide.get("maxValues") == orjson.loads(told).get("maxValues")
        assert wide["minValues"] == orjson.loads(told)["minValues"] and ("1.50" in loose) == ("1.50" in told)
        assert stats.widened(loose, 2) == loose
    parsed = orjson.loads(text)
    for name in STATISTICS[:-1]:
        assert not may_match(compare("=", (name,), 4), {}, parsed, schema) and may_match(compare("=", (name,), 9), {}, parsed, schema)
