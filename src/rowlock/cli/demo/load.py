"""The demo's loads: the batches and deletes that its writers run, and that the replay repeats to check the result.

A batch depends only on its stream's name and its number, so a log of (stream, number) is enough to repeat everything.
A load is put into the work folder, and each process opens it from there (`open_load`).

Sales are generated: two streams of merges, US and UK, into one global table.  It has orders and, for each product, a row with its totals over all
countries (country ALL, a negative order_id).  A batch has new orders, adds quantity to existing ones, and adds to the totals of the products that it
sold; these few rows are changed by both streams in every batch.

The user's own rows (`source.py`) are one Parquet file for each stream.  The table starts with the first part of each stream's rows and with all rows of
no stream.  A batch has some of the remaining rows, and some that the table has already; a counter column has the number of the batch that wrote a row last.
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Mapping
from decimal import Decimal
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rowlock.protocol.schema import quote

INITIAL = "initial.parquet"
SPEC = "load.json"


def predicate(values: Mapping[str, Any]) -> str:
    """The condition of a GDPR delete of the rows that have these values."""
    return " AND ".join(f"{quote(name)} = {literal(value)}" for name, value in values.items())


def literal(value: Any) -> str:
    """A value as a literal of Spark SQL."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case datetime.datetime():
            return f"TIMESTAMP '{value.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S.%f}+00:00'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case decimal.Decimal():
            return f"{value:f}BD"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case bytes():
            return f"X'{value.hex()}'"
    raise TypeError(f"{type(value).__name__} cannot be written as a literal")


PRODUCTS = tuple(f"{kind} {size}" for kind in ("kettle", "lamp", "chair", "clock", "bowl") for size in ("S", "M", "L", "XL"))
CUSTOMERS = 5_000
EXISTING, NEW = 300, 100
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SCHEMA = pl.Schema(
    {
        "order_id": pl.Int64(),
        "country": pl.String(),
        "customer_id": pl.Int64(),
        "product": pl.String(),
        "quantity": pl.Int64(),
        "amount": pl.Decimal(12, 2),
        "updated_at": pl.Datetime("us", "UTC"),
    }
)


