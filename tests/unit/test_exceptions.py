"""rowlock.exceptions stands in for delta.exceptions when only the import is changed."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from rowlock import exceptions

delta = pytest.importorskip("delta.exceptions")


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
