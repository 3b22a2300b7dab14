"""rowlock.exceptions stands in for delta.exceptions when only the import is changed."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rowlock import exceptions
from rowlock.conditions import STATES, named
from support.needs import INSTALLED

delta = pytest.importorskip("delta.exceptions")
SINCE = {"UNSUPPORTED_TABLE_CHANGE": "4.2"}
"""The conditions that older versions of Spark do not have."""


def test_every_name_is_there() -> None:
    assert [n for n in delta.__all__ if not inspect.isclass(getattr(exceptions, n, None))] == []


def test_what_a_clause_catches_there_it_catches_here() -> None:
    for caught in delta.__all__:
        for raised in delta.__all__:
            if issubclass(getattr(delta, raised), getattr(delta, caught)):
                assert issubclass(getattr(exceptions, raised), getattr(exceptions, caught)), (raised, caught)


def test_tree_is_that_of_deltas_java_classes() -> None:
    """In delta's Python package the eight are siblings; its documentation calls the first the base of all."""
    base = exceptions.DeltaConcurrentModificationException
    for name in set(delta.__all__) - {base.__name__}:
        assert getattr(exceptions, name).__mro__[1] is base


def test_tree_in_the_docstring_is_the_tree() -> None:
    drawn = {line.strip(" │├└─").split(" ")[0] for line in (exceptions.__doc__ or "").splitlines() if "──" in line} | {"RowlockError"}
    defined = {n for n, c in vars(exceptions).items() if inspect.isclass(c) and issubclass(c, exceptions.RowlockError)}
    assert drawn == defined


def test_one_clause_catches_all_conflicts() -> None:
    try:
        raise exceptions.ConcurrentAppendException("it came")
    except exceptions.ConcurrentWriteException:
        pytest.fail("a sibling")
    except exceptions.DeltaConcurrentModificationException as error:
        assert error.desc == "it came"


