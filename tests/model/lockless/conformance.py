"""The conformance cases of lockless commits (docs/lockless.md), for any hosts on one table.

Each case is given a function that opens one more host, and must hold on threads and on processes, in
memory and on Spark.  C12 is in `model.py`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from model.lockless.host import LOCKLESS, MAPPED, Host, Rows

Open = Callable[[], Host]
KAB = "k long, a long, b long"


class Scale:
    """How many writers and commits the cases with many take: less on Spark, where one takes a tenth of a second and more."""

    def __init__(self, writers: int = 16, commits: int = 25) -> None:
        self.writers, self.commits = writers, commits


def made(host: Host, rows: str, columns: str = KAB, properties: dict[str, str] = LOCKLESS) -> None:
    host.create(columns, properties)
    host.do(f"APPEND {rows}")


def by_key(rows: Rows) -> dict[Any, tuple[Any, ...]]:
    assert len({row[0] for row in rows}) == len(rows), f"a key is there twice: {rows}"
    return {row[0]: tuple(row[1:]) for row in rows}


def c01_private_until_commit(open_: Open, scale: Scale) -> None:
    """C1: nobody sees a change before its commit, and an open handle sees it once it is refreshed."""
    a, b = open_(), open_()
    made(a, "(1, 0, 0), (2, 0, 0)")
    view = b.pin()
    session = a.begin()
    a.run(session, "UPDATE SET a = 5 WHERE k = 1")
    a.run(session, "APPEND (3, 0, 0)")
    before = {1: (0, 0), 2: (0, 0)}
    assert by_key(b.rows()) == by_key(a.rows()) == by_key(b.pinned(view)) == before
    a.commit(session)
    after = {1: (5, 0), 2: (0, 0), 3: (0, 0)}
    assert by_key(b.pinned(view)) == before
    assert by_key(b.rows()) == after
    b.refresh(view)
    assert by_key(b.pinned(view)) == after


def c02_all_of_a_transaction_or_none(open_: Open, scale: Scale) -> None:
    """C2: a 50-cell update with a 2-row append; a reader never sees a mix."""
    a, b = open_(), open_()
    made(a, ", ".join(f"({k}, 0, 0)" for k in range(25)))
    rounds = max(2, scale.commits // 3)
    seen: list[tuple[int, set[Any]]] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            rows = b.rows()
            seen.append((len(rows), {tuple(r[1:]) for r in rows if r[0] < 25}))

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(1, rounds + 1):
        session = a.begin()
        a.run(session, f"UPDATE SET a = {n}, b = {n} WHERE k < 25")
        a.run(session, f"APPEND ({100 + 2 * n}, {n}, {n}), ({101 + 2 * n}, {n}, {n})")
        a.commit(session)
    over.set()
    reader.join()
    assert seen
    for count, cells in seen:
        assert cells == {((count - 25) // 2,) * 2}, f"{count} rows beside the cells {cells}"


def c03_all_appends_are_there(open_: Open, scale: Scale) -> None:
    """C3: many writers append blocks of 5 rows: all are there, each block in one piece and in its order, each writer's in its order, no error."""
    first = open_()
    first.create("w long, n long, i long", LOCKLESS)
    hosts = [open_() for _ in range(scale.writers)]
    with ThreadPoolExecutor(scale.writers) as pool:
        versions = list(pool.map(lambda n: hosts[n].appends(n, scale.commits, 5), range(scale.writers)))
    for one in versions:
        assert one == sorted(set(one)) and None not in one, "a version later than the one before, though others may share it (group commit)"
    assert sum(map(len, versions)) == scale.writers * scale.commits
    _all_blocks(first.rows(), scale)
    first.do("OPTIMIZE")
    _all_blocks(first.rows(), scale)


def _all_blocks(rows: Rows, scale: Scale) -> None:
    assert len(rows) == scale.writers * scale.commits * 5
    blocks = [rows[n : n + 5] for n in range(0, len(rows), 5)]
    assert all(len({(w, n) for w, n, _ in b}) == 1 and [i for _, _, i in b] == [0, 1, 2, 3, 4] for b in blocks)
    assert {(b[0][0], b[0][1]) for b in blocks} == {(w, n) for w in range(scale.writers) for n in range(scale.commits)}


