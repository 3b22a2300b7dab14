"""Errors that are both a Rowlock error and the Spark error that delta-spark raises in the same case, and Spark's errors without internal names.

They live in this folder because only the Spark engine may import pyspark.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException, UnsupportedOperationException
from pyspark.errors.exceptions.captured import AnalysisException as CapturedAnalysisException

from rowlock.exceptions import InvalidInput, RowlockError, TableExists, TableNotFound, UnsupportedFeature, VersionNotFound, WrongType
from rowlock.protocol.schema import RESERVED_PREFIX

_SUGGESTED = re.compile(rf"(?:`[^`]*`\.)*`{RESERVED_PREFIX}[^`]*`")


class PublicAnalysisException(CapturedAnalysisException):
    """An AnalysisException of Spark whose text names no internal column; `public_errors` makes it."""

    def getMessage(self) -> str:
        return _without_internal(super().getMessage())

    def getMessageParameters(self) -> dict[str, str] | None:
        given = super().getMessageParameters()
        return given if given is None else {name: _without_internal(value) for name, value in given.items()}


@contextlib.contextmanager
def public_errors() -> Iterator[None]:
    """Takes the names of internal columns out of the AnalysisExceptions that are raised inside; also a decorator.

    Generated columns are resolved over frames that carry internal columns (which clause of a MERGE applies).  Spark
    suggests these for an unknown column and prints the plan that holds them; such a plan is left out as a whole.
    """
    try:
        yield
    except CapturedAnalysisException as error:
        text = error._desc or ""
        if RESERVED_PREFIX in text:
            error._desc = _without_internal(text)
            error._stackTrace = (error._stackTrace or "").replace(text, error._desc)
            error.__class__ = PublicAnalysisException
        raise


def _without_internal(text: str) -> str:
    """A message of Spark without internal columns among its suggestions, and without its plan where that shows any; the plan follows the first semicolon and line feed."""
    message, _, plan = text.partition(";\n")
    message = message if RESERVED_PREFIX in plan else text
    message = re.sub(rf", {_SUGGESTED.pattern}", "", message)
    return re.sub(rf"{_SUGGESTED.pattern}(?:, )?", "", message)


class _Both(RowlockError):
    """Gives the message to both base classes of an error."""

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message, **fields)
        assert isinstance(self, PySparkException)
        PySparkException.__init__(self, str(self.args[0]))


class NameNotFound(_Both, TableNotFound, AnalysisException):
    """The catalog has no Delta table of this name."""


class PathNotFound(_Both, TableNotFound, AnalysisException):
    """There is no Delta table at the path that a read by format name gives."""


class NameTaken(_Both, TableExists, AnalysisException):
    """The catalog has a table or a view of this name, or there is a table in the folder that a new one would get."""


_SPARK_RAISES = (InvalidInput, TableNotFound, TableExists, VersionNotFound)
_CONDITION = re.compile(r"\[([A-Z][A-Z_]+(?:\.[A-Z_]+)*)\]")
_as_analysis: dict[type[BaseException], type[BaseException]] = {}


def as_sparks(error: BaseException) -> BaseException:
    """The same error, which Spark's AnalysisException catches too where delta-spark raises one: `except AnalysisException` around `spark.sql` goes on working."""
    kind = type(error)
    if not isinstance(error, _SPARK_RAISES) or isinstance(error, (PySparkException, WrongType)):
        return error
    if kind not in _as_analysis:
        _as_analysis[kind] = type(kind.__name__, (kind, AnalysisException), {"__doc__": kind.__doc__, "__module__": kind.__module__, "__str__": kind.__str__})
    text = str(error)
    error.__class__ = _as_analysis[kind]  # type: ignore[assignment]
    found = _CONDITION.search(text)
    vars(error).update(_message=text, _errorClass=found[1] if found else None, _messageParameters={}, _contexts=[])
    return error


def condition_of(error: BaseException) -> str:
    """The error condition of Spark's or delta-spark's that an error has, or that its text names; else one that its class names, such as ROWLOCK_VERSION_NOT_FOUND.

    Spark demands one of every error that it calls its own.
    """
    own = error.getCondition() if isinstance(error, PySparkException) else None
    found = None if own else _CONDITION.search(str(error))
    if own or found:
        return own or found[1]  # type: ignore[index]
    return "ROWLOCK_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).upper()


class BadName(_Both, InvalidInput, AnalysisException):
    """The name is not one for a table in the session's catalog, or the other arguments contradict what the catalog holds."""


class BadType(_Both, InvalidInput, ParseException):
    """A text is not a type that Spark's parser knows."""


class BadGeneration(_Both, InvalidInput, AnalysisException):
    """A generated column's expression is not one that Delta allows."""


class BadDefault(_Both, InvalidInput, AnalysisException):
    """An expression cannot be the default of a column."""


class BadGenerator(_Both, UnsupportedFeature, UnsupportedOperationException):
    """An identity or generated column cannot have this type."""
