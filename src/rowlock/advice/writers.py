"""The writers of a version: from a commit's commitInfo, in which any field may be missing or invalid.  Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rowlock.display import count


@dataclass(frozen=True, slots=True, order=True)
class Writer:
    """The writer that a commit records; empty or None where it records none.

    application   the name of the application or program; of a commit by another engine its job, user, or the engine itself
    host          the machine's name
    process       the process's id on that machine
    """

    application: str = ""
    host: str = ""
    process: int | None = None

    @property
    def where(self) -> str:
        """Host and process as one text, such as `etl-3, process 4711`."""
        return ", ".join(part for part in (self.host, "" if self.process is None else f"process {self.process}") if part)


class Fields:
    """The fields of a JSON value that any program may have written: one that is missing, or of another type, has no value."""

    def __init__(self, value: Any) -> None:
        self._held: Mapping[str, Any] = value if isinstance(value, Mapping) else {}

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def value(self, name: str) -> Any:
        """The value as it is."""
        return self._held.get(name)

    def fields(self, name: str) -> Fields:
        """An object."""
        return Fields(self._held.get(name))

    def list(self, name: str) -> Sequence[Any]:
        """A list."""
        value = self._held.get(name)
        return value if isinstance(value, (list, tuple)) else ()

    def text(self, *names: str) -> str:
        """The first of these fields that is a text; empty if none is."""
        return next((value for name in names if isinstance(value := self._held.get(name), str) and value), "")

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts in a list."""
        return tuple(v for v in self.list(name) if isinstance(v, str))

    def count(self, *names: str) -> int | None:
        """The first of these fields that is a whole number of at least 0 (as a number, or as text in operationMetrics)."""
        for value in map(self._held.get, names):
            if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
                return int(value)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value < 1e18:
                return int(value)
        return None

    def number(self, name: str) -> float:
        """A sensible number of seconds, else 0."""
        value = self._held.get(name)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value < 1e9 else 0.0

    def seconds(self) -> dict[str, float]:
        """The seconds by phase in the field of this name."""
        held = self.fields("seconds")
        return {str(name): held.number(name) for name in held._held}


def own_writer(record: Fields) -> Writer | None:
    """The writer that Rowlock's own record names; None if it names none."""
    named = record.fields("writer")
    writer = Writer(named.text("application"), named.text("host"), named.count("process"))
    return writer if writer != Writer() else None


def engine_of(info: Fields) -> str:
    """The engine that wrote a commit, `?` if it names none."""
    return info.text("engineInfo", "clientVersion") or "?"


def writer_of(info: Any) -> Writer:
    """The writer of a commit, by its commitInfo; other engines name a job, a notebook, a user, or themselves alone."""
    commit = Fields(info)
    job, notebook = commit.fields("job"), commit.fields("notebook")
    other = job.text("jobName", "jobId") or notebook.text("notebookId") or commit.text("userName") or engine_of(commit)
    return own_writer(commit.fields("rowlock")) or Writer(other, commit.text("clusterId"))


MOST_NAMED = 10
"""The most writers that are named; the others are counted."""


def participants(info: Mapping[str, Any]) -> dict[Writer, int]:
    """The writers of a version that several appends share, each with the number of its appends; empty for every other version."""
    members = [m for m in Fields(info).fields("rowlock").list("members") if isinstance(m, Mapping)]
    return dict(Counter(writer_of({**info, "rowlock": m} if "writer" in m else info) for m in members)) if len(members) > 1 else {}


def described(writer: Writer) -> str:
    """An application and where it ran, such as `nightly (etl-3, process 4711)`."""
    return f"{writer.application} ({writer.where})" if writer.where else writer.application


def participant_texts(info: Mapping[str, Any]) -> list[str]:
    """The number of appends that share a version, then their writers, the most first; empty for a version of one transaction."""
    found = sorted(participants(info).items(), key=lambda of: -of[1])
    named, others = found[:MOST_NAMED], found[MOST_NAMED:]
    rest = [f"{sum(n for _, n in others):,} by {count(len(others), 'other writer')}"] if others else []
    return [f"{sum(n for _, n in found):,} appends in one commit:", *(f"{n:,} by {described(writer)}" for writer, n in named), *rest] if found else []
