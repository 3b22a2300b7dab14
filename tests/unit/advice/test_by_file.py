"""What a recorded load would have cost by Delta's rules, which judge by file: never more commits than would have conflicted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from rich.console import Console

import rowlock
from rowlock.advice.costs import conflicts_by_file
from rowlock.advice.history import FileChanges, History, Run
from rowlock.cli.demo.run import cost_by_file, what_next
from unit.advice.histories import appends_only, disjoint_merges


def commit(version: int, read: int | None, *, removed: tuple[str, ...] = (), added: tuple[str, ...] = (), seconds: float = 0.0) -> Run:
    touched = FileChanges(removed=removed, added=added, num_removed=len(removed), num_added=len(added))
    return Run(version=version, ended_at=version - 1, operation="MERGE", read_version=read, touched=touched, seconds={"stage": seconds, "rebase": 9.0})


def test_only_what_the_log_proves_is_counted() -> None:
    runs = [
        commit(1, 0, removed=("a",), added=("a", "b"), seconds=1.0),  # first to change a: nobody before it
        commit(2, 0, removed=("a",), added=("a",), seconds=2.0),  # version 1 changed a after it had been read
        commit(3, 1, removed=("b",), added=("c",), seconds=4.0),  # b was there when it read
        commit(4, 2, removed=("c",), added=("d",), seconds=8.0),  # c was written behind it: it was moved, or its rows are new
        commit(5, 4, removed=("d",), added=("e",), seconds=16.0),  # it saw all that came before
        commit(6, 0, added=("f",), seconds=32.0),  # an append
        commit(7, None, removed=("e",), seconds=64.0),  # which version it read is not known
    ]
    history = History("t", runs)
    assert [run.version for run in conflicts_by_file(history)] == [2, 4]
    assert "at least 2 of these commits" in cost_by_file(history) and "10.0 s of work" in cost_by_file(history)


def test_of_whole_loads() -> None:
    assert conflicts_by_file(appends_only()) == [] and "none of these commits" in cost_by_file(appends_only())
    found = conflicts_by_file(disjoint_merges())
    assert found and all(run.rounds for run in found), "who met nobody had no conflict by any rule"


def test_the_page_stays_and_the_command_is_named(tmp_path: Path) -> None:
    rowlock.append(str(tmp_path / "t"), pa.table({"id": [1]}))
    console = Console(record=True, width=80)
    what_next(tmp_path / "t", tmp_path / "page.html", console, remains=True, by_row=False)
    said = console.export_text()
    assert "<html" in (tmp_path / "page.html").read_text() and f"{tmp_path / 'page.html'}\n" in said
    assert f"`rowlock conflicts {tmp_path / 't'} --html FILE`" in said and "delta-spark" not in said
