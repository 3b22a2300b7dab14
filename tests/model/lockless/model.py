"""C12: random commits of many writers against a model that knows nothing of Rowlock: intents by key, in the order of the log.

A key is never used twice, so a key is a row.  A statement is carried out on the rows that it read, and what
it means (rows to add, rows to delete, cells to set) is then applied to whatever the log has before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rowlock_simulation.memory.sql.script import Append, Delete, Optimize, Script, Update, parse

Table = dict[int, dict[str, int]]


def replayed(start: Table, done: Iterable[tuple[str, int | None, int]]) -> list[Table]:
    """The table after each version, from the version of `start` on; `done` are (statement, version, read version).

    Appends may share a version (group commit); nothing else may.
    """
    commits: dict[int, list[tuple[Script, int]]] = {}
    for text, version, read in done:
        if version is not None:
            commits.setdefault(version, []).append((parse(text), read))
    first = min(commits) - 1 if commits else 0
    states = {first: start}
    for version in range(first + 1, max(commits, default=first) + 1):
        group = commits[version]
        assert len(group) == 1 or all(isinstance(script, Append) for script, _ in group), f"version {version} has {group}"
        states[version] = states[version - 1]
        for script, read in group:
            states[version] = _applied(states[version], script, states[read])
    return [states[v] for v in sorted(states)]


def _applied(now: Table, script: Script, read: Table) -> Table:
    match script:
        case Optimize():
            return now
        case Append(rows):
            return now | {int(k): dict(zip("abc", values, strict=True)) for k, *values in rows}  # type: ignore[arg-type]
        case Delete(where):
            meant = _keys(where, read)
            return {k: row for k, row in now.items() if k not in meant}
        case Update(assignments, where):
            meant = _keys(where, read)
            cells = {k: {column: _value(text, read[k]) for column, text in assignments} for k in meant}
            return {k: row | cells[k] if k in cells else row for k, row in now.items()}
        case _:
            raise AssertionError(script)


def _keys(where: str | None, read: Table) -> set[int]:
    found = re.fullmatch(r"k in \((.+)\)", str(where).lower())
    assert found, where
    return {int(k) for k in found[1].split(",")} & read.keys()


def _value(text: str, row: dict[str, int]) -> int:
    found = re.fullmatch(r"(?:([abc]) \+ )?(\d+)", text)
    assert found, text
    return int(found[2]) + (row[found[1]] if found[1] else 0)


def as_table(rows: Iterable[Iterable[Any]]) -> Table:
    out: Table = {}
    for k, *values in rows:
        assert k not in out, f"key {k} is there twice"
        out[k] = dict(zip("abc", values, strict=True))
    return out
