"""What the demo's writers do: the same for the process that does it and for the replay that checks it.

A load is a function of a stream's name and a batch's number, so a log of (stream, batch) is enough to
repeat everything.  It is opened from a work folder, where `sales.py` or `source.py` has put it (see `stored.py`).
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import polars as pl

INITIAL = "initial.parquet"
SPEC = "load.json"


@dataclass(frozen=True, slots=True)
class Erasure:
    """A delete by predicate: the rows that have these values."""

    values: tuple[tuple[str, Any], ...]

    @property
    def predicate(self) -> str:
        return " AND ".join(f"{quoted(name)} = {literal(value)}" for name, value in self.values)


class Load(Protocol):
    """`key` identifies a row; a match replaces the columns, but adds to those in `sums`."""

    key: tuple[str, ...]
    sums: tuple[str, ...]
    streams: tuple[str, ...]

    def batch(self, stream: str, number: int) -> pl.DataFrame:
        """The source of a stream's merge: existing and new keys, each key at most once, columns as in the table."""
        ...

    def erasure(self, number: int) -> Erasure:
        """What the GDPR process deletes in its round."""
        ...


def save_spec(work: Path, spec: Mapping[str, Any]) -> None:
    (work / SPEC).write_text(json.dumps(spec))


def merge_condition(load: Load) -> str:
    """The ON of a stream's merge of source s into target t."""
    return " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in load.key)


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(value: Any) -> str:
    """A value in Spark's SQL."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case datetime.datetime():
            return f"TIMESTAMP '{value.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S.%f}+00:00'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case decimal.Decimal():
            return f"{value:f}BD"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case bytes():
            return f"X'{value.hex()}'"
    raise TypeError(f"{type(value).__name__} cannot be written as a literal")
