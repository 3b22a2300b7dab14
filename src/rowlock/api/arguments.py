"""Checks of what a caller passes, before anything is planned; where `delta.tables` raises TypeError, WrongType is raised, which is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rowlock.engines.spark.catalyst.types import Column, DataFrame
from rowlock.exceptions import InvalidInput, WrongType


def text(value: Any, name: str) -> str:
    """A string, or WrongType."""
    if not isinstance(value, str):
        raise WrongType(f"{name} needs to be a string but got '{type(value)}'")
    return value


def number(value: Any, name: str) -> int:
    """An int, or WrongType."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongType(f"{name} needs to be an int but got '{type(value)}'")
    return value


def flag(value: Any, name: str) -> bool:
    """The value, if it is a bool.  Raises WrongType."""
    if not isinstance(value, bool):
        raise WrongType(f"{name} needs to be a boolean but got '{type(value)}'")
    return value


def hours(value: Any, name: str) -> float:
    """The value, if it is an int or a float.  Raises WrongType."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WrongType(f"{name} needs to be a number of hours but got '{type(value)}'")
    return value


def expression(value: Any, name: str, *, optional: bool = True) -> Any:
    """A string or a Column (or None where that is a choice), or WrongType."""
    if (value is None and optional) or isinstance(value, (str, Column)):
        return value
    raise WrongType(f"{name} must be a Spark SQL Column or a string, not {type(value).__name__}")


def frame(value: Any, name: str) -> DataFrame:
    """The value, if it is a DataFrame.  Raises WrongType."""
    if isinstance(value, DataFrame):
        return value
    raise WrongType(f"{name} must be a DataFrame, not {type(value).__name__}")


def assignments(condition: Any, value: Any, name: str, table: str) -> Mapping[Any, Any]:
    """A dict of column name to expression, beside a condition.  Raises InvalidInput where it is missing, WrongType where it is something else."""
    if value is None:
        raise InvalidInput(f"{name} cannot be None: it is a dict of column name to expression", table=table)
    expression(condition, "condition")
    if not isinstance(value, Mapping):
        raise WrongType(f"{name} must be a dict of column name to expression, not {type(value).__name__}", table=table)
    if wrong := [k for k in value if not isinstance(k, (str, Column))]:
        raise WrongType(f"Keys of dict in {name} must contain only strings, not {type(wrong[0]).__name__}", table=table)
    if wrong := [v for v in value.values() if not isinstance(v, (str, Column))]:
        raise WrongType(f"Values of dict in {name} must contain only Spark SQL Columns or strings, not {type(wrong[0]).__name__}", table=table)
    if not value:
        raise InvalidInput(f"{name} is empty: it is a dict of column name to expression", table=table)
    return value


def names(cols: Sequence[Any], what: str) -> list[str]:
    """Column names given one by one or as one list.  Raises WrongType."""
    flat = list(cols[0]) if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else list(cols)
    return [text(c, what) for c in flat]


def shown(expression: str | Column) -> str:
    """A condition as it was written.  A Column's text is the JVM's, which is not asked for it: it may be gone."""
    return repr(expression) if isinstance(expression, str) else "<Column>"
