"""The examples in public docstrings: where they stand, and what they find when they run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import rowlock
import rowlock.api
import rowlock.exceptions

WITHOUT_SPARK = (
    "rowlock.api.append",
    "rowlock.api.to_arrow",
    "rowlock.conflict.value",
    "rowlock.exceptions",
    "rowlock.limits",
    "rowlock.storage.registers",
    "rowlock.testing",
    "rowlock_simulation.scheduler",
    "rowlock.transaction.state.receipt",
)
ON_SPARK = (*(f"rowlock.api.{m.name}" for m in pkgutil.iter_modules(rowlock.api.__path__)), "rowlock.engines.spark.session.session")
ON_SPARK = tuple(name for name in ON_SPARK if name not in WITHOUT_SPARK)


def examples_in(*modules: str) -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [found for name in modules for found in finder.find(importlib.import_module(name), name) if found.examples]


def table_in(folder: Path) -> str:
    """The table that examples call `path`: three sales in one file."""
    path = str(folder / "sales")
    rowlock.append(path, pa.table({"id": [1, 2, 3], "region": ["eu", "eu", "us"], "amount": [10.0, 20.0, 30.0]}))
    return path


def run(example: doctest.DocTest, **names: Any) -> None:
    """Runs one docstring's examples under these names; raises AssertionError with what differs."""
    said: list[str] = []
    example.globs = {"rowlock": rowlock, "pa": pa, **names}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(example, out=said.append, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


def public() -> Iterator[tuple[str, Any]]:
    """Every public class, function, method and property under the name by which users reach it."""
    import rowlock.streaming
    import rowlock.tables

    for module in (rowlock, rowlock.tables, rowlock.streaming, rowlock.exceptions):
        names = getattr(module, "__all__", None) or [n for n, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module.__name__]
        for name in names:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield f"{module.__name__}.{name}", value
            if inspect.isclass(value):
                yield from ((f"{module.__name__}.{name}.{member}", found) for member, found in members(value))


def members(cls: type) -> Iterator[tuple[str, Callable[..., Any] | property]]:
    """The public methods and properties that a class has from Rowlock."""
    for base in cls.__mro__:
        if base.__module__.startswith("rowlock."):
            for name, value in vars(base).items():
                found = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
                if not name.startswith("_") and (inspect.isfunction(found) or isinstance(found, property)):
                    yield name, found
