"""Rowlock's errors joined with PySpark's, Spark's errors without internal names, and why an expression is refused.

This is done in this folder because only the Spark engine may import pyspark.  Once it is loaded every error of Rowlock is an instance of PySpark's
exception, too (`RowlockError._join`): `except AnalysisException` around a call or a statement catches what it catches with delta-spark.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import pyspark.errors
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import AnalysisException as CapturedAnalysisException
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from rowlock.conditions import Condition, named
from rowlock.engines.spark.catalyst.bridge import Catalyst, JavaObject, class_name
from rowlock.exceptions import PublicAnalysisException, RowlockError
from rowlock.log.snapshot import Snapshot
from rowlock.protocol import paths
from rowlock.protocol.schema import RESERVED_PREFIX, quote, unresolved_column
from rowlock.storage.open import missing_file

_SUGGESTED = re.compile(rf"(?:`[^`]*`\.)*`{RESERVED_PREFIX}[^`]*`")
_PLAN = "org.apache.spark.sql.catalyst.plans.QueryPlan"
_MISSING = re.compile(r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] Encountered error while reading file (\S+)\. ")
_joined: dict[tuple[type[Any], str, bool], type[Any]] = {}


def _join(kind: type[Any], raised: str) -> type[Any]:
    """The class of an error of Rowlock that is the exception `raised` of PySpark, too, and of delta-spark's Python package where that is imported."""
    theirs = sys.modules.get("delta.exceptions")
    key = kind, raised, theirs is not None
    if key not in _joined:
        names = {} if theirs is None else vars(theirs)
        bases = [names.get(c.__name__) for c in kind.__mro__ if c.__module__ == RowlockError.__module__]
        more = [b for b in (*bases, getattr(pyspark.errors, raised)) if b is not None and not issubclass(kind, b)]
        _joined[key] = type(kind.__name__, (kind, *more), {"__doc__": kind.__doc__, "__module__": kind.__module__, "_joined": True})
    return _joined[key]


RowlockError._join = staticmethod(_join)


@contextlib.contextmanager
def missing_files_named(snapshot: Snapshot) -> Iterator[None]:
    """Raises CorruptLog, with the table, the version and a remedy, where a job of Spark inside finds that a data file is missing."""
    try:
        yield
    except (pyspark.errors.PySparkException, Py4JJavaError) as error:
        found = _MISSING.search(str(error))
        if found is None:
            raise
        raise missing_file(snapshot.table, paths.canonical(unquote(found[1])), version=snapshot.version) from None


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
        if RESERVED_PREFIX not in text:
            raise
        given = {name: _without_internal(value) for name, value in (error.getMessageParameters() or {}).items()}
        condition = Condition(error.getCondition() or "INTERNAL_ERROR", error.getSqlState(), given)
        raise PublicAnalysisException(_without_internal(text).removeprefix(f"[{condition.name}] "), condition=condition) from None


def _without_internal(text: str) -> str:
    """A message of Spark without internal columns among its suggestions, and without its plan where that shows any; the plan follows the first semicolon and line feed."""
    message, _, plan = text.partition(";\n")
    message = message if RESERVED_PREFIX in plan else text
    message = re.sub(rf", {_SUGGESTED.pattern}", "", message)
    return re.sub(rf"{_SUGGESTED.pattern}(?:, )?", "", message)


def no_target(parts: Sequence[str], schema: StructType) -> Condition:
    """The condition, as delta-spark has it, of a path that leads to no column or field that can be set."""
    here: DataType = schema
    for n, part in enumerate(parts):
        inner = here.elementType if isinstance(here, ArrayType) else here
        if isinstance(inner, StructType) and not (match := [f for f in inner.fields if f.name.lower() == part.lower()]):
            return named("FIELD_NOT_FOUND", fieldName=quote(part), fields=", ".join(map(quote, inner.names))) if n else unresolved_column(parts, schema.names)
        if isinstance(here, (ArrayType, MapType)):
            break
        if not isinstance(inner, StructType):
            return named("INVALID_EXTRACT_BASE_FIELD_TYPE", base=f'"{".".join(parts[:n])}"', other=f'"{inner.simpleString().upper()}"')
        here = match[0].dataType
    return named("DELTA_UNSUPPORTED_NESTED_FIELD_IN_UPDATE", optionalPrefixMessage="")


def culprit(expression: JavaObject) -> str:
    """The function in an expression that is not deterministic itself; as it was written where it is a user's."""
    children = expression.children()
    inner = next((c for n in range(children.size()) if not (c := children.apply(n)).deterministic()), None)
    return culprit(inner) if inner is not None else f"`{expression.sql()}`" if "UDF" in class_name(expression) else f"{expression.prettyName()}()"


_WIDER = {"Window": "a window function", "Generate": "a generator", "Aggregate": "an aggregate function"}


def sql_function(bridge: Catalyst, node: JavaObject) -> str | None:
    """The name of a function in a plan or an expression that CREATE FUNCTION ... RETURN made: the analyzer computes its arguments in a plan below it."""
    if class_name(node) == "SQLScalarFunction":
        return str(node.function().name().unquotedString())
    inner = bridge.list(node.children()) + (bridge.list(node.expressions()) if bridge.is_a(node, _PLAN) else [])
    return next((name for held in inner if (name := sql_function(bridge, held))), None)


def wider_than_a_row(plan: JavaObject) -> str:
    """The reason why an expression is not computed from one row alone, by the node that the analyzer put below it."""
    node = plan
    while class_name(node) not in _WIDER and node.children().size() == 1:
        node = node.children().apply(0)
    return _WIDER.get(class_name(node), class_name(plan))
