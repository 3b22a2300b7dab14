"""Schedules over several tables show a check of transactions over several tables that was taken out; that they keep every promise is in test_simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rowlock.boundary.effects import StagedFile
from rowlock.protocol.names import commit_key
from rowlock.transaction import multi_table
from rowlock.transaction.state import shared
from rowlock.transaction.two_phase import close
from rowlock.transaction.two_phase.prepare import Part
from rowlock_simulation import together
from rowlock_simulation.actions import Action, Done
from rowlock_simulation.draw_tables import STRANGERS, draw_tables
from rowlock_simulation.history import History
from rowlock_simulation.judge_together import _Verdict
from rowlock_simulation.outcome import Outcome
from rowlock_simulation.plan import Fault, Weather
from rowlock_simulation.run import run
from rowlock_simulation.scheduler import Process, Scheduler
from rowlock_simulation.servers.network import Network
from rowlock_simulation.together_replay import Log
from rowlock_simulation.wire import Counted, Wire


def test_another_engine_is_there_where_the_theme_is_another_engine() -> None:
    """Small plans, which are most, had nobody of it: it never came between what prepares a table and what closes it."""
    plans = [plan for plan in map(draw_tables, range(100)) if plan.theme.startswith(STRANGERS)]
    assert plans
    assert all(any(a.unaware for actor in plan.actors for a in actor.actions) for plan in plans)


def test_only_who_had_read_a_version_before_it_went_with_the_power_is_excused() -> None:
    """Its name was not durable; who reads version 2 after that has read another one."""
    history = History()
    history.lost(commit_key(2), now_us=50)
    assert [history.is_gone(version, began_us) for version, began_us in ((2, 10), (3, 10), (1, 10), (2, 60))] == [True, True, False, False]


def test_who_got_no_answer_is_known_where_another_actor_met_the_partition() -> None:
    """A reader may lay what is decided over what it read where it cannot put it, and that it could not was not known (tables 271,001,137)."""
    scheduler = Scheduler(0)
    wire = Wire(scheduler, scheduler.outside, Weather(0.01, 0.01, 1000), Counted([Fault("f0", "-", "partition", 1, seconds=60)]))
    network = Network(wire, lambda status, what: OSError(what))

    def ask() -> None:
        with pytest.raises(OSError, match="get a"):
            network.send("get", "a", lambda: b"")

    for n, name in enumerate(("first", "second")):
        scheduler.spawn(name, ask, Process("p0"), after_s=float(n))
    scheduler.run()
    assert not scheduler.errors and [name for name, _ in scheduler.met] == ["first"] and scheduler.unanswered == {"first", "second"}


@pytest.mark.parametrize(("carried_to", "violations"), [(None, 0), (2, 0), (1, 1)])
def test_what_was_read_holds_where_later_versions_have_the_same_rows(carried_to: int | None, violations: int) -> None:
    """Two transactions of which one undoes the other: who has read the rows before both comes after them (drawn once as tables 210,001,000)."""
    log = Log(0, "t0", [], bags=[Counter("a"), Counter("b"), Counter("a")])
    found: list[str] = []
    verdict: Any = SimpleNamespace(_report=found.append)
    reader: Any = None if carried_to is None else SimpleNamespace(base=SimpleNamespace(version=carried_to))
    outcome = Outcome("a0", Action(0, "together"), done=Done(bases={0: 0}, reader=reader))
    assert _Verdict._held_at(verdict, log, outcome) == (carried_to or 0)
    assert len(found) == violations


def test_the_close_of_a_transaction_reads_the_files_of_this_world() -> None:
    """Where another engine altered a table with columns that are NOT NULL, staged files are asked for nulls: Parquet in the product, and not here."""
    assert run(draw_tables(283_200_349)).violations == []


def _move(part: Part, head: Any) -> None:
    super(Part, part).move_to(head)


def _each_by_itself(states: Sequence[Any], times_ms: Sequence[int]) -> list[Any]:
    times = [state.log.commit_times() for state in states]
    return [state.log.at_timestamp(sorted((of[0][1], ms, of[-1][1]))[1]) for state, ms, of in zip(states, times_ms, times, strict=True)]


@pytest.mark.parametrize(
    ("where", "name", "wrong", "theme", "violation", "first"),
    [
        (close, "word_of", lambda home, prepared: home.look().version, STRANGERS, "decided 0 times", 74),
        (close, "word_of", lambda home, prepared: close.ABORTED, "transfers", "is not closed with it", 1),
        (close, "_without", lambda file, *_: StagedFile(file), STRANGERS, "I6: two rows", 170),
        (close, "_found", lambda lost, *_: ({}, np.zeros(0, np.int64)), STRANGERS, "I6: two rows", 170),
        (Part, "is_only_read", property(lambda _: False), "copies", "no serial order", 2),
        (Part, "move_to", _move, "transfers", "decided", 443),
        (together, "heads_at", _each_by_itself, "transfers", "by half", 176),
        (multi_table, "_has_successor", lambda state, head: False, "transfers", "no serial order", 39),
        (shared, "_is_open", lambda head: False, "copies", "which is open there", 26),
        (shared, "_laid_over", lambda state, head: replace(head, txns={}), "one table beside several", "saw other rows", 41),
    ],
)
def test_a_check_that_is_taken_out_is_found(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, wrong: Any, theme: str, violation: str, first: int) -> None:
    """`first`: a seed that shows it, so that those before it need not run; where it shows it no longer, another does."""
    monkeypatch.setattr(where, name, wrong)
    plans = (plan for plan in map(draw_tables, range(first, first + 300)) if plan.theme == theme)
    assert any(violation in text for plan in plans for text in run(plan).violations)