def c04_delete_beats_update(open_: Open, scale: Scale) -> None:
    """C4: delete against update of one row, in both orders: the row is deleted and both succeed."""
    a, b = open_(), open_()
    made(a, "(1, 0, 0), (2, 0, 0), (3, 0, 0)")
    update, delete = a.begin(), b.begin()
    a.run(update, "UPDATE SET a = 5 WHERE k = 1")
    b.run(delete, "DELETE WHERE k = 1")
    first = b.commit(delete)
    second = a.commit(update)
    assert first["version"] is not None
    assert [o[1:] for o in second["overwritten"]] == [["dropped", ["a"], first["version"]]]
    assert by_key(a.rows()) == {2: (0, 0), 3: (0, 0)}
    update, delete = a.begin(), b.begin()
    a.run(update, "UPDATE SET a = 5 WHERE k = 2")
    b.run(delete, "DELETE WHERE k = 2")
    first, second = a.commit(update), b.commit(delete)
    assert [o[1:] for o in second["overwritten"]] == [["row", ["a"], first["version"]]]
    assert by_key(a.rows()) == by_key(b.rows()) == {3: (0, 0)}


def c05_an_update_of_a_range_spares_the_deleted(open_: Open, scale: Scale) -> None:
    """C5: a range update over a row that was deleted: the survivors are updated."""
    a, b = open_(), open_()
    made(a, ", ".join(f"({k}, 0, 0)" for k in range(10)))
    session = a.begin()
    a.run(session, "UPDATE SET a = 7 WHERE k >= 2 AND k < 8")
    b.do("DELETE WHERE k = 4 OR k = 9")
    told = a.commit(session)
    assert by_key(a.rows()) == {k: (7 if 2 <= k < 8 else 0, 0) for k in range(10) if k not in (4, 9)}
    assert [o[1] for o in told["overwritten"]] == ["dropped"]


def c06_deleting_twice_is_deleting(open_: Open, scale: Scale) -> None:
    """C6: delete with delete is one delete; and a place that was read before a compaction still means the same row."""
    a, b = open_(), open_()
    made(a, "(1, 0, 0), (2, 0, 0), (3, 0, 0)")
    a.do("APPEND (4, 0, 0), (5, 0, 0)")
    one, other = a.begin(), b.begin()
    a.run(one, "DELETE WHERE k = 1 OR k = 2")
    b.run(other, "DELETE WHERE k = 2 OR k = 4")
    a.commit(one)
    a.do("OPTIMIZE")
    told = b.commit(other)
    assert told["overwritten"] == [] and by_key(b.rows()) == {3: (0, 0), 5: (0, 0)}
    stale = b.begin()
    b.run(stale, "UPDATE SET b = 9 WHERE k = 5")
    a.do("DELETE WHERE k = 3")
    a.do("APPEND (6, 0, 0)")
    a.do("OPTIMIZE")
    b.commit(stale)
    assert by_key(b.rows()) == {5: (0, 9), 6: (0, 0)}


def c07_the_last_to_commit_wins_a_cell(open_: Open, scale: Scale) -> None:
    """C7: many writers set one cell: one value for every reader, that of the highest version, and a compaction does not change it."""
    first = open_()
    made(first, "(1, -1, 0), (2, -1, 0)")
    hosts = [open_() for _ in range(scale.writers)]
    sessions = [host.begin() for host in hosts]
    for n, (host, session) in enumerate(zip(hosts, sessions, strict=True)):
        host.run(session, f"UPDATE SET a = {n} WHERE k = 1")
    with ThreadPoolExecutor(scale.writers) as pool:
        told = list(pool.map(lambda n: hosts[n].commit(sessions[n]), range(scale.writers)))
    last = max(range(scale.writers), key=lambda n: told[n]["version"])
    order = sorted(range(scale.writers), key=lambda n: told[n]["version"])
    for before, after in itertools.pairwise(order):
        assert [o[1:] for o in told[after]["overwritten"]][-1] == ["cells", ["a"], told[before]["version"]], "each says whom it overwrote"
    expected = {1: (last, 0), 2: (-1, 0)}
    assert all(by_key(host.rows()) == expected for host in (first, hosts[0], open_()))
    first.do("OPTIMIZE")
    assert by_key(open_().rows()) == expected


def c08_cells_of_one_row_merge(open_: Open, scale: Scale) -> None:
    """C8: {a} with {b} merge; {a, b} with {b} merge by cell.  A cell that was given its old value counts as set."""
    a, b = open_(), open_()
    made(a, "(1, 0, 0), (2, 0, 0), (3, 0, 0)")
    one, other = a.begin(), b.begin()
    a.run(one, "UPDATE SET a = 5 WHERE k = 1")
    a.run(one, "UPDATE SET a = 6, b = 6 WHERE k = 2")
    a.run(one, "UPDATE SET a = 0 WHERE k = 3")
    b.run(other, "UPDATE SET b = 7 WHERE k < 3")
    b.run(other, "UPDATE SET a = 7 WHERE k = 3")
    b.commit(other)
    a.commit(one)
    assert by_key(a.rows()) == by_key(b.rows()) == {1: (5, 7), 2: (6, 6), 3: (0, 0)}
    both = a.begin(), b.begin()
    a.run(both[0], "MERGE USING (k, a: (1, 70), (2, 80)) ON t.k = s.k WHEN MATCHED AND s.a < 75 THEN UPDATE SET a = s.a WHEN MATCHED THEN UPDATE SET b = s.a")
    b.run(both[1], "UPDATE SET a = 1, b = 1 WHERE k < 3")
    b.commit(both[1])
    a.commit(both[0])
    assert by_key(b.rows()) == {1: (70, 1), 2: (1, 80), 3: (0, 0)}, "the cells of the clause that took the row, and no others"


