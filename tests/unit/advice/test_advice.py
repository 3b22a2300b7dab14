"""What is advised on recorded histories, and what holds for any history at all (I7: advice decides nothing; it must never be in the way)."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from typing import Any

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from rowlock.advice.advice import ENOUGH, MARGIN, advise, lock_for
from rowlock.advice.costs import Costs, costs, overwritings, pairs, timeline
from rowlock.advice.history import FileChanges, History, Run, in_order, run_of_attempt, run_of_commit
from rowlock.advice.keys import comparisons, hot_keys
from rowlock.display import duration
from unit.advice import histories

CASES = int(os.environ.get("ROWLOCK_PROPERTY_CASES", "200")) // 6
RANK = {"none": 0, "partition": 1, "writes": 2, "table": 3}


@cache
def recorded(name: str, *given: str) -> History:
    return getattr(histories, name)(*given)


def figures(history: History, topic: str) -> dict[str, Any]:
    return next(dict(r.figures) for r in advise(history).reasons if r.topic == topic)


def test_appends_need_no_lock() -> None:
    history = recorded("appends_only")
    found = advise(history)
    assert (found.lock, dict(found.settings), found.thin) == ("none", {}, "")
    assert found.reasons[0].text == "No commit changed a row (61 appends): appends never conflict, and need no lock."
    assert found.costs.appends == 61 and found.costs.lost_s == 0
    assert sum(len(history.overlapping(r)) for r in history.commits) > 60, "they did run beside each other"


def test_disjoint_merges_are_cheaper_repaired_than_in_line() -> None:
    history = recorded("disjoint_merges")
    found = advise(history)
    assert (found.lock, dict(found.settings), found.thin) == ("none", {}, "")
    assert found.costs.changes == 60 and found.costs.failed == 0 and found.costs.rounds == 57
    assert found.costs.service_s == pytest.approx(0.4)
    assert found.costs.repair_s == pytest.approx(0.001 * found.costs.rows_rebased / 60, rel=1e-3)
    assert found.costs.wait_s == pytest.approx(0.4 * found.costs.beside) and found.costs.beside > 1.5
    assert lock_for(history) == "none"


def test_hot_rows_that_are_run_again_wait_in_line_instead() -> None:
    history = recorded("hot_rows")
    found = advise(history)
    assert found.lock == "writes" and lock_for(history) == "writes"
    assert dict(found.settings) == {"rowlock.lock": "writes", "rowlock.onConflict": "repair"}
    assert found.costs.changes == 60 and found.costs.failed == len(history.failed) > 150
    assert found.costs.thrown_s == pytest.approx(0.4 * len(history.failed) / 60, rel=0.02), "each try takes 0.4 s"
    assert found.costs.thrown_rows == 3 * len(history.failed)
    assert figures(history, "rowlock.onConflict")["tries"] == len(history.failed)
    assert found.costs.expected()["none"] > found.costs.expected()["writes"]


def test_hot_rows_under_repair_need_none() -> None:
    found = advise(recorded("hot_rows", "repair"))
    assert found.lock == "none" and not found.settings
    assert found.costs.failed == 0 and found.costs.rows_rebased > 100


def test_conflicts_within_partitions_ask_for_a_lock_of_the_partition() -> None:
    history = recorded("hot_partitions")
    found = advise(history)
    assert found.lock == "partition" == lock_for(history)
    expected = found.costs.expected()
    assert expected["partition"] < expected["none"] < expected["writes"], "the writers of other partitions would only wait"


def test_a_long_writer_does_not_make_the_short_ones_wait() -> None:
    history = recorded("long_beside_short")
    costs_ = costs(history)
    assert lock_for(history) == "none"
    assert costs_.wait_s > 1.0, "in line behind 20 s of work, a commit of 0.4 s would wait"


def test_lockless_shows_what_was_overwritten_to_both() -> None:
    history = recorded("hot_rows", "lockless")
    over = overwritings(history)
    assert over and all(o.earlier < o.later and o.columns == ("v",) and o.rows == 3 and o.outcome == "cells" for o in over)
    assert figures(history, "overwritten")["rows"] == sum(o.rows for o in over)
    assert lock_for(history) == "none"


def test_pairs_and_keys_of_hot_rows() -> None:
    history = recorded("hot_rows")
    (pair,) = pairs(history)
    assert (pair.loser, pair.winner, pair.rate) == ("UPDATE", "UPDATE", 1.0) and pair.met == pair.failed == len(history.failed)
    (keys,) = hot_keys(history)
    assert keys.column == "k" and [v for v, _ in keys.values] == ["1", "2", "3"] and (keys.low, keys.high) == (1, 3)
    spans = timeline(history, 10)
    assert len(spans) <= 10 and sum(s.commits for s in spans) == len(history.commits) and sum(s.failed for s in spans) == len(history.failed)


def test_too_few_commits_say_so_and_keep_what_is() -> None:
    whole = recorded("hot_rows")
    few = replace(whole, runs=[r for r in whole.commits if r.changes][:12])
    assert advise(few).thin == f"12 changes: too few for advice ({ENOUGH} are needed)" and "rowlock.lock" not in advise(few).settings
    assert lock_for(few) == "none" and lock_for(few, current="writes") == "writes"
    assert advise(History("t")).thin == "no commits"


def costs_of(lost_s: float, *, wait_s: float = 1.0, partition_s: float | None = None, by_others: float = 0.0, queued_s: float = 0.0) -> Costs:
    return Costs(changes=100, appends=0, service_s=1.0, repair_s=lost_s, wait_s=wait_s, partition_s=partition_s, by_others=by_others, queued_s=queued_s)


def test_a_choice_is_left_only_for_one_that_is_cheaper_by_a_margin() -> None:
    from rowlock.advice.advice import _cheapest_lock

    between = 0.5 * (1 + 1 / MARGIN) / 2  # none costs 1.21 s, writes 1 s
    assert _cheapest_lock(costs_of(between), "none") == "none" and _cheapest_lock(costs_of(between), "writes") == "writes"
    assert _cheapest_lock(costs_of(0.8), "none") == "writes" and _cheapest_lock(costs_of(0.3), "writes") == "none"


def test_a_lock_is_kept_while_writers_queue_for_it() -> None:
    from rowlock.advice.advice import _cheapest_lock

    assert _cheapest_lock(costs_of(0.0, queued_s=0.5), "writes") == "writes", "the conflicts that it prevents cannot be seen"
    assert _cheapest_lock(costs_of(0.0, queued_s=0.01), "writes") == "none", "nobody queues any more"
    assert _cheapest_lock(costs_of(0.0, queued_s=0.5), "none") == "none"


amounts = st.floats(0, 100, allow_nan=False)


@given(
    losses=st.tuples(amounts, amounts),
    wait=amounts,
    partition=st.none() | amounts,
    appends=st.floats(0, 1),
    queued=st.floats(0, 0.2),
    current=st.sampled_from(["none", "partition", "writes"]),
)
@settings(max_examples=400)
def test_the_lock_only_grows_with_what_conflicts_cost(
    losses: tuple[float, float], wait: float, partition: float | None, appends: float, queued: float, current: Any
) -> None:
    from rowlock.advice.advice import _cheapest_lock

    less, more = sorted(losses)
    narrow = None if partition is None else min(partition, wait)
    first, second = (_cheapest_lock(costs_of(lost, wait_s=wait, partition_s=narrow, by_others=appends, queued_s=queued), current) for lost in (less, more))
    assert RANK[first] <= RANK[second]


@pytest.mark.parametrize("name", ["disjoint_merges", "hot_rows", "hot_partitions"])
def test_the_lock_of_a_history_grows_with_the_seconds_it_lost(name: str) -> None:
    history = recorded(name)
    answers = []
    for factor in (0.0, 0.01, 0.1, 0.5, 1, 3, 10, 100, 1000):
        runs = [
            replace(r, seconds=dict(r.seconds) | {"rebase": factor * r.seconds.get("rebase", 0.0)}, thrown_seconds=factor * r.thrown_seconds)
            for r in history.runs
        ]
        answers.append(RANK[lock_for(replace(history, runs=runs))])
    assert answers == sorted(answers) and answers[0] == 0 and answers[-1] > 0


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=8,
)


def mostly(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return value | value | value | anything


numbers = mostly(st.integers(0, 60) | st.floats(0, 10, allow_nan=False))
names = mostly(st.sampled_from(["WRITE", "UPDATE", "MERGE", "DELETE", "OPTIMIZE", "SET TBLPROPERTIES", "[bold]x[/]", "\x1b[31m"]))
met = st.fixed_dictionaries(
    {
        "version": numbers,
        "operation": names,
        "files": mostly(st.lists(st.sampled_from("abc"), max_size=3)),
        "rule": mostly(st.sampled_from(["", "rows changed by both", "removed files"])),
    }
)
accounts = st.fixed_dictionaries(
    {
        "attempts": numbers,
        "rounds": numbers,
        "seconds": mostly(st.dictionaries(st.sampled_from(["stage", "put", "rebase", "wait", "write"]), numbers)),
        "conflicts": mostly(st.lists(met, max_size=3)),
    },
    optional={
        "overwritten": mostly(st.lists(st.fixed_dictionaries({"version": numbers, "outcome": names, "columns": anything}), max_size=2)),
        "rerun_of": anything,
        "thrown_away": anything,
    },
)
infos = mostly(
    st.fixed_dictionaries(
        {"operation": names, "timestamp": numbers, "readVersion": numbers},
        optional={
            "rowlock": mostly(accounts),
            "isBlindAppend": anything,
            "operationMetrics": anything,
            "operationParameters": mostly(st.fixed_dictionaries({"predicate": anything | st.text(max_size=30)})),
            "engineInfo": anything,
            "txnId": anything,
        },
    )
)
failures = mostly(
    st.fixed_dictionaries(
        {
            "outcome": mostly(st.sampled_from(["conflict", "unknown", "refused", "abandoned"])),
            "operation": names,
            "read_version": numbers,
            "head_version": numbers,
            "at_ms": numbers,
            "account": mostly(accounts),
            "staged": anything,
            "on_conflict": anything,
        }
    )
)
touched = st.builds(
    FileChanges,
    removed=st.just(("a",)),
    partitions=st.frozensets(st.sampled_from(["p=1", "p=2"])),
    num_removed=st.integers(0, 2),
    num_added=st.integers(0, 2),
    complete=st.booleans(),
)


@given(
    commits=st.lists(st.tuples(infos, touched), max_size=30),
    failed=st.lists(failures, max_size=10),
    partitioned=st.booleans(),
    properties=st.dictionaries(st.sampled_from(["rowlock.lock", "rowlock.onConflict", "rowlock.granularity"]), st.text(max_size=8)),
)
@settings(max_examples=CASES)
def test_no_history_makes_advice_raise(commits: list[tuple[Any, FileChanges]], failed: list[Any], partitioned: bool, properties: dict[str, str]) -> None:
    import io

    from rich.console import Console

    from rowlock.cli.conflicts import picture, print_advice, summary

    runs: list[Run] = [run_of_commit(v, info, t) for v, (info, t) in enumerate(commits)]
    runs += [run for raw in failed if (run := run_of_attempt(raw)) is not None]
    history = History("t", in_order(runs), properties, ("p",) if partitioned else (), {"a": "p=1", "b": "p=2"} if partitioned else {})
    found = advise(history)
    assert found.lock in ("none", "partition", "writes") and all(v >= 0 for v in found.costs.expected().values())
    assert lock_for(history, current="partition") in ("none", "partition", "writes")
    assert all(p.met >= p.failed and p.overlaps >= 0 for p in pairs(history))
    orjson.dumps([summary(history), found.as_json()])
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=False)
    picture(history, console)
    print_advice(history, found, console)
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize(
    ("predicate", "found"),
    [
        ("k = 3", {("k", "3", True)}),
        ("""["(id#480L = 5)"]""", {("id", "5", True)}),
        ("""["((region#12 = 'EU') AND (day#13 >= 2024))"]""", {("region", "EU", True), ("day", "2024", False)}),
        ("UPDATE SET v = v + 1 WHERE k IN (1, -2)", {("k", "1", True), ("k", "-2", True)}),
        ("""["(id = 1L)"]""", {("id", "1", True)}),
        ("CAST(t.k AS BIGINT) <= (CAST(7 AS BIGINT))", {("k", "7", False)}),
        ("k BETWEEN 1 AND 9", {("k", "1", False), ("k", "9", False)}),
        ("t.id = s.id AND t.v > 3", {("id", None, True), ("v", "3", False)}),
        ("t.id = s.key", set()),
        ("""["(region#1 = 'the \\"EU\\"')"]""", {("region", 'the "EU"', True)}),
        ("((((", set()),
        ("", set()),
    ],
)
def test_predicates_name_keys(predicate: str, found: set[tuple[str, str, bool]]) -> None:
    assert {(path[-1], literal, equal) for path, literal, equal in comparisons(predicate)} == found


@pytest.mark.parametrize(
    ("seconds", "digits", "text"), [(0, 2, "0 s"), (0.0996, 2, "100 ms"), (0.25, 2, "0.25 s"), (69.7, 2, "70 s"), (4.987, 3, "4.99 s"), (259_200, 2, "3 d")]
)
def test_durations_have_no_exponents(seconds: float, digits: int, text: str) -> None:
    """99.6 ms were `1e+02 ms`."""
    assert duration(seconds, digits) == text
