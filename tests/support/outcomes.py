"""What an error says of itself, as a pipeline asks it."""

from __future__ import annotations

from typing import Any


def outcome_of(error: BaseException) -> dict[str, Any]:
    """The names of an error's classes and its text; which of PySpark's exceptions it is, its condition, SQL state and the names of its message's parameters."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    asked: Any = error.java_exception if isinstance(error, Py4JJavaError) else error
    public = next((c.__name__ for c in type(error).__mro__ if c.__module__ == PySparkException.__module__), type(error).__name__)
    told = {"error": [c.__name__ for c in type(error).__mro__], "text": str(error), "raised": public, "condition": None, "state": None, "parameters": []}
    if isinstance(error, PySparkException) or (asked is not error and asked.getClass().getName().startswith(("org.apache.spark", "io.delta"))):
        try:
            condition, state, given = asked.getCondition(), asked.getSqlState(), asked.getMessageParameters()
        except Exception:
            return told
        told |= {"condition": condition, "state": state, "parameters": sorted(str(k) for k in (given or {}))}
    return told


def said_of(outcome: dict[str, Any]) -> str:
    """An outcome in the form of tests/data/sql/mistakes.txt."""
    if "raised" not in outcome:
        return "="
    shown = [outcome["raised"], *([outcome["condition"], outcome["state"] or "-", ",".join(outcome["parameters"])] if outcome["condition"] else [])]
    return "! " + " ".join(shown).rstrip()
