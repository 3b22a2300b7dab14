"""Errors that are caught by clauses for Rowlock's errors and, where delta-spark raises one of Spark's, by clauses for that as well.

They live here since only this package knows pyspark.
"""

from __future__ import annotations

from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException, UnsupportedOperationException

from rowlock.exceptions import InvalidInput, RowlockError, TableExists, TableNotFound, UnsupportedFeature


class _Both(RowlockError):
    """Makes both halves of an error know its message."""

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message, **fields)
        assert isinstance(self, PySparkException)
        PySparkException.__init__(self, str(self.args[0]))


class NameNotFound(_Both, TableNotFound, AnalysisException):
    """There is no Delta table of the name in the catalog."""


class NameTaken(_Both, TableExists, AnalysisException):
    """There is a table or a view of the name in the catalog, or a table where it would be."""


class BadName(_Both, InvalidInput, AnalysisException):
    """The name, or what was said beside it, does not fit what the catalog holds."""


class BadType(_Both, InvalidInput, ParseException):
    """A text is not a type that Spark knows."""


class BadGenerator(_Both, UnsupportedFeature, UnsupportedOperationException):
    """A column of this type cannot be generated so."""
