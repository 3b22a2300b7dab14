"""Generates sales: two streams of merges, US and UK, into one global table.

The table has orders and, for each product, a row with its totals over all countries (country ALL, a negative
order_id).  A batch has new orders, adds quantity to existing ones, and adds to the totals of the products that it
sold; these few rows are changed by both streams in every batch.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl

from rowlock.cli.demo.load import INITIAL, Erasure, save_spec

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
    """The load of generated sales over a table that starts with `rows` orders."""

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
        save_spec(work, {"kind": "sales", "rows": rows})

    def batch(self, stream: str, number: int) -> pl.DataFrame:
        parity = self.streams.index(stream)  # even orders are the US's, odd ones the UK's
        known = (self.rows // 2) + number * NEW
        again = _mix(np.arange(EXISTING, dtype=np.int64) + number * EXISTING, salt=17 + parity) % max(known, 1)
        fresh = known + np.arange(NEW, dtype=np.int64)
        ids = np.unique(np.concatenate([again, fresh])) * 2 + parity
        when = START + datetime.timedelta(seconds=number + 1)
        orders = _orders(ids, when, salt=number + 1)
        return pl.concat([orders, _totals(orders, when)])

    def erasure(self, number: int) -> Erasure:
        customer = int(_mix(np.array([number], dtype=np.int64), salt=5)[0] % CUSTOMERS) + 1
        return Erasure((("customer_id", customer),))


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
