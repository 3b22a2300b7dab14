"""Checks of what a caller passes that is Spark's: sessions, DataFrames, conditions and assignments (see `rowlock.arguments` for all else)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowlock.engines.spark.catalyst.types import Column, DataFrame, SparkSession
from rowlock.exceptions import InvalidInput, WrongType


def session(value: Any, name: str) -> SparkSession:
    """The value, if it is a SparkSession.  Raises WrongType."""
    if not hasattr(value, "createDataFrame"):
        raise WrongType(f"A SparkSession is needed as {name}, not {type(value).__name__}")
    found: SparkSession = value
    return found


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
    return value


def shown(expression: str | Column) -> str:
    """A condition as it was written.  A Column's text is the JVM's, which is not asked for it: it may be gone."""
    return repr(expression) if isinstance(expression, str) else "<Column>"
