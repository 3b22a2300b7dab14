"""Modules that are imported when they are first used: a process that appends once and ends does without those that take long."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["pl"]


class _Lazy:
    """Stands for a module, which is imported when one of its names is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import polars as pl
else:
    pl = _Lazy("polars")  # the log of a table of few files is read without it
