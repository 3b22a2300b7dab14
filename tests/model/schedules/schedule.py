"""Schedules as text: who does what when, line by line.

    # An UPDATE meets a DELETE of another row in the same file.
    table: k LONG, v LONG NOT NULL
    partition: k                                   optional
    vectors: off                                   optional; on by default
    property: rowlock.onConflict = fail            optional, any number
    file: (1, 10), (2, 20)                         each line is one data file
    before: DELETE WHERE k = 2                     optional, any number: commits before the schedule begins
    only: in memory                                optional: not played on Spark
    layout: matters                                optional: ends otherwise when files or vectors are laid out otherwise

    T  begins   UPDATE SET v = v + 1 WHERE k = 1   reads the table and stages
    T  reaches  before_put                         goes on to a phase of its commit, and stops there
    W  commits  DELETE WHERE k = 2                 begins and ends in one go
    T  ends     rebase rounds=1                    goes on to the end, which is as said

How a session ends: `ok` (committed as staged), `rebase` (committed after a rebase), `nothing` (there
was nothing to commit), or the name of an error.  Beside scripts a session may commit `PROPERTY
name = value`, `COLUMN name TYPE`, `DROP name` (where columns are mapped), `CHECK name condition`, `FEATURE name` (a writer feature) and `RESTORE n` (to the state
after the n-th commit since the table's creation).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from rowlock_simulation.memory.sql.script import Script, parse, parse_rows

FOLDER = Path(__file__).parent
VERBS = ("begins", "reaches", "ends", "commits")


@dataclass(frozen=True)
class SetProperty:
    name: str
    value: str


@dataclass(frozen=True)
class AddColumn:
    name: str
    type: str


@dataclass(frozen=True)
class DropColumn:
    name: str


@dataclass(frozen=True)
class AddCheck:
    name: str
    expression: str


@dataclass(frozen=True)
class AddFeature:
    name: str


@dataclass(frozen=True)
class Restore:
    version: int


Action = Script | SetProperty | AddColumn | DropColumn | AddCheck | AddFeature | Restore


@dataclass(frozen=True)
class Step:
    """`what` is an action for begins and commits, a phase for reaches, an outcome for ends."""

    session: str
    verb: str
    what: Action | str
    line: int


@dataclass
class Schedule:
    name: str
    columns: tuple[tuple[str, str, bool], ...] = ()
    partition: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    files: list[tuple[tuple[int | str | bool | None, ...], ...]] = field(default_factory=list)
    before: list[Script] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    memory_only: bool = False
    layout_matters: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _, _ in self.columns)

    @property
    def not_null(self) -> frozenset[str]:
        return frozenset(name for name, _, nullable in self.columns if not nullable)


def read_action(text: str) -> Action:
    """A script, or one of the actions that only schedules have."""
    if found := re.fullmatch(r"PROPERTY (\S+) = (\S+)", text):
        return SetProperty(found[1], found[2])
    if found := re.fullmatch(r"COLUMN (\w+) (\w+)", text):
        return AddColumn(found[1], found[2].lower())
    if found := re.fullmatch(r"DROP (\w+)", text):
        return DropColumn(found[1])
    if found := re.fullmatch(r"CHECK (\w+) (.+)", text):
        return AddCheck(found[1], found[2])
    if found := re.fullmatch(r"FEATURE (\w+)", text):
        return AddFeature(found[1])
    if found := re.fullmatch(r"RESTORE (\d+)", text):
        return Restore(int(found[1]))
    return parse(text)


def read_schedule(path: Path) -> Schedule:
    """Reads one fixture."""
    return parse_schedule(path.stem, path.read_text())


def parse_schedule(name: str, text: str) -> Schedule:
    """Reads a schedule's text. A line that is indented continues the one before."""
    schedule = Schedule(name)
    lines: list[tuple[int, str]] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].rstrip()
        if line.startswith(" ") and lines:
            lines[-1] = (lines[-1][0], f"{lines[-1][1]} {line.strip()}")
        elif line:
            lines.append((number, line))
    for number, line in lines:
        try:
            _read_line(schedule, number, line)
        except (ValueError, KeyError) as error:
            raise ValueError(f"{name}:{number}: {line!r}: {error}") from error
    return schedule


def _read_line(schedule: Schedule, number: int, line: str) -> None:
    head, colon, rest = line.partition(":")
    if colon and " " not in head:
        _read_setting(schedule, head, rest.strip())
        return
    session, verb, what = line.split(None, 2)
    if verb not in VERBS:
        raise ValueError(f"{verb!r} is none of {', '.join(VERBS)}")
    schedule.steps.append(Step(session, verb, read_action(what) if verb in ("begins", "commits") else what, number))


def _read_setting(schedule: Schedule, name: str, text: str) -> None:
    match name:
        case "table":
            for part in text.split(","):
                column, type_, *rest = part.split()
                schedule.columns += ((column, type_.lower(), rest != ["NOT", "NULL"]),)
        case "partition":
            schedule.partition = tuple(text.replace(",", " ").split())
        case "vectors":
            schedule.properties["delta.enableDeletionVectors"] = {"on": "true", "off": "false"}[text]
        case "property":
            key, _, value = text.partition(" = ")
            schedule.properties[key] = value
        case "file":
            schedule.files.append(parse_rows(text))
        case "before":
            schedule.before.append(parse(text))
        case "only":
            schedule.memory_only = {"in memory": True}[text]
        case "layout":
            schedule.layout_matters = {"matters": True}[text]
        case _:
            raise ValueError(f"{name!r} is not a setting")


def all_schedules() -> list[Schedule]:
    """Every fixture of this folder, by name."""
    return [read_schedule(path) for path in sorted(FOLDER.glob("*.txt"))]
