"""Schedules of the named anomalies as text: what each session does, and what each level and policy makes of it.

    rows: (1, 10), (2, 20)                       the table (k, v) at the start
    T1 begins | runs STATEMENT | reads ROWS | aborts | commits
    LEVEL, POLICY: T2 commits, rows ROWS         or: T2 conflicts.  LEVEL may be `any level`

Every session runs under the level and policy of the outcome that is tried; what it reads must be ROWS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rowlock.exceptions import DeltaConcurrentModificationException
from rowlock_simulation.memory.sql.script import Script, parse

HERE = Path(__file__).parent
LEVELS = ("serializable", "write_serializable", "snapshot")
Rows = list[tuple[int, int]]


@dataclass(frozen=True)
class Step:
    session: str
    verb: str
    statement: Script | None = None
    rows: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Outcome:
    level: str
    policy: str
    session: str
    conflicts: bool
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Anomaly:
    name: str
    rows: tuple[tuple[int, int], ...]
    steps: tuple[Step, ...]
    outcomes: tuple[Outcome, ...]


class Session(Protocol):
    """One open transaction of a world."""

    def run(self, statement: Script) -> None: ...
    def read(self) -> Rows: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...


class World(Protocol):
    """A table (k, v) on some engine."""

    def begin(self, level: str, policy: str) -> Session: ...
    def rows(self) -> Rows: ...


def _rows(text: str) -> tuple[tuple[int, int], ...]:
    return tuple((int(k), int(v)) for k, v in re.findall(r"\((-?\d+), (-?\d+)\)", text))


def load(path: Path) -> Anomaly:
    """Raises ValueError for a line that it does not understand."""
    rows: tuple[tuple[int, int], ...] = ()
    steps: list[Step] = []
    outcomes: list[Outcome] = []
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("rows:"):
            rows = _rows(line)
        elif found := re.fullmatch(r"(\w+) (begins|aborts|commits)", line):
            steps.append(Step(found[1], found[2]))
        elif found := re.fullmatch(r"(\w+) reads (.+)", line):
            steps.append(Step(found[1], "reads", rows=_rows(found[2])))
        elif found := re.fullmatch(r"(\w+) runs (.+)", line):
            steps.append(Step(found[1], "runs", statement=parse(found[2])))
        elif found := re.fullmatch(r"(.+), (repair|fail): (\w+) (commits|conflicts), rows (.+)", line):
            levels = LEVELS if found[1] == "any level" else (found[1],)
            outcomes += [Outcome(level, found[2], found[3], found[4] == "conflicts", _rows(found[5])) for level in levels]
        else:
            raise ValueError(f"{path.name}: {line}")
    return Anomaly(path.stem, rows, tuple(steps), tuple(outcomes))


def cases() -> Iterator[tuple[Anomaly, Outcome]]:
    for path in sorted(HERE.glob("*.txt")):
        anomaly = load(path)
        assert anomaly.outcomes, f"{path.name} promises nothing"
        for outcome in anomaly.outcomes:
            yield anomaly, outcome


def name_of(value: Any) -> str:
    return value.name if isinstance(value, Anomaly) else f"{value.level}-{value.policy}"


def play(anomaly: Anomaly, outcome: Outcome, world: World) -> None:
    """Plays the sessions and compares with what is promised."""
    open_: dict[str, Session] = {}
    ended: dict[str, bool] = {}
    for step in anomaly.steps:
        match step.verb:
            case "begins":
                open_[step.session] = world.begin(outcome.level, outcome.policy)
            case "runs":
                assert step.statement is not None
                open_[step.session].run(step.statement)
            case "reads":
                seen = open_[step.session].read()
                assert sorted(seen) == sorted(step.rows), f"{step.session} reads {seen}"
            case "aborts":
                open_[step.session].abort()
            case _:
                ended[step.session] = _conflicts(open_[step.session])
    for session, conflicts in ended.items():
        assert conflicts == (outcome.conflicts and session == outcome.session), f"{session} {'conflicts' if conflicts else 'commits'}"
    assert sorted(world.rows()) == sorted(outcome.rows)


def _conflicts(session: Session) -> bool:
    try:
        session.commit()
    except DeltaConcurrentModificationException:
        return True
    return False


def tuples(rows: Sequence[Any]) -> Rows:
    return [(row["k"], row["v"]) for row in rows]
