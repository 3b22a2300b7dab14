"""What transactions tell people is judged, and what happens where nothing goes wrong: a wrong account that is put into the code under test is found."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from rowlock.conflict import rules
from rowlock.conflict.value import Conflict
from rowlock.locks.lease import StaleClock
from rowlock.locks.turns import Turn
from rowlock.log.table_log import TableLog
from rowlock.protocol.actions import Commit, CommitInfo
from rowlock.transaction import failed_attempt, lease_line
from rowlock.transaction.definition import replacement
from rowlock.transaction.group_commit import between_processes, group
from rowlock.transaction.publish import commit_bytes, manifests
from rowlock.transaction.rebase import fail_policy
from rowlock.transaction.state.pending import Attempt
from rowlock.transaction.state.receipt import Receipt
from rowlock_simulation.accounts import ran_in_vain
from rowlock_simulation.actions import Action, Done
from rowlock_simulation.calm import disturbed, posted_too_early
from rowlock_simulation.history import History
from rowlock_simulation.memory.sql.script import Delete
from rowlock_simulation.outcome import Outcome
from rowlock_simulation.plan import ActorPlan, Plan, Weather
from rowlock_simulation.plans import plan_of
from rowlock_simulation.roles import ALONE, LONG, REPLACED, SHARING
from rowlock_simulation.run import run

_receipt, _facts, _hand_over, _scopes = Attempt.receipt, Conflict._facts, failed_attempt.hand_over, lease_line.scopes_under


def _plans(first: int, *, theme: str = "", calm: bool = False) -> Iterator[Plan]:
    plans = (plan_of(world, seed) for seed in itertools.count(first) for world in ("s3", "dynamodb"))  # type: ignore[arg-type]
    return (plan for plan in plans if (not theme or plan.theme == theme) and (not calm or not plan.faults))


def _with_one_more(attempt: Any, *given: Any) -> Any:
    return replace(_receipt(attempt, *given), group_size=7)


def _slow(attempt: Any, *given: Any) -> Any:
    return replace(_receipt(attempt, *given), seconds={"put": 1e6})


def _hand_over_another(of: Any, head: int, error: BaseException, *given: Any) -> None:
    _hand_over(of, head, type("Another", (type(error),), {})("made up"), *given)


@pytest.mark.parametrize(
    ("where", "name", "wrong", "violation", "plans"),
    [
        (Attempt, "receipt", _with_one_more, "it shares its version with 6 others", {"first": 0}),
        (Attempt, "receipt", _slow, "its seconds are", {"first": 0}),
        (Conflict, "_facts", lambda c: _facts(replace(c, timestamp_ms=None)), "its text of a conflict is", {"first": 0}),
        (commit_bytes, "writer", lambda: {"application": "another"}, "its program is 'another'", {"first": 0}),
        (rules, "is_harmless_property", lambda *_: False, "nothing changed that it goes by", {"first": 17}),
        (rules, "is_harmless", lambda *_: False, "for a definition that did not change", {"first": 90}),
        (rules, "FILE_RULES", (), "passes over what changed", {"first": 46}),
        (fail_policy, "columns_changed", lambda *_: {"k", "v", "w"}, "changed", {"first": 1355}),
        (failed_attempt, "hand_over", _hand_over_another, "is recorded as failed by Another", {"first": 0}),
        (failed_attempt, "record", lambda *_: None, "there is no record of it", {"first": 183, "calm": True}),
        (lease_line, "scopes_under", lambda *_: frozenset(), "did not stand in line", {"first": 0}),
        (StaleClock, "ages", lambda clock, marks: dict.fromkeys(marks, 1e9), "a lease was taken over", {"first": 0}),
        (TableLog, "maybe_checkpoint", lambda *_: False, "was due, and was not written", {"first": 0, "theme": ALONE}),
        (manifests, "follow", lambda *_: None, "the manifests name", {"first": 0, "theme": ALONE}),
        (replacement, "_OUTLIVING", (), "makes the properties", {"first": 2, "theme": REPLACED}),
        (replacement, "with_marks_of", lambda _, before, table: before, "makes the properties", {"first": 2, "theme": REPLACED}),
        (group.Queue, "is_contended", lambda _: True, "and there was nobody else", {"first": 0, "theme": ALONE}),
        (between_processes, "_may_come", lambda *_: False, "none shared a version", {"first": 0, "theme": SHARING}),
    ],
)
def test_a_wrong_account_is_found(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, wrong: Any, violation: str, plans: dict[str, Any]) -> None:
    """`first`: a seed that shows it, so that those before it need not run; where it shows it no longer, another does."""
    monkeypatch.setattr(where, name, wrong)
    assert any(violation in text for plan in itertools.islice(_plans(**plans), 120) for text in run(plan).violations)


@pytest.mark.parametrize("theme", [ALONE, SHARING])
def test_nothing_is_in_the_way_where_nothing_goes_wrong(theme: str) -> None:
    assert [text for plan in itertools.islice(_plans(0, theme=theme), 4) for text in run(plan).violations] == []


def test_appends_that_share_versions_do_so_within_each_process() -> None:
    """Two in a process may take turns, each alone every time (as drawn once for the seed below); with a third at work two wait together."""
    plan = plan_of("dynamodb", 201_001_981)
    assert plan.theme == SHARING
    assert set(Counter(a.process for a in plan.actors).values()) == {3}
    assert run(plan).violations == []


def test_tries_on_a_table_that_was_dropped_are_not_judged_by_the_next_one() -> None:
    """Their versions are of another log, which is gone."""
    info = CommitInfo({"txnId": "c", "rowlock": {"rerun_of": ["a", "b"]}})
    outcome = Outcome("a0", Action(0, "statements", (Delete("k < 0"),)), read_at={"a": 0, "b": 1, "c": 0}, begun_on={"a": 0, "b": 0, "c": 1})
    commits = [Commit(0), Commit(1, info)]
    assert ran_in_vain(commits[1], outcome, [], commits) is None
    assert ran_in_vain(commits[1], replace(outcome, begun_on=dict.fromkeys("abc", 0)), [], commits) == "0 to 1"


@pytest.mark.parametrize(("tries", "early"), [([0], ["0"]), ([1], ["1"]), ([2], []), ([1, 0], ["1"]), ([2, 0], []), ([1, 1], ["1"])])
def test_the_two_puts_before_a_post_may_be_of_a_try_that_failed(tries: list[int], early: list[str]) -> None:
    """`tries`: the puts that each try of an append has lost; the append met other columns, and was run again."""
    action, history = Action(0, "statements"), History()
    plan = Plan("s3", 0, {}, 3, (ActorPlan("a0", "p0", (action,)),), (), Weather(20, 80, 20))
    history.written("_rowlock/queue/1.json", b"an append by t", 0)
    phases = [*(phase for lost in tries for phase in ["begin", *["before_put", "after_put"] * lost]), "before_put", "after_put", "committed"]
    committed = Done(Receipt(3, 0, "t", "WRITE", attempts=tries[-1] + 1))
    found = posted_too_early(plan, history, [Outcome("a0", action, phases=phases, done=committed)])
    assert list(found) == [f"a0.0 was posted for others after {n} lost puts" for n in early]


@pytest.mark.parametrize(("version", "early"), [(None, []), (2, ["0"])])
def test_the_two_puts_before_a_post_may_be_of_a_step_that_was_there(version: int | None, early: list[str]) -> None:
    """Another actor did the step while its puts were lost: its receipt has no version, and the puts count for the next append."""
    action, history = Action(0, "statements"), History()
    plan = Plan("s3", 0, {}, 3, (ActorPlan("a0", "p0", (action,)),), (), Weather(20, 80, 20))
    history.written("_rowlock/queue/1.json", b"an append by t", 0)
    step = Outcome("a0", action, phases=["begin", *["before_put", "after_put"] * 2], done=Done(Receipt(version, 0, "s", "WRITE")))
    append = Outcome("a0", action, phases=["begin", "before_put", "after_put", "committed"], done=Done(Receipt(3, 0, "t", "WRITE", attempts=1)))
    assert list(posted_too_early(plan, history, [step, append])) == [f"a0.0 was posted for others after {n} lost puts" for n in early]


@pytest.mark.parametrize(("next_turn_us", "seconds"), [(None, ["4.000"]), (4_500_000, ["3.500"]), (2_000_000, [])])
def test_who_waits_for_the_next_turn_does_not_wait_for_one_that_has_ended(next_turn_us: int | None, seconds: list[str]) -> None:
    """I8: a turn ends, and another writer soon announces the next, for which all wait again."""
    action, history = Action(0, "statements"), History()
    plan = Plan("dynamodb", 0, {}, 3, (), (), Weather(20, 80, 20), theme=LONG)
    history.written("_rowlock/locks/turn.json", Turn(None, 1).to_bytes(), 1_000_000)
    if next_turn_us is not None:
        history.written("_rowlock/locks/turn.json", Turn("another", 2, 10.0).to_bytes(), next_turn_us)
    history.written("_delta_log/00000000000000000001.json", b"", 5_000_000)
    waits = Outcome("a1", action, done=Done(Receipt(2, 0, "t", "MERGE")), began_us=0, until_us=6_000_000)
    assert list(disturbed(plan, history, [waits], [], [])) == [f"I8: a turn had ended, and others waited for {s} s more" for s in seconds]
