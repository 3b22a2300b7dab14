"""Rowlock: an open transaction engine for Delta Lake tables on Apache Spark.

    import rowlock
    from rowlock import DeltaTable

    rowlock.append("/lake/sales", arrow_table)     # no Spark, no JVM

Many writers change one table at the same time and none loses its work: when others committed first,
a transaction is rebased over exactly the rows that they changed.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import rowlock.transaction as _folder
from rowlock.version import VERSION as __version__

if TYPE_CHECKING:
    from rowlock import exceptions as exceptions, streaming as streaming
    from rowlock.api.append import append
    from rowlock.api.change_feed import changes
    from rowlock.api.enable import enable, sql
    from rowlock.api.to_arrow import to_arrow
    from rowlock.engines.spark.session.session import spark
    from rowlock.limits import Limits, set_limits
    from rowlock.storage.registers import create_lock_table
    from rowlock.tables import DeltaTable, MultiTableTransaction, read, read_together, run, transaction as transaction, write
    from rowlock.transaction.multi_table import MultiTableReceipt
    from rowlock.transaction.state.options import Granularity, Isolation, Lock, OnConflict, WriteMode
    from rowlock.transaction.state.receipt import Conflict, Receipt

__all__ = [
    "Conflict", "DeltaTable", "Granularity", "Isolation", "Limits", "Lock", "MultiTableReceipt", "MultiTableTransaction", "OnConflict", "Receipt",
    "WriteMode", "__version__", "append", "changes", "create_lock_table", "enable", "read", "read_together", "run", "set_limits", "spark", "sql",
    "to_arrow", "transaction", "write",
]  # fmt: skip

_LAZY = {
    **dict.fromkeys(("DeltaTable", "MultiTableTransaction", "read", "read_together", "run", "write"), "rowlock.tables"),
    **dict.fromkeys(("Granularity", "Isolation", "Lock", "OnConflict", "WriteMode"), "rowlock.transaction.state.options"),
    **dict.fromkeys(("Conflict", "Receipt"), "rowlock.transaction.state.receipt"),
    **dict.fromkeys(("Limits", "set_limits"), "rowlock.limits"),
    **dict.fromkeys(("enable", "sql"), "rowlock.api.enable"),
    "MultiTableReceipt": "rowlock.transaction.multi_table",
    "append": "rowlock.api.append",
    "changes": "rowlock.api.change_feed",
    "create_lock_table": "rowlock.storage.registers",
    "spark": "rowlock.engines.spark.session.session",
    "to_arrow": "rowlock.api.to_arrow",
}
_MODULES = ("exceptions", "streaming")


def __dir__() -> list[str]:
    """All public names, also those that are imported when they are first used."""
    return sorted({*globals(), *__all__, *_MODULES})


def __getattr__(name: str) -> Any:
    """pyspark is imported when it is first needed: Java can be found before its JVM starts, and appends need neither."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"rowlock.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'rowlock' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


class _Callable(types.ModuleType):
    """`rowlock.transaction([orders, stock])` is a call, and `rowlock.transaction` the folder with the same name."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        """See `rowlock.api.multi_table.transaction`."""
        from rowlock.api import multi_table

        return multi_table.transaction(*args, **named)


_folder.__class__ = _Callable
