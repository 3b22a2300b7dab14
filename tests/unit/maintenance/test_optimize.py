"""What OPTIMIZE chooses, and the order that it puts rows in: without Spark."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from rowlock.boundary.effects import StagedFile
from rowlock.boundary.provenance import Provenance
from rowlock.maintenance.optimize import choose_bins, order_bins
from rowlock.parquet.blocks import driver_block
from rowlock.parquet.curves import Order, arranged
from rowlock.protocol.actions import AddFile
from rowlock.protocol.clustering import Clustering
from rowlock.protocol.deletion_vector import DeletionVectorDescriptor
from rowlock.protocol.schema import PrimitiveType
from rowlock.transaction.publish.file_actions import placements

X, XY = (("x",),), (("x",), ("y",))


def file(name: str, size_bytes: int, *, partition: str = "", dead: int = 0) -> AddFile:
    vector = DeletionVectorDescriptor("u", "0" * 20, 1, 10, dead) if dead else None
    return AddFile(name, {"p": partition} if partition else {}, size_bytes, 0, True, '{"numRecords":100}', vector)


def test_bins_of_small_files() -> None:
    files = [file("a", 10), file("b", 60), file("c", 95), file("d", 200), file("e", 300, dead=20), file("f", 10, partition="1")]
    assert {frozenset(b) for b in choose_bins(files, 100)} == {frozenset("e"), frozenset("ab")}
    assert {frozenset(b) for b in order_bins(files)} == {frozenset("abcde"), frozenset("f")}


def test_spellings_of_one_time_are_one_partition() -> None:
    """As delta-spark has it.  A time without a zone is another instant in every session, so it is joined with its like alone; nor is -0.0 joined with 0.0."""
    times = ["2020-01-01T00:00:00.000000Z", "2020-01-01 01:00:00+01:00", "2020-01-01 00:00:00", "2020-01-01 00:00:00", "junk", "", "__HIVE_DEFAULT_PARTITION__"]
    files = [file(chr(97 + n), 10, partition=time) for n, time in enumerate(times)]
    for bins in (choose_bins, lambda files, most, below, types: order_bins(files, types)):
        found = {frozenset(b) for b in bins(files, 100, None, {"p": PrimitiveType("timestamp")})}
        assert {b for b in found if len(b) > 1} == {frozenset("ab"), frozenset("cd")}
    for type_, two in {"timestamp_ntz": ("2020-01-01T00:00:00", "2020-01-01 00:00:00.0"), "date": ("2020-01-01", "2020-1-1"), "double": ("1.0", "1")}.items():
        assert choose_bins([file("a", 10, partition=two[0]), file("b", 10, partition=two[1])], 100, None, {"p": PrimitiveType(type_)}) in (
            (("a", "b"),),
            (("b", "a"),),
        )
    assert choose_bins([file("a", 10, partition="0.0"), file("b", 10, partition="-0.0")], 100, None, {"p": PrimitiveType("double")}) == ()


@pytest.mark.parametrize("clustering", [None, Clustering(XY, XY, "cube", "run")], ids=["zorder", "hilbert"])
def test_near_in_both_columns_is_near_in_the_order(clustering: Clustering | None) -> None:
    grid = pa.table({"x": np.repeat(np.arange(16), 16), "y": np.tile(np.arange(16), 16)})
    order = arranged(grid, Order(XY, 1, clustering))[0]
    for start in range(0, 256, 16):
        part = grid.take(order.slice(start, 16)).to_pydict()
        assert max(part["x"]) - min(part["x"]) == max(part["y"]) - min(part["y"]) == 3


@pytest.mark.parametrize(
    "values",
    [
        [3, None, 1, 2], [True, None, False, False], ["b", None, "", "a"], [Decimal("2.50"), None, Decimal("-1.00"), Decimal("0.10")], [b"b", None, b"", b"a"],
        [dt.date(2021, 1, 1), None, dt.date(1960, 1, 1), dt.date(2020, 1, 1)], [float("nan"), None, float("-inf"), 1.0],
    ],
)  # fmt: skip
def test_nulls_first_and_then_by_value(values: list[object]) -> None:
    table = pa.table({"s": pa.array([{"inner": v} for v in values])})
    assert arranged(table, Order((("s", "inner"),), 1))[0].to_pylist() == [1, 2, 3, 0]
    assert arranged(table.slice(0, 0), Order((("s", "inner"),), 1))[0].to_pylist() == []


def test_a_new_order_is_no_placement() -> None:
    """Only rows that lie in a row, in their old order, are said to lie somewhere."""
    data = pa.table({"x": [5, 1, 4, 2]})
    origin = Provenance(("a", "b"), np.array([0, 0, 1, 1], np.int32), np.array([0, 1, 0, 1], np.int64))
    staged = [StagedFile(AddFile("out", {}, 1, 0, False, '{"numRecords":4}'))]
    taken = origin.bitmaps()
    assert set(placements([driver_block("derived", 0, data, origin)], staged, taken)) == {"a", "b"}
    along = arranged(data, Order(X, 1))[0].to_numpy()
    assert placements([driver_block("derived", 0, data.take(pa.array(along)), origin.take(along))], staged, taken) == {}
