"""What a server's sessions share of a table does not grow with their number, and none that is in use is lost or left with old caches."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pyarrow as pa

import rowlock
from rowlock.storage.open import open_store
from rowlock.transaction.state.shared import SharedState, state_of


class Engine:
    def __init__(self) -> None:
        self.forgot = 0

    def forget(self) -> None:
        self.forgot += 1


def state(path: Path) -> SharedState:
    rowlock.append(str(path), pa.table({"id": [1]}))
    return state_of(open_store(str(path), None))


def test_only_the_last_are_kept_and_those_that_are_used(tmp_path: Path) -> None:
    table = state(tmp_path / "t")
    used = table.shared_of_many("used", Engine)
    seen = [weakref.ref(table.shared_of_many(f"engine {n}", Engine)) for n in range(100)]
    gc.collect()
    assert 1 <= sum(ref() is not None for ref in seen) < 20 and seen[-1]() is not None
    assert table.shared_of_many("used", Engine) is used
    assert table.shared_of_many("engine 99", Engine) is seen[-1]()


def test_one_that_is_used_hears_that_the_table_is_another(tmp_path: Path) -> None:
    table = state(tmp_path / "t")
    used = table.shared_of_many("used", Engine)
    for n in range(100):
        table.shared_of_many(f"engine {n}", Engine)
    table.refresh()
    for file in sorted((tmp_path / "t").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    rowlock.append(str(tmp_path / "t"), pa.table({"other": ["x"]}))
    table.refresh()
    assert used.forgot == 1
