"""The data plane, the only package that imports pyspark; and `rowlock.spark()`, which is a call of this package.

The package and the function share a name on purpose (the function is what users write), so the
module is made callable; whichever import comes first, `rowlock.spark()` works.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    def __call__(self, **options: Any) -> Any:
        """A ready SparkSession: the active one, whoever made it, else a local one.  See `rowlock.spark.session.spark`."""
        from rowlock.spark.session import spark

        return spark(**options)


sys.modules[__name__].__class__ = _CallableModule
