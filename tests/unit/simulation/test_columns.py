"""Defaults, a generated column and the change data feed, changed beside rows: schedules keep every promise, and what is taken out of the code is found."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from rowlock.conflict import rules
from rowlock.maintenance import restore
from rowlock.protocol.actions import Commit
from rowlock.transaction.publish import file_actions
from rowlock_simulation.draw import draw
from rowlock_simulation.feed import Feed
from rowlock_simulation.plan import Plan
from rowlock_simulation.roles import DEFAULTED
from rowlock_simulation.run import run

_changes, _restored_metadata = file_actions._changes, restore._restored_metadata


def _plans(first: int) -> Iterator[Plan]:
    return (plan for seed in itertools.count(first) for world in ("s3", "local", "dynamodb") if (plan := draw(world, seed)).theme == DEFAULTED)


def _changes_of_the_first_try(effects: Any, losses: Any, staged: Any, head: Any, engine: Any, staging: Any, allowed: Any) -> Any:
    return tuple(staging.changes[1]) if staging.changes is not None else _changes(effects, losses, staged, head, engine, staging, allowed)


def _with_schema_of_head(target: Any, head: Any, protocol: Any, **same: Any) -> Any:
    return replace(_restored_metadata(target, head, protocol, **same), schema_string=head.metadata.schema_string)


def test_rows_that_leave_are_read_under_the_columns_of_before() -> None:
    """A table whose columns are replaced and mapped: its data files name them otherwise from then on."""
    feed = Feed(Commit(1), ("new",), {}.__getitem__, {"a": [{"old": 1}]}, {"b": [{"new": 2}]}, before=("old",))
    assert feed.changes == {"delete": {(1,): 1}, "insert": {(2,): 1}}


def test_rows_have_the_defaults_of_their_place_in_the_log_and_the_feed_tells_of_them() -> None:
    results = [run(plan) for plan in itertools.islice(_plans(0), 9)]
    assert [text for result in results for text in result.violations] == []
    assert sum(result.did["alter committed"] for result in results) > 9 and sum(result.did["property committed"] for result in results) > 18


@pytest.mark.parametrize(
    ("where", "name", "wrong", "violation", "first"),
    [
        (rules, "_writer_metadata", lambda field: {}, "is not what serial execution gives", 46),
        (restore, "_restored_metadata", _with_schema_of_head, "is not what serial execution gives", 1286),
        (file_actions, "needs_no_change_files", lambda *_, **__: True, "says that delete", 13),
        (file_actions, "_changes", _changes_of_the_first_try, "is not what it changed", 14),
    ],
)
def test_a_wrong_value_and_a_wrong_feed_are_found(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, wrong: Any, violation: str, first: int) -> None:
    """`first`: a seed that shows it, so that those before it need not run; where it shows it no longer, another does."""
    monkeypatch.setattr(where, name, wrong)
    assert any(violation in text for plan in itertools.islice(_plans(first), 60) for text in run(plan).violations)
