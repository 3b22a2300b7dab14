"""Limits of the process: where they come from, what is refused, and that caches keep to them."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from dataclasses import fields

import pytest
from pyroaring import BitMap64

import rowlock
from rowlock.caches import VECTORS, Budget, Cache
from rowlock.exceptions import InvalidInput
from rowlock.limits import Limits, from_environment, limited, limits, set_limits
from rowlock.protocol.actions import AddFile
from rowlock.storage.memory import MemoryStore
from rowlock.transaction.state.shared import Vectors

UNITS = ("rows", "bytes", "files", "ratio", "entries", "pairs", "groups", "tables", "threads")


def test_set_limits_gives_what_was_and_takes_it_back() -> None:
    before = limits()
    assert rowlock.set_limits(driver_rows=7) == before and limits().driver_rows == 7 and limits().local_rows == before.local_rows
    assert set_limits(before).driver_rows == 7 and limits() == before
    with limited(local_rows=3) as inside:
        assert inside.local_rows == 3
    assert limits() == before


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"driver_row": 7}, "no limit driver_row; did you mean driver_rows"),
        ({"zzz": 7}, "The limits are: driver_rows"),
        ({"driver_rows": -1}, "driver_rows is a whole number of rows, 0 or more, not -1"),
        ({"row_cache_bytes": "64MB"}, "row_cache_bytes is a whole number of bytes, 0 or more, not '64MB'"),
        ({"driver_rows": 1.5}, "not 1.5"),
        ({"backfill_files": 0}, "backfill_files is a whole number of files, 1 or more, not 0"),
        ({"driver_rows": True}, "not True"),
    ],
)
def test_a_value_that_is_none_is_named_and_nothing_is_changed(values: dict[str, int], message: str) -> None:
    """I9: bad input is refused by name."""
    before = limits()
    with pytest.raises(InvalidInput, match=message):
        set_limits(local_rows=1, **values)
    assert limits() == before


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("ROWLOCK_LIMITS_DRIVER_ROWS", "many", "ROWLOCK_LIMITS_DRIVER_ROWS is a whole number of rows, 0 or more, not 'many'"),
        ("ROWLOCK_LIMITS_ROWS", "1", "no limit ROWLOCK_LIMITS_ROWS"),
    ],
)
def test_the_environment_is_checked(variable: str, text: str, message: str) -> None:
    """I9: a variable that is none of ours, or has no number, is named."""
    with pytest.raises(InvalidInput, match=message):
        from_environment({variable: text})


def test_the_environment_sets_limits_of_a_new_process() -> None:
    code = "from rowlock.limits import limits; print(limits().driver_rows, limits().inline_vector_bytes)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"ROWLOCK_LIMITS_DRIVER_ROWS": "1_000", "ROWLOCK_LIMITS_INLINE_VECTOR_BYTES": "0", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["1000", "0"]


def test_each_limit_has_a_unit_and_caches_have_room() -> None:
    for field in fields(Limits):
        assert field.name.rsplit("_", 1)[-1] in UNITS, field.name
    assert all(getattr(Limits(), f.name) > 0 for f in fields(Limits) if f.name != "inline_vector_bytes"), "by default no vector is in the log"


def test_caches_share_one_budget_and_the_oldest_leaves_whosever_it_is() -> None:
    budget = Budget("row_cache_bytes")
    with limited(row_cache_bytes=100):
        one, other = (Cache[bytes](budget, len) for _ in range(2))
        for n in range(10):
            one.put(n, b"0123456789")
        assert one.get(0) is not None and budget.size == 100
        other.put(0, b"0123456789")
        assert one.get(1) is None and one.get(0) is not None and other.get(0) is not None and budget.size == 100
        other.put(0, b"01234")
        assert other.get(0) == b"01234" and budget.size == 95
        one.put(2, bytes(13))  # more than an eighth: what was kept for the key is gone, too
        assert one.get(2) is None and budget.size == 85
    with limited(row_cache_bytes=40):
        other.put(1, b"1")
        assert budget.size <= 40 and other.get(1) == b"1"
    one.clear()
    assert one.get(9) is None and other.get(1) == b"1"


def test_what_a_cache_held_is_let_go_with_it() -> None:
    budget = Budget("row_cache_bytes")
    one, other = (Cache[bytes](budget, len) for _ in range(2))
    one.put("a", b"abc")
    other.put("a", b"ab")
    del one
    gc.collect()
    assert budget.size == 2 and other.get("a") == b"ab"


def test_who_makes_a_value_at_the_same_time_gets_the_one_that_was_kept_first() -> None:
    made = Cache[object](Budget("plan_entries"), lambda _: 1)
    start, first = threading.Barrier(8), set[int]()

    def ask(value: object) -> None:
        start.wait()
        first.add(id(made.setdefault("a", value)))

    values = [object() for _ in range(8)]
    threads = [threading.Thread(target=ask, args=(value,)) for value in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(first) == 1 and id(made.get("a")) in first


def test_the_cache_of_vectors_counts_what_they_take_in_memory() -> None:
    """Measured: 200 rows anywhere in four million take 11,700 bytes, of 890 in the file; a vector that is dense takes what its file does."""
    vectors, before = Vectors(MemoryStore("memory://vectors")), VECTORS.size

    def counted(bitmap: BitMap64) -> int:
        nonlocal before
        (descriptor,) = vectors.store_all([bitmap])
        vectors.remember(AddFile("a", {}, 1, 0, True, None, descriptor), bitmap)
        added, before = VECTORS.size - before, VECTORS.size
        return added

    assert 7_000 < counted(BitMap64(range(0, 4_000_000, 20_000))) < 15_000
    assert 8_000 < counted(BitMap64(range(0, 60_000, 2))) < 9_000
