"""Who took part in a version, in words: several appends of threads and processes may share one (`transaction/group_commit/`).  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rowlock.advice.history import Writer, writer_of
from rowlock.display import count

MOST_NAMED = 10
"""The most writers that the words name; a group of more says how many others there were."""


def participants(info: Mapping[str, Any]) -> dict[Writer, int]:
    """The writers of a version that several appends share, each with the number of its appends; empty for every other version."""
    ours = info.get("rowlock")
    listed = ours.get("members") if isinstance(ours, Mapping) else None
    members = [m for m in listed if isinstance(m, Mapping)] if isinstance(listed, list) else []
    return dict(Counter(writer_of({**info, "rowlock": m} if "writer" in m else info) for m in members)) if len(members) > 1 else {}


def described(writer: Writer) -> str:
    """An application and where it ran, such as `nightly (etl-3, process 4711)`."""
    return f"{writer.application} ({writer.where})" if writer.where else writer.application


def told(info: Mapping[str, Any]) -> list[str]:
    """How many appends share a version, then who made them, the most first; empty for a version of one transaction."""
    found = sorted(participants(info).items(), key=lambda of: -of[1])
    named, others = found[:MOST_NAMED], found[MOST_NAMED:]
    rest = [f"{sum(n for _, n in others):,} by {count(len(others), 'other writer')}"] if others else []
    return [f"{sum(n for _, n in found):,} appends in one commit:", *(f"{n:,} by {described(writer)}" for writer, n in named), *rest] if found else []
