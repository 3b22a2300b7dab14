"""Defines the demo's load: the batches and deletes that its writers run, and that the replay repeats to check the result.

A batch depends only on its stream's name and its number, so a log of (stream, number) is enough to repeat everything.
`sales.py` or `source.py` puts a load into the work folder; each process opens it from there (`open_load` in `staged.py`).
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

from rowlock.protocol.schema import quote

INITIAL = "initial.parquet"
SPEC = "load.json"


@dataclass(frozen=True, slots=True)
class Erasure:
    """A GDPR delete: deletes the rows that have these values."""

    values: tuple[tuple[str, Any], ...]

    @property
    def predicate(self) -> str:
        return " AND ".join(f"{quote(name)} = {literal(value)}" for name, value in self.values)


class Load(Protocol):
    """The merges and deletes of the demo.

    `key` are the columns that identify a row.  A matching merge replaces a row's columns, but adds to those in `sums`.
    """

    key: tuple[str, ...]
    sums: tuple[str, ...]
    streams: tuple[str, ...]

    def batch(self, stream: str, number: int) -> pl.DataFrame:
        """The source rows of merge number `number` of a stream: existing and new keys, each at most once, columns as in the table."""
        ...

    def erasure(self, number: int) -> Erasure:
        """The delete that the GDPR process runs as number `number`."""
        ...


def save_spec(work: Path, spec: Mapping[str, Any]) -> None:
    """Writes the description of a load into the work folder."""
    (work / SPEC).write_text(json.dumps(spec))


def merge_condition(load: Load) -> str:
    """The ON condition of a merge of source s into target t."""
    return " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in load.key)


def literal(value: Any) -> str:
    """A value as a literal of Spark SQL."""
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
