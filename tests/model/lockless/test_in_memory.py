"""Lockless commits on the engine that keeps rows in memory: C1 to C12, on threads (I1, I2, I5, I6)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from model.lockless.conformance import CASES, Scale, case_ids
from model.lockless.host import KEYS_AT_START, LOCKLESS, Host, MemoryHost
from model.lockless.model import as_table, replayed
from model.schedules.in_memory import InMemory
from rowlock import clock
from rowlock.exceptions import DeltaConcurrentModificationException
from rowlock.storage.memory import MemoryStore
from rowlock.transaction.definition import alteration

ENGINES: dict[str, dict[str, Any]] = {"vectors": {}, "files": {"spill_rows": 1}, "copy on write": {"override": {"delta.enableDeletionVectors": "false"}}}
ALIKE = pytest.mark.soak("appends change no row, whichever way rows are changed", ci=True)


@pytest.mark.parametrize(
    ("case", "options"),
    [
        pytest.param(case, options, id=f"{id_}-{name}", marks=[ALIKE] if id_.startswith("c03") and options else [])
        for case, id_ in zip(CASES, case_ids(), strict=True)
        for name, options in ENGINES.items()
    ],
)
def test_conformance(case: Callable[..., None], options: dict[str, Any]) -> None:
    store = MemoryStore(f"memory://{clock.new_id()}")
    case(lambda: MemoryHost(store, **options), Scale(8, 25) if case.__name__.startswith("c11") else Scale())


def start(host: Host) -> None:
    """The table that random commits begin with."""
    host.create("k long, a long, b long, c long", LOCKLESS)
    host.do("APPEND " + ", ".join(f"({k}, 0, 0, 0)" for k in range(KEYS_AT_START)))


def check_against_model(host: Host, done: list[list[Any]], *, every: int) -> None:
    """Every so many versions, and the last one, are what the model says."""
    first = as_table([(k, 0, 0, 0) for k in range(KEYS_AT_START)])
    states = replayed(first, [(text, version, read) for text, version, read in done])
    for n, state in enumerate(states):
        if n % every == 0 or n == len(states) - 1:
            assert as_table(host.rows(1 + n)) == state, f"version {1 + n}"


@pytest.mark.parametrize("compacting", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.short(
    "0-False",
    "1-True",
    ci=(
        "0-True",
        "1-False",
        "2-False",
        "2-True",
    ),
    why="the same threads with other seeds",
)
def test_c12_random_commits_on_threads(seed: int, compacting: bool) -> None:
    store = MemoryStore(f"memory://{clock.new_id()}")
    host = MemoryHost(store)
    start(host)
    with ThreadPoolExecutor(6) as pool:
        done = [one for part in pool.map(lambda n: MemoryHost(store).mixed(n, 40, compacting, seed), range(6)) for one in part]
    check_against_model(host, done, every=10)


@pytest.mark.parametrize(("policy", "exact"), [("repair", True), ("lockless", False)])
def test_c12_a_hundred_increments(policy: str, exact: bool) -> None:
    """Under `repair` a hundred increments are a hundred.  Under lockless the later one wins the cell, so some are lost, and none fails."""
    store = MemoryStore(f"memory://{clock.new_id()}")
    first = MemoryHost(store)
    first.create("k long, a long", LOCKLESS)
    first.do("APPEND (1, 0)")
    hosts = [MemoryHost(store) for _ in range(10)]
    sessions = next([host.begin() for host in hosts] for _ in range(1))
    if not exact:  # all ten have read 0
        for host, session in zip(hosts, sessions, strict=True):
            host.run(session, "UPDATE SET a = a + 1 WHERE k = 1")
        assert len({host.commit(session)["version"] for host, session in zip(hosts, sessions, strict=True)}) == 10
        assert first.rows() == [[1, 1]]
        return
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda host: [host.do("UPDATE SET a = a + 1 WHERE k = 1", policy) for _ in range(10)], hosts))
    assert first.rows() == [[1, 100]]


def _two_hosts(columns: str, rows: str, properties: dict[str, str] = LOCKLESS) -> tuple[MemoryStore, MemoryHost, MemoryHost]:
    """A store with a table, and two processes that change it."""
    store = MemoryStore(f"memory://{clock.new_id()}")
    a, b = MemoryHost(store), MemoryHost(store)
    a.create(columns, properties)
    a.do(f"APPEND {rows}")
    return store, a, b


def test_a_merged_row_that_breaks_a_constraint_is_dropped_and_told() -> None:
    """Each statement keeps the constraint, the merged row does not: the later writer's cells of this row are dropped, the rest stands."""
    _, a, b = _two_hosts("k long, a long, b long", "(1, 0, 0), (2, 0, 0), (3, 0, 0)", LOCKLESS | {"delta.constraints.sum": "a + b <= 10"})
    session = a.begin()
    a.run(session, "UPDATE SET a = 8 WHERE k <= 3")
    first = b.do("UPDATE SET b = 9 WHERE k = 2")
    told = a.commit(session)
    assert sorted(map(tuple, a.rows())) == [(1, 8, 0), (2, 0, 9), (3, 8, 0)]
    assert [o[1:] for o in told["overwritten"]] == [["dropped", ["a"], first["version"]]]


def test_a_new_constraint_is_asked_of_the_merged_rows() -> None:
    """Others mended a row, and forbade what it had been: the staged image of before is nobody's row."""
    store, a, b = _two_hosts("k long, a long, b long", "(1, -1, 0), (2, -1, 0)")
    session = a.begin()
    a.run(session, "UPDATE SET b = 5 WHERE k <= 2")
    b.do("UPDATE SET a = 1 WHERE k = 1")
    b.do("DELETE WHERE k = 2")
    world = InMemory(store=store)
    alteration.add_constraint(world.state, world.engine, "positive", "a > 0")
    a.commit(session)
    assert a.rows() == [[1, 1, 5]]


def test_a_winner_that_did_not_keep_row_ids_is_a_conflict() -> None:
    """Rows that were written anew without their ids cannot be told from rows that were deleted: then the commit fails and writes nothing."""
    _, a, b = _two_hosts("k long, a long", "(1, 0), (2, 0)")
    session = a.begin()
    a.run(session, "UPDATE SET a = 8 WHERE k = 1")
    with forgetting_ids():
        b.do("OVERWRITE (1, 5), (2, 0)", "repair")
    with pytest.raises(DeltaConcurrentModificationException, match="ids"):
        a.commit(session)
    assert a.rows() == [[1, 5], [2, 0]]


class forgetting_ids:
    """Commits say that they did not keep row ids, as those of a writer that knows nothing of them do."""

    def __enter__(self) -> None:
        from rowlock.boundary import row_identity

        self._tags, row_identity.tags = row_identity.tags, lambda head, rewrites: {}

    def __exit__(self, *_: object) -> None:
        from rowlock.boundary import row_identity

        row_identity.tags = self._tags
