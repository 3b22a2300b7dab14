"""`rowlock optimize`: OPTIMIZE of one table by a local Spark session, and the receipt of its commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from rich.console import Console

import rowlock
from rowlock.api.append import opened
from rowlock.exceptions import InvalidInput
from rowlock.protocol.paths import scheme_of
from rowlock.storage.address import SCHEMES
from rowlock.storage.options import Kind

_STORES: Mapping[Kind, Literal["s3", "gs", "az"]] = {"s3": "s3", "gcs": "gs", "azure": "az"}
"""The name of the connector that Spark needs."""


def optimize_table(
    path: str, where: str | None, order_by: Sequence[str], full: bool, memory_mb: int, console: Console, storage_options: Mapping[str, str] | None = None
) -> None:
    """Rewrites a table's small files, or all files in the order of `order_by`, and prints the receipt.

    Raises InvalidInput if `full` and `order_by` are both given, else what OPTIMIZE raises.
    """
    if full and order_by:
        raise InvalidInput("--full puts a table in the order of its own clustering columns, --zorder in another order: give one of them", table=path)
    opened(path, storage_options).refresh()  # reports an error of the path before Spark starts
    kind = SCHEMES.get(scheme_of(path) or "")
    spark = rowlock.spark(memory_mb=memory_mb, stores=() if kind is None else (_STORES[kind],))
    table = rowlock.DeltaTable.forPath(spark, path, storage_options=storage_options)
    builder = table.optimize() if where is None else table.optimize().where(where)
    if order_by:
        builder.executeZOrderBy(*order_by)
    else:
        builder._compact(full=full)
    console.print(repr(table.lastReceipt) if table.lastReceipt is not None else "nothing to do", highlight=False, markup=False, soft_wrap=True)