def test_every_error_is_used() -> None:
    """A class that nothing raises is a clause that never catches."""
    root = Path(exceptions.__file__).parent
    trees = [ast.parse(p.read_text()) for p in root.rglob("*.py") if p != Path(exceptions.__file__)]
    used = {n.id for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Name)}
    used |= {n.attr for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    assert {n for n, c in vars(exceptions).items() if inspect.isclass(c) and issubclass(c, (Exception, Warning)) and n not in used} == set()


def test_the_warning_is_where_the_errors_are() -> None:
    from rowlock.exceptions import CommitOverwrittenWarning
    from rowlock.transaction.state import shared

    assert issubclass(CommitOverwrittenWarning, UserWarning)
    assert shared.CommitOverwrittenWarning is CommitOverwrittenWarning


def test_an_error_says_its_condition_state_and_parameters() -> None:
    error = exceptions.VersionNotFound("there is none", table="/t", condition=named("DELTA_VERSION_NOT_FOUND", userVersion=9, earliest=0, latest=1))
    assert str(error) == "[DELTA_VERSION_NOT_FOUND] there is none [table /t]" == error.getMessage()
    assert (error.getCondition(), error.getSqlState()) == ("DELTA_VERSION_NOT_FOUND", "22003")
    assert error.getMessageParameters() == {"userVersion": "9", "earliest": "0", "latest": "1"}
    with pytest.warns(FutureWarning):
        assert error.getErrorClass() == "DELTA_VERSION_NOT_FOUND"
    bare = exceptions.VersionNotFound("there is none")
    assert (bare.getCondition(), bare.getSqlState(), bare.getMessageParameters()) == ("ROWLOCK_VERSION_NOT_FOUND", "HY000", {})


def test_a_conflict_has_deltas_condition() -> None:
    error = exceptions.ConcurrentAppendException("it came", table="/t")
    assert (error.getCondition(), error.getSqlState()) == ("DELTA_CONCURRENT_APPEND.WITHOUT_HINT", "2D521")


def test_errors_are_pysparks_and_delta_sparks_too_where_spark_is_used() -> None:
    """In a process of its own: without pyspark first, then with the engine, then with delta-spark's package."""
    script = """
import pickle, sys
import rowlock
from rowlock import exceptions as ours
from rowlock.conditions import named
plain = ours.TableNotFound("x")
assert type(plain) is rowlock.exceptions.TableNotFound and "pyspark" not in sys.modules
assert "exceptions" in dir(rowlock) and {*rowlock.__all__, "streaming"} <= set(dir(rowlock))
import rowlock.tables
from pyspark import errors
for error, raised in (
    (ours.TableNotFound("x"), errors.AnalysisException),
    (ours.InvalidInput("x"), errors.AnalysisException),
    (ours.InvalidInput("x", condition=named("DELTA_ILLEGAL_OPTION")), errors.IllegalArgumentException),
    (ours.InvalidInput("x", condition=named("PARSE_SYNTAX_ERROR")), errors.ParseException),
    (ours.MultipleMatches("x", condition=named("DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE")), errors.UnsupportedOperationException),
    (ours.ConstraintViolated("x"), errors.SparkRuntimeException),
    (ours.UnsupportedFeature("x", feature="f", access="read"), errors.UnsupportedOperationException),
    (ours.CommitUnknown("x", txn_id="1"), errors.PySparkException),
    (ours.ConcurrentAppendException("x"), errors.PySparkException),
):
    assert isinstance(error, raised) and isinstance(error, ours.RowlockError), (error, raised)
    assert (isinstance(error, errors.AnalysisException)) == issubclass(raised, errors.AnalysisException)
    assert isinstance(error, ValueError) == isinstance(error, ours.InvalidInput)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and again.condition == error.condition and repr(again) == repr(error)
import delta.exceptions
error = ours.ConcurrentAppendException("x")
assert isinstance(error, delta.exceptions.ConcurrentAppendException) and isinstance(error, delta.exceptions.DeltaConcurrentModificationException)
assert isinstance(error, ours.DeltaConcurrentModificationException) and not isinstance(error, delta.exceptions.ConcurrentWriteException)
assert type(pickle.loads(pickle.dumps(error))) is type(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_conditions_are_those_of_the_code_with_sparks_and_deltas_states() -> None:
    """One table: what is raised stands in it, what stands in it is raised, and no text names a condition beside the argument."""
    root = Path(exceptions.__file__).parent
    texts = {p: p.read_text() for p in root.rglob("*.py") if p != root / "conditions.py"}
    code = "\n".join(texts.values())
    assert [name for name in STATES if not re.search(rf'"{name}[."]', code)] == []
    assert [name for name in re.findall(r'named\(\s*"([A-Z0-9_]+)', code) if name not in STATES] == []
    assert [m for text in texts.values() for m in re.findall(r'\[([A-Z]+_[A-Z_.]+)\][^\n]*"', text) if m.partition(".")[0] in STATES] == []
    known = _states_in_jars()
    assert {name: state for name, state in STATES.items() if known.get(name) != state and SINCE.get(name, "") <= INSTALLED} == {}


def _states_in_jars() -> dict[str, str]:
    """The SQL states of all conditions of Spark and Delta, as their JARs have them."""
    import pyspark

    spark = next((Path(pyspark.__file__).parent / "jars").glob("spark-common-utils_2*.jar"))
    found: dict[str, str] = {}
    for jar in (spark, *Path.home().glob(".ivy2*/cache/io.delta/delta-spark_4*/jars/delta-spark_*.jar")):
        with zipfile.ZipFile(jar) as held:
            for name in held.namelist():
                if name in ("error/error-conditions.json", "error/delta-error-classes.json"):
                    found |= {condition: body.get("sqlState", "") for condition, body in json.loads(held.read(name)).items()}
    if not any(name.startswith("DELTA_") for name in found):
        pytest.skip("delta-spark's JAR has not been fetched")
    return found
