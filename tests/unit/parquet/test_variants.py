"""Variants as data files hold them."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowlock.parquet.variants import with_required_binaries
from rowlock.protocol.arrow_types import VARIANT


def _value(code: int) -> dict[str, bytes]:
    return {"value": bytes([12, code]), "metadata": b"\x01\x00\x00"}


ROWS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "plain": (VARIANT, [_value(1), None, _value(2)]),
    "list": (pa.list_(pa.field("element", VARIANT)), [[_value(1), None], None, []]),
    "map": (pa.map_(pa.string(), VARIANT), [[("k", _value(1))], None, [("a", None)]]),
    "struct": (pa.struct([("v", VARIANT), ("n", pa.int32())]), [{"v": _value(1), "n": 1}, None, {"v": None, "n": 2}]),
}


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("part", [slice(0, 3), slice(1, 3), slice(0, 0)], ids=["all", "from the second", "none"])
def test_the_binaries_of_a_variant_are_required(kind: str, part: slice) -> None:
    """Parquet has them so where the variant is not shredded, and Spark 4.0 reads no others; rows without a variant stay without."""
    type_, values = ROWS[kind]
    rows = pa.table({"c": pa.array(values, type_)})[part]
    body = io.BytesIO()
    pq.write_table(with_required_binaries(rows), body)
    assert pq.read_table(body).to_pylist() == rows.to_pylist()
    leaves = str(pq.ParquetFile(body).schema)
    assert leaves.count("required binary field_id=-1 value;") == leaves.count("required binary field_id=-1 metadata;") == 1