class Sales:
    """The load of generated sales over a table that starts with `rows` orders.

    `key` are the columns that identify a row.  A matching merge replaces a row's columns, but adds to those in `sums`.
    """

    key: tuple[str, ...] = ("order_id",)
    sums: tuple[str, ...] = ("quantity", "amount")
    streams: tuple[str, ...] = ("us", "uk")

    def __init__(self, *, rows: int) -> None:
        self.rows = rows

    @staticmethod
    def prepare(work: Path, *, rows: int) -> None:
        """Writes the table's initial rows and the description of the load into the work folder."""
        orders = _orders(np.arange(rows, dtype=np.int64), START, salt=0)
        totals = _totals(orders, START)
        pl.concat([orders, totals]).write_parquet(work / INITIAL)
        (work / SPEC).write_text(json.dumps({"rows": rows}))

    def batch(self, stream: str, number: int) -> pl.DataFrame:
        """The source rows of merge number `number` of a stream: existing and new keys, each at most once, columns as in the table."""
        parity = self.streams.index(stream)  # even orders are the US's, odd ones the UK's
        known = (self.rows // 2) + number * NEW
        again = _mix(np.arange(EXISTING, dtype=np.int64) + number * EXISTING, salt=17 + parity) % max(known, 1)
        fresh = known + np.arange(NEW, dtype=np.int64)
        ids = np.unique(np.concatenate([again, fresh])) * 2 + parity
        when = START + datetime.timedelta(seconds=number + 1)
        orders = _orders(ids, when, salt=number + 1)
        return pl.concat([orders, _totals(orders, when)])

    def erasure(self, number: int) -> dict[str, Any]:
        """The values of the rows that delete number `number` deletes."""
        return {"customer_id": int(_mix(np.array([number], dtype=np.int64), salt=5)[0] % CUSTOMERS) + 1}


def _orders(ids: np.ndarray[tuple[int], np.dtype[np.int64]], when: datetime.datetime, *, salt: int) -> pl.DataFrame:
    """Orders whose country, customer and product follow from their id, and whose quantity from id and salt."""
    product = _mix(ids, salt=3) % len(PRODUCTS)
    quantity = _mix(ids, salt=1_000 + salt) % 5 + 1
    cents = (product * 350 + 995) * quantity
    return pl.DataFrame(
        {
            "order_id": ids,
            "country": np.where(ids % 2 == 0, "US", "UK"),
            "customer_id": _mix(ids, salt=4) % CUSTOMERS + 1,
            "product": np.array(PRODUCTS)[product],
            "quantity": quantity,
            "amount": [Decimal(int(c)).scaleb(-2) for c in cents],
            "updated_at": [when] * len(ids),
        },
        schema=SCHEMA,
    )


def _totals(orders: pl.DataFrame, when: datetime.datetime) -> pl.DataFrame:
    """For each product the row with what these orders add to its totals."""
    sums = orders.group_by("product").agg(pl.col("quantity").sum(), pl.col("amount").sum()).sort("product")
    order = {product: -1 - place for place, product in enumerate(PRODUCTS)}
    return sums.select(
        pl.col("product").replace_strict(order, return_dtype=pl.Int64).alias("order_id"),
        pl.lit("ALL").alias("country"),
        pl.lit(0, pl.Int64).alias("customer_id"),
        "product",
        "quantity",
        pl.col("amount").cast(pl.Decimal(12, 2)),
        pl.lit(when, pl.Datetime("us", "UTC")).alias("updated_at"),
    )


def _mix(values: np.ndarray[tuple[int], np.dtype[np.int64]], *, salt: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A fixed hash of integers (splitmix64), not negative, the same on every machine."""
    x = values.astype(np.uint64) + np.uint64((salt * 0x9E3779B97F4A7C15) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(2)).astype(np.int64)


FIRST_PART = 0.6
LARGEST_BATCH = 400


class Staged:
    """A load of the user's own rows.  `counter` is the column that the demo adds to them."""

    sums: tuple[str, ...] = ()

    def __init__(self, *, key: tuple[str, ...], counter: str, streams: Mapping[str, pl.DataFrame], erasures: pl.DataFrame) -> None:
        self.key, self.counter, self.streams = key, counter, tuple(streams)
        self._rows, self._erasures = streams, erasures

    @staticmethod
    def prepare(work: Path, *, rows: pl.DataFrame, key: tuple[str, ...], streams: Mapping[str, pl.DataFrame], others: pl.DataFrame) -> None:
        """Writes the rows, split into streams and others, and the description of the load into the work folder."""
        counter = "demo_batch"
        while counter in {name.lower() for name in rows.columns}:
            counter += "_"
        firsts = [part.head(_first(part)) for part in streams.values()]
        pl.concat([others, *firsts]).with_columns(pl.lit(0, pl.Int32).alias(counter)).write_parquet(work / INITIAL)
        for place, part in enumerate(streams.values()):
            part.write_parquet(work / f"stream-{place}.parquet")
        rows.select(_erased_columns(rows, key)).unique(maintain_order=True).write_parquet(work / "erasures.parquet")
        (work / SPEC).write_text(json.dumps({"key": key, "counter": counter, "streams": list(streams)}))

    @classmethod
    def open(cls, work: Path, spec: Mapping[str, Any]) -> Staged:
        streams = {name: pl.read_parquet(work / f"stream-{place}.parquet") for place, name in enumerate(spec["streams"])}
        return cls(key=tuple(spec["key"]), counter=spec["counter"], streams=streams, erasures=pl.read_parquet(work / "erasures.parquet"))

    def batch(self, stream: str, number: int) -> pl.DataFrame:
        """As of `Sales`."""
        rows = self._rows[stream]
        first = _first(rows)
        half = max(1, min(LARGEST_BATCH, len(rows) // 25) // 2)
        fresh = rows.slice(first + number * half, half)
        step = max(1, first // half)
        again = sorted({(number * 7919 + place * step) % first for place in range(min(half, first))})
        return pl.concat([rows[again], fresh]).with_columns(pl.lit(number + 1, pl.Int32).alias(self.counter))

    def erasure(self, number: int) -> dict[str, Any]:
        """As of `Sales`."""
        count = len(self._erasures)
        step = next(s for s in range(max(1, int(count * 0.618)), count + 1) if gcd(s, count) == 1 or count == 1)
        return self._erasures.row(number * step % count, named=True)


Load = Sales | Staged


def open_load(work: Path) -> Load:
    """The load that was prepared in a work folder; each process of the demo opens it."""
    spec = json.loads((work / SPEC).read_text())
    return Sales(rows=spec["rows"]) if "rows" in spec else Staged.open(work, spec)


def _first(rows: pl.DataFrame) -> int:
    return max(1, int(len(rows) * FIRST_PART))


def _erased_columns(rows: pl.DataFrame, key: tuple[str, ...]) -> list[str]:
    """The columns of the deletes: the key column with the most distinct values, if each has few rows; else the whole key."""
    counts = {name: rows[name].n_unique() for name in key}
    finest = max(key, key=lambda name: counts[name])
    return [finest] if len(rows) / counts[finest] <= max(1.0, len(rows) / 500) else list(key)
