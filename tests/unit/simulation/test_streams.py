"""Streams that read while others write and are ended again and again: each row once; what is taken out of the code is found."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from rowlock.api.stream_source import walk
from rowlock.api.stream_source.source import TableStream
from rowlock_simulation.draw import draw
from rowlock_simulation.plan import Plan
from rowlock_simulation.roles import STREAMED
from rowlock_simulation.run import run

_one_by_one = walk._one_by_one


def _plans(first: int) -> Iterator[Plan]:
    return (plan for seed in itertools.count(first) for world in ("s3", "local", "dynamodb") if (plan := draw(world, seed)).theme == STREAMED)


def _leaves_one_out(version: int, files: Any, after: int, *, initial: bool = False) -> Any:
    return _one_by_one(version, files, after + (after >= 0), initial=initial)


def _files_of_a_changed_version(self: walk.Walk, commit: Any, after: int) -> Any:
    return _one_by_one(commit.version, tuple(a for a in commit.adds if a.data_change), after)


def test_each_row_is_read_once() -> None:
    results = [run(plan) for plan in itertools.islice(_plans(0), 9)]
    assert [text for result in results for text in result.violations] == []
    queries = {id(q): q for result in results for o in result.outcomes if (q := o.done.query) is not None}.values()
    assert len(queries) > 18 and sum(q.done for q in queries) > 50 and any(q.options.get("readChangeFeed") for q in queries)


@pytest.mark.parametrize(
    ("where", "name", "wrong", "violation", "first"),
    [
        (walk, "_one_by_one", _leaves_one_out, "has not read each row once", 30),
        (walk.Walk, "_where_rows_change", lambda self, commit, adds: adds, "has not read each row once", 24),
        (walk.Walk, "_changes_of", _files_of_a_changed_version, "has not read each row once", 24),
        (TableStream, "_begun", lambda self, end: self._begin(self._newest()), "failed without a reason: InvalidInput: The log leads to", 24),
    ],
)
def test_a_stream_that_leaves_rows_out_is_found(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, wrong: Any, violation: str, first: int) -> None:
    """`first`: a seed that shows it, so that those before it need not run; where it shows it no longer, another does."""
    monkeypatch.setattr(where, name, wrong)
    assert any(violation in text for plan in itertools.islice(_plans(first), 60) for text in run(plan).violations)