def c09_a_new_row_under_an_old_key(open_: Open, scale: Scale) -> None:
    """C9: delete and insert of a key again, against an update of the old row: the new row is not touched."""
    a, b = open_(), open_()
    made(a, "(1, 0, 0), (2, 0, 0)")
    session = a.begin()
    a.run(session, "UPDATE SET a = 5 WHERE k = 1")
    again = b.begin()
    b.run(again, "DELETE WHERE k = 1")
    b.run(again, "APPEND (1, 100, 100)")
    b.commit(again)
    told = a.commit(session)
    assert by_key(a.rows()) == {1: (100, 100), 2: (0, 0)}
    assert [o[1] for o in told["overwritten"]] == ["dropped"]
    session = a.begin()
    a.run(session, "UPDATE SET a = 8 WHERE a >= 100")
    b.do("APPEND (3, 100, 0)")
    a.commit(session)
    assert by_key(a.rows()) == {1: (8, 100), 2: (0, 0), 3: (100, 0)}, "a condition is not asked again of a row that came later"


def c10_columns_come_and_go(open_: Open, scale: Scale) -> None:
    """C10: add column against append, rename against update, drop against write; a column that is there is refused before anything is published."""
    a, b = open_(), open_()
    made(a, "(1, 0, 0), (2, 0, 0)", properties=MAPPED)
    session = a.begin()
    a.run(session, "APPEND (3, 3, 3)")
    a.run(session, "UPDATE SET b = 1 WHERE k = 1")
    b.alter("add c long")
    b.do("UPDATE SET c = 4, a = 4 WHERE k = 1")
    a.commit(session)
    assert by_key(a.rows()) == {1: (4, 1, 4), 2: (0, 0, None), 3: (3, 3, None)}
    version = a.version()
    with pytest.raises(Exception, match=r"twice|more than once|same name|case"):
        a.alter("add c long")
    assert a.version() == version
    session = a.begin()
    a.run(session, "UPDATE SET a = 9 WHERE k <= 2")
    b.alter("rename a z")
    b.do("UPDATE SET b = 6, z = 6 WHERE k = 2")
    a.commit(session)
    assert by_key(b.rows()) == {1: (9, 1, 4), 2: (9, 6, None), 3: (3, 3, None)}, "a column is meant by its id, whatever it is called"
    session = a.begin()
    a.run(session, "UPDATE SET z = 1, b = 2 WHERE k = 3")
    b.alter("drop z")
    a.commit(session)
    assert by_key(open_().rows()) == {1: (1, 4), 2: (6, None), 3: (2, None)}


def c11_a_writer_that_pauses(open_: Open, scale: Scale) -> None:
    """C11: a writer stops in the middle of publishing while others commit; and a handle that was refreshed is like a new one."""
    a, b = open_(), open_()
    made(a, ", ".join(f"({k}, 0, 0)" for k in range(6)))
    view = b.pin()
    session = a.begin()
    a.run(session, "UPDATE SET a = 1 WHERE k < 4")
    with ThreadPoolExecutor(1) as pool:
        paused = pool.submit(a.commit, session, 5 if scale.writers > 8 else 1)
        b.do("UPDATE SET b = 2 WHERE k < 2")
        b.do("DELETE WHERE k = 3")
        b.do("OPTIMIZE")
        b.do("APPEND (9, 9, 9)")
        told = paused.result()
    expected = {0: (1, 2), 1: (1, 2), 2: (1, 0), 4: (0, 0), 5: (0, 0), 9: (9, 9)}
    b.refresh(view)
    assert by_key(b.pinned(view)) == by_key(open_().rows()) == by_key(a.rows()) == expected
    assert told["version"] is not None


CASES = sorted((value for name, value in globals().items() if name.startswith("c") and name[1:3].isdigit()), key=lambda f: f.__name__)


def case_ids() -> Iterator[str]:
    return (case.__name__ for case in CASES)
