"""The three histories that advice is judged by, and two more: writers of `world` on tables in memory."""

from __future__ import annotations

from typing import Any

from rowlock.advice.history import History
from rowlock.storage.store import ObjectStore
from unit.advice.world import Writer, play


def appends_only(store: ObjectStore | None = None) -> History:
    """4 writers append 15 times each."""
    return play([Writer(lambda n, w=w: f"APPEND ({1000 * (w + 1) + n}, 0)", 15) for w in range(4)], store=store)  # type: ignore[misc]


def disjoint_merges(store: ObjectStore | None = None) -> History:
    """4 writers merge 5 rows of their own each, 15 times; at first all rows lie in one file."""

    def merge(writer: int, n: int) -> str:
        rows = ", ".join(f"({k}, {n})" for k in range(20 * writer, 20 * writer + 5))
        return f"MERGE USING (k, v: {rows}) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"

    return play([Writer(lambda n, w=w: merge(w, n), 15) for w in range(4)], store=store)  # type: ignore[misc]


def hot_rows(policy: str = "rerun", store: ObjectStore | None = None, **properties: str) -> History:
    """4 writers count up the same 3 rows, 15 times each."""
    properties = {"rowlock__onConflict": policy, **({"delta__enableRowTracking": "true"} if policy == "lockless" else {}), **properties}
    return play([Writer(lambda n: "UPDATE SET v = v + 1 WHERE k IN (1, 2, 3)", 15) for _ in range(4)], store=store, **properties)


def hot_partitions(store: ObjectStore | None = None) -> History:
    """6 writers, two for each of 3 partitions, count up all rows of theirs, 12 times each, under rerun."""
    writers = [Writer(lambda n, w=w: f"UPDATE SET v = v + 1 WHERE p = {w % 3}", 12) for w in range(6)]  # type: ignore[misc]
    return play(writers, columns="k long, p long, v long", partition=("p",), store=store, rowlock__onConflict="rerun")


def long_beside_short() -> History:
    """One writer works for 20 s at a time while 3 others each change a row of their own twice a second, under repair."""
    short: list[Any] = [Writer(lambda n, w=w: f"UPDATE SET v = v + 1 WHERE k = {w}", 60) for w in range(3)]  # type: ignore[misc]
    return play([Writer(lambda n: f"DELETE WHERE k = {50 + n}", 2, work_s=20.0), *short])
