"""What was read is compared exactly, value by value, and alike on the driver and in Spark (I3)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import rowlock
from rowlock import DeltaTable
from rowlock.api.handle import Handle
from rowlock.engines.spark.statements import row_comparison
from rowlock.exceptions import ConcurrentDeleteReadException
from spark.support import set_limits
from support.turning_down import turn_down

NAN = "double('NaN')"
FAR = "timestamp_micros(316516118400000001L)"  # in the year 12000
PAIRS = {
    "timestamp": [
        ("timestamp'2024-01-01 00:00:00.000001Z'", "timestamp'2024-01-01 00:00:00.000002Z'"), ("timestamp'1500-02-28 00:00:00.000001Z'", "timestamp'1500-02-28 00:00:00.000002Z'"),
        (FAR, f"{FAR} + interval 1 microsecond"), ("timestamp'2024-11-03 05:30:00Z'", "timestamp'2024-11-03 06:30:00Z'"),
    ],
    "timestamp_ntz": [("timestamp_ntz'2024-03-10 02:30:00'", "timestamp_ntz'2024-03-10 03:30:00'"), ("timestamp_ntz'1500-02-28 00:00:00.000001'", "timestamp_ntz'1500-02-28 00:00:00.000002'")],
    "date": [("date'+12000-01-01'", "date'+12000-01-02'"), ("date'1500-01-01'", "date'1500-01-02'")],
    "double": [("double('0.0')", "double('-0.0')"), ("double('0.1')", "double('0.10000000000000002')"), ("double('NaN')", "null")],
    "float": [("float('1.0')", "float('1.0000001')"), ("float('0.0')", "float('-0.0')")],
    "decimal(38,18)": [("12345678901234567890.123456789012345678", "12345678901234567890.123456789012345679")],
    "long": [("9007199254740992L", "9007199254740993L")],
    "binary": [("X'FF'", "X'FE'"), ("X''", "null")],
    "string": [("'a'", "'a '"), ("'null'", "null"), ("''", "null")],
    "struct<t: timestamp, f: double>": [("named_struct('t', null, 'f', null)", "null"), (f"named_struct('t', {FAR}, 'f', null)", f"named_struct('t', {FAR} + interval 1 microsecond, 'f', null)")],
    "array<timestamp_ntz>": [("array(timestamp_ntz'2024-01-01 00:00:00.000001')", "array(timestamp_ntz'2024-01-01 00:00:00.000002')"), ("array()", "null")],
    "map<string, double>": [("map('a', 0.0D)", "map('a', -0.0D)"), ("map('a', 1.0D, 'b', 2.0D)", "map('b', 2.0D, 'a', 1.0D)")],
    "map<binary, array<timestamp>>": [("map(X'FF', array(timestamp'2024-01-01 00:00:00.000001Z'))", "map(X'FF', array(timestamp'2024-01-01 00:00:00.000002Z'))"), ("map(X'FE', null)", "map(X'FD', null)")],
}  # fmt: skip
"""By type: two values that are not the same."""

_DATE, _TEXT, _TIME = "CAST(date'2024-01-01' AS variant)", "CAST('2024-01-01' AS variant)", "'2024-01-01 00:00:00'"
VARIANTS = [
    (_DATE, _TEXT), (f"to_variant_object(array({_DATE}, {_TEXT}))", f"to_variant_object(array({_TEXT}, {_DATE}))"), ("parse_json('null')", "null"),
    ("CAST(1.0BD AS variant)", "CAST(1.0D AS variant)"), ("CAST(1.0F AS variant)", "CAST(1.0D AS variant)"), ("parse_json('[1]')", "parse_json('[1, null]')"),
    (f"CAST(timestamp{_TIME} AS variant)", f"CAST(timestamp_ntz{_TIME} AS variant)"), ("to_variant_object(named_struct('a', 1))", "to_variant_object(named_struct('b', 1))"),
]  # fmt: skip
"""Two variants that are not the same, though some have the same JSON."""

CELLS = [(n, pair) for n, pairs in enumerate(PAIRS.values()) for pair in pairs]


@pytest.fixture
def new_york(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def rows_of(spark: SparkSession, side: int):
    """One row for each pair with the one value or the other; and one that both sides have, with all the values that there are."""
    selects = [
        f"SELECT {i}L AS id, " + ", ".join(f"{pair[side] if m == n else 'null'} AS c{m}" for m in range(len(PAIRS))) for i, (n, pair) in enumerate(CELLS)
    ]
    selects.append(
        f"SELECT {len(CELLS)}L AS id, " + ", ".join(f"{pairs[0][0] if t != 'double' else NAN} AS c{m}" for m, (t, pairs) in enumerate(PAIRS.items()))
    )
    typed = ", ".join(f"CAST(c{m} AS {t}) AS c{m}" for m, t in enumerate(PAIRS))
    return spark.sql(f"SELECT id, {typed} FROM ({' UNION ALL '.join(selects)})").coalesce(1)


@pytest.mark.no_peers("values that Python cannot hold")
def test_every_type_on_both_ways(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, new_york: None) -> None:
    """I3: each value that differs in anything is told, each that does not is not, and by the same rows at every size."""
    turn_down(monkeypatch, driver_rows=0, append_driver_bytes=0)
    rowlock.write(rows_of(spark, 0), table_path, properties={"delta.dataSkippingNumIndexedCols": "0"})
    rowlock.write(rows_of(spark, 1), table_path, mode="overwrite")
    handle = Handle(spark, table_path)
    engine, log, after = handle.table.engine, handle.state.log, handle.state.refresh()
    before = log.at(after.version - 1)
    sides = [[row_comparison.Slice(f) for f in snapshot.files.adds()] for snapshot in (before, after)]
    found = {}
    for way, local in (("driver", 20_000), ("spark", -1)):
        set_limits(monkeypatch, small=0, local=local)
        assert (row_comparison._on_driver(handle.engine.evaluator, (sides[0], before)) is not None) == (way == "driver")
        found[way] = engine.differ(sides[0], before, sides[1], after, 1000)
        assert engine.differ(sides[0], before, sides[0], before, 1000) == []
        assert sorted(r["id"] for r in found[way]) == sorted([*range(len(CELLS))] * 2)
        assert len(engine.differ(sides[0], before, [], after, 5)) == len(engine.differ([], before, sides[1], after, 5)) == 5
    assert sorted(map(repr, found["driver"])) == sorted(map(repr, found["spark"]))


@pytest.mark.no_peers("deltalake and DuckDB do not read variants")
def test_variants_of_the_same_json_are_not_the_same(spark: SparkSession, table_path: str) -> None:
    """I3: a date is not its text, nor a decimal a double, on their own and inside of other types; Spark alone reads them."""
    for side, mode in ((0, "append"), (1, "overwrite")):
        cells = [f"SELECT {n}L AS id, {pair[side]} AS v UNION ALL SELECT {n + 100}L, {pair[0]}" for n, pair in enumerate(VARIANTS)]
        wrapped = "array(v) AS a, map('k', v) AS m, named_struct('v', v) AS s"
        rowlock.write(spark.sql(f"SELECT *, {wrapped} FROM ({' UNION ALL '.join(cells)})").repartition(side + 1), table_path, mode=mode)
    handle = Handle(spark, table_path)
    engine, after = handle.table.engine, handle.state.refresh()
    before = handle.state.log.at(after.version - 1)
    sides = [[row_comparison.Slice(f) for f in snapshot.files.adds()] for snapshot in (before, after)]
    found = engine.differ(sides[0], before, sides[1], after, 1000)
    assert sorted(r["id"] for r in found) == sorted([*range(len(VARIANTS))] * 2)


@pytest.mark.parametrize("local", [20_000, 0])
@pytest.mark.short("0", ci=("20000",), why="the same comparison the other way")
def test_a_microsecond_in_what_was_read(spark: SparkSession, table_path: str, monkeypatch: pytest.MonkeyPatch, local: int) -> None:
    """I3: under `serializable` a change of less than a millisecond is a change, however many rows there are."""
    rowlock.write(spark.sql("SELECT id, timestamp'2024-01-01 00:00:00.000001' AS t FROM range(3)").coalesce(1), table_path)
    set_limits(monkeypatch, small=100_000, local=local)
    table, other = DeltaTable.forPath(spark, table_path), DeltaTable.forPath(spark, table_path)
    with pytest.raises(ConcurrentDeleteReadException), table.transaction(isolation="serializable") as txn:
        count = txn.toDF().where("t < timestamp'2024-01-01 00:00:00.000002'").count()
        other.update("id = 1", {"t": "t + interval 1 microsecond"})
        txn.append(spark.sql(f"SELECT {count}L AS id, timestamp'2024-01-01' AS t"))
