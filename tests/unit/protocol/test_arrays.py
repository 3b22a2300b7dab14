"""Arrays made of buffers are those that Arrow makes (I3: conditions are judged by them), and a query is planned without pandas."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import rowlock
from rowlock.log.table_log import TableLog
from rowlock.protocol import arrays
from rowlock.storage.open import open_store

CASES = int(os.environ.get("ROWLOCK_PROPERTY_CASES", "200"))
WIDE = pa.decimal256(76, 38)
VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), st.text(max_size=40)),
    (pa.binary(), st.binary(max_size=40)),
    (WIDE, st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**37), max_value=10**37, places=38)),
]
COLUMNS = st.one_of(*(st.tuples(st.just(type_), st.lists(st.one_of(st.none(), values), max_size=20)) for type_, values in VALUES))


@settings(max_examples=CASES)
@given(COLUMNS, st.integers(0, 3))
def test_values_are_those_that_arrow_holds(column: tuple[pa.DataType, list[Any]], start: int) -> None:
    type_, values = column
    made, expected = arrays.of_values(values, type_), pa.array(values, type_)
    made.validate(full=True)
    assert made.equals(expected) and made.null_count == expected.null_count
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_) or pa.types.is_floating(type_):
        known = made.drop_null()[start:]
        back = arrays.to_numpy(known)
        assert back.tolist() == known.to_pylist() and arrays.of_numpy(back).equals(known)
        assert len(arrays.to_numpy(made)) == len(values)


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (1 << 63, pa.int64()),
        (5, pa.string()),
        ({}, pa.int64()),
        (decimal.Decimal("1e-39"), WIDE),
        (decimal.Decimal("1e60"), WIDE),
        (decimal.Decimal("nan"), WIDE),
    ],
)
def test_a_value_that_its_type_does_not_hold_is_refused(value: Any, type_: pa.DataType) -> None:
    with pytest.raises((ArithmeticError, TypeError, ValueError)):
        arrays.scalar(value, type_)


def test_a_mask_of_a_part_of_an_array() -> None:
    flags = np.arange(40) % 3 == 0
    assert (arrays.to_numpy(arrays.of_numpy(flags)[5:30]) == flags[5:30]).all()


PLAN = """
import datetime, decimal, sys
from rowlock.limits import set_limits
from rowlock.log.table_log import TableLog
from rowlock.protocol.predicates import And, Column, In, Like, Or, compare
from rowlock.storage.open import open_store

set_limits(changed_files=0)
snapshot = TableLog(open_store(sys.argv[1])).latest()
conditions = [
    compare("=", ("id",), 5), compare("<", ("day",), datetime.date(2020, 1, 2)), compare("=", ("part",), "a"), In(Column(("id",)), (1, 2)),
    And((Like(Column(("text",)), "te"), compare("<=", ("real",), 1.5))), Or((compare("=", ("money",), decimal.Decimal("3.50")), compare("<=>", ("id",), 7))),
]
print([len(snapshot.files.prune(c, snapshot.schema, snapshot.partition_columns)) for c in conditions], "pandas" in sys.modules)
"""


def test_a_query_of_a_table_with_a_checkpoint_is_planned_without_pandas(tmp_path: Path) -> None:
    """pyarrow imports it, 0.2 s, with the first value that pyarrow converts."""
    pytest.importorskip("pandas")
    path = str(tmp_path / "t")
    for n in range(4):
        row = {
            "id": n,
            "day": dt.date(2020, 1, 1 + n),
            "part": "ab"[n % 2],
            "text": f"text {n}",
            "real": n + 0.5,
            "money": decimal.Decimal(f"{n + 1}.50"),
        }
        rowlock.append(path, pa.Table.from_pylist([row]), partition_by="part")
    log = TableLog(open_store(path))
    log.write_checkpoint(log.latest())
    done = subprocess.run([sys.executable, "-c", PLAN, path], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["[0,", "1,", "2,", "2,", "2,", "1]", "False"], (done.stdout, done.stderr)
